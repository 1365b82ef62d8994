"""The composer at the foot of a chat: a box that grows, attachments, Send or Stop."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTextCursor,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget
from typing_extensions import override

from app.values.attached_text import AttachedText, Refused, SaidWith
from app.window.attachments import AttachmentRow
from app.window.controls.fields import follow_writing, is_composing
from app.window.controls.icons import IconButton
from app.window.controls.labels import restyle, set_tip
from app.window.controls.layouts import STRETCH, column, row
from app.window.language import percent, said, tr
from app.window.look import look
from mlx_engine.values.words import Words

MOST_LINES = 10
LONGEST = 20_000
"""Characters; what would be longer becomes an attachment. Qt lays a paragraph out again at every
key, in a time that grows with the square of its length: 0.1 s here, 2 s at 100 000.
"""

PAGES = (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
SENDING = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
PLAIN = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)


class MessageBox(QPlainTextEdit):
    """Signals: `send_wanted`, `edit_last_wanted`, `files_pasted`(list of Path),
    `long_text_pasted`(str), `picture_pasted`, `focused`(bool).
    """

    send_wanted = Signal()
    edit_last_wanted = Signal()
    files_pasted = Signal(object)
    long_text_pasted = Signal(str)
    picture_pasted = Signal()
    focused = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Message"))
        self.setProperty("role", "message")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setAcceptDrops(False)
        self.viewport().setAcceptDrops(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(4)
        self.document().documentLayout().documentSizeChanged.connect(lambda _: self.fit())
        follow_writing(self)
        self.fit()

    def fit(self) -> None:
        """As high as the text, up to ten lines."""
        lines = min(MOST_LINES, max(1, round(self.document().size().height())))
        frame = self.contentsMargins()
        margins = 2 * self.document().documentMargin() + frame.top() + frame.bottom()
        first = self.document().firstBlock()
        self.blockBoundingRect(first)  # lays it out
        height = ceil(lines * first.layout().lineAt(0).height() + margins)
        if height != self.height():
            self.setFixedHeight(height)
        grows = lines < MOST_LINES
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAlwaysOff if grows else policy.ScrollBarAsNeeded
        )
        if grows:
            self.verticalScrollBar().setValue(0)

    def insert(self, text: str) -> None:
        """Where the cursor is, or to the attachments."""
        if self.document().characterCount() + len(text) > LONGEST:
            self.long_text_pasted.emit(text)
        else:
            self.insertPlainText(text)
            self.ensureCursorVisible()

    # Qt

    @override
    def event(self, event: QEvent) -> bool:
        # an undo that is not possible, or a jump to the end from there, is for others
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride:
            is_undo = event.matches(QKeySequence.StandardKey.Undo)
            if is_undo and not self.document().isUndoAvailable():
                return False
            is_jump = event.matches(QKeySequence.StandardKey.MoveToEndOfDocument)
            if is_jump and self.textCursor().atEnd():
                return False
            if event.key() == Qt.Key.Key_Backspace and not self._is_empty():
                event.accept()
                return True
        return super().event(event)

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        # Return sends, Shift-Return breaks the line, Up in an empty box edits the last prompt
        if event.key() in SENDING and event.modifiers() in PLAIN:
            if not is_composing(self):
                self.send_wanted.emit()
        elif event.key() in SENDING and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.insertPlainText("\n")
            self.ensureCursorVisible()
        elif event.key() == Qt.Key.Key_Up and self._is_empty():
            self.edit_last_wanted.emit()
        elif event.key() in PAGES and event.modifiers() in PLAIN and self._is_seen_whole():
            event.ignore()
        else:
            super().keyPressEvent(event)

    def _is_seen_whole(self) -> bool:
        return self.verticalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff

    def _is_empty(self) -> bool:
        return self.document().isEmpty() and not is_composing(self)

    @override
    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText() or source.hasUrls() or source.hasImage()

    @override
    def insertFromMimeData(self, source: QMimeData) -> None:
        files = [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]
        if files:
            self.files_pasted.emit(files)
        elif source.hasImage() and not source.hasText():
            self.picture_pasted.emit()
        else:
            self.insert(source.text())

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        self.fit()

    @override
    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused.emit(True)

    @override
    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focused.emit(False)


HINT = Words("Message…")
NEARLY_FULL = 0.75
"""Share of the context from which on it is told."""
NO_PICTURES = Words("The picture was not pasted: this version reads text only.")
WAIT = Words("An answer is being written: send this once it has ended, or stop it with Esc.")
DOUBLE_MS = 400
"""So long after a message was sent, the same button does not stop its answer."""


class ContextRing(QWidget):
    """How full the context is, once it is nearly full."""

    def __init__(self) -> None:
        super().__init__()
        self._share = 0.0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.hide()

    def show_context(self, used: int, length: int) -> None:
        """Tokens of the chat, and those there is room for; 0 where that is not known."""
        self._share = used / length if length else 0.0
        words = tr(
            "{share} of the room for this chat is used: {used:,} of {length:,} tokens.",
            share=percent(self._share),
            used=used,
            length=length,
        )
        self.setAccessibleName(words)
        set_tip(self, words)
        self.setVisible(self._share >= NEARLY_FULL)
        self.update()

    # Qt

    @override
    def sizeHint(self) -> QSize:
        return QSize(look().icon_size + 4, look().icon_size + 4)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        ring = self.rect().toRectF().adjusted(2, 2, -2, -2)
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(look().colour("line"), 2))
            painter.drawEllipse(ring)
            painter.setPen(QPen(look().colour("warning"), 2))
            painter.drawArc(ring, 90 * 16, -round(360 * 16 * min(1, self._share)))


class Composer(QFrame):
    """The message, its attachments, and buttons to attach files and to send.

    Signals: `sent`(text, tuple of AttachedText), `stop_wanted`,
    `attachments_changed`(tuple of AttachedText). The owner reads files that are chosen, pasted or
    dropped, and calls `attach`.
    """

    sent = Signal(str, object)
    stop_wanted = Signal()
    attachments_changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "composer")
        self.setAccessibleName(tr("Composer"))
        self._is_answering = False
        self._sent = QElapsedTimer()
        self._why_not = ""
        self.box = MessageBox()
        self.row = AttachmentRow()
        self.attach_button = IconButton("attach", tr("Attach text files"))
        self._send = IconButton("send", tr("Send"), "primary")
        self.ring = ContextRing()
        foot = row(self.attach_button, STRETCH, self.ring, self._send, spacing=8)
        column(self.row, self.box, foot, of=self, margins=(10, 8, 8, 8), spacing=4)
        self.setFocusProxy(self.box)
        self._connect()
        self.show_ready("")

    def _connect(self) -> None:
        self.box.send_wanted.connect(self._try_send)
        self.box.long_text_pasted.connect(
            lambda text: self.row.attach([AttachedText(tr("Pasted text"), text)])
        )
        self.box.picture_pasted.connect(lambda: self.row.tell(tr(NO_PICTURES)))
        self.box.textChanged.connect(self._refresh)
        self.box.focused.connect(lambda has_keys: restyle(self, "focused", has_keys))
        self.row.changed.connect(self._tell_attachments)
        self.row.setFocusProxy(self.box)
        self.row.stop_reading.clicked.connect(self.box.setFocus)
        self._send.clicked.connect(self._press)

    def text(self) -> str:
        """What is typed."""
        return self.box.toPlainText()

    def attachments(self) -> tuple[AttachedText, ...]:
        """What is attached."""
        return self.row.attachments()

    def message(self) -> SaidWith:
        """Both."""
        return SaidWith(self.text(), self.attachments())

    def show_message(self, text: str, attachments: Sequence[AttachedText] = ()) -> None:
        """Put a message in the box, to be edited or sent; one too long for it is attached."""
        if len(text) > LONGEST:
            attachments, text = (*attachments, AttachedText(tr("Pasted text"), text)), ""
        self.box.setPlainText(text)
        self.box.moveCursor(self.box.textCursor().MoveOperation.End)
        self.row.show_attachments(attachments)

    def attach(self, outcomes: Sequence[AttachedText | Refused]) -> None:
        """Attach texts; what cannot be is named with its reason."""
        self.row.attach(outcomes)

    def show_reading(self, names: Sequence[str]) -> None:
        """The texts of these files are still to come, and sending waits for them."""
        self.row.show_reading(names)
        self._refresh()

    def show_tokens(self, counts: Sequence[int | None], room: int | None) -> None:
        """Tokens of each attachment, in their order, and those a model can read; None: not known.

        What is too long is not sent.
        """
        self.row.show_tokens(counts, room)
        self._refresh()

    def show_ready(self, why_not: str = "") -> None:
        """Nothing is being answered; why_not: the reason nothing can be sent, "" when it can."""
        if self._is_answering:
            self.row.tell("")
        self._is_answering, self._why_not = False, said(why_not)
        self._hint(why_not or HINT)
        self._refresh()

    def show_answering(self) -> None:
        """An answer is being written: the button stops it."""
        self._is_answering, self._why_not = True, ""
        self._hint(HINT)
        self._refresh()

    def _hint(self, words: str) -> None:
        """Qt paints another placeholder only where an empty box is painted for another reason."""
        self.box.setPlaceholderText(said(words))
        self.box.viewport().update()

    def _problem(self) -> str:
        """Why nothing can be sent."""
        return self._why_not or self.row.reading or self.row.too_long

    def _has_message(self) -> bool:
        return bool(self.text().strip() or self.attachments())

    def type(self, text: str) -> None:
        """What was typed where no text field had the keys, or dropped; too long, it is attached."""
        self.box.setFocus()
        self.box.insert(text)

    def quote(self, text: str) -> None:
        """Put a text before what is typed next, as what is answered to."""
        self.box.setFocus()
        self.box.moveCursor(QTextCursor.MoveOperation.End)
        above = "\n\n" if self.text().strip() else ""
        lines = "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))
        self.box.insert(f"{above}{lines}\n\n")

    def _press(self) -> None:
        """The second click of a double one on Send is no wish to stop."""
        self.box.setFocus()
        if not self._is_answering:
            self._try_send()
        elif not self._sent.isValid() or self._sent.elapsed() > DOUBLE_MS:
            self.stop_wanted.emit()

    def _try_send(self) -> None:
        """Send what is there, which stays until it is sent; while an answer runs it waits."""
        if self._is_answering and self._has_message():
            self.row.tell(tr(WAIT))
        if self._is_answering or self._problem() or not self._has_message():
            return
        self._sent.start()
        self.sent.emit(self.text().strip(), self.attachments())

    def _tell_attachments(self) -> None:
        self._refresh()
        self.attachments_changed.emit(self.attachments())

    def _refresh(self) -> None:
        if self._is_answering:
            self._send.show_icon("stop", tr("Stop (Esc)"))
        else:
            self._send.show_icon("send", tr("Send"))
            set_tip(self._send, self._problem() or tr("Send (Return)"))
        can_send = self._has_message() and not self._problem()
        self._send.setEnabled(self._is_answering or can_send)

    # Qt

    @override
    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.box.setFocus()
        event.accept()
