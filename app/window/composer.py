"""The composer at the foot of a chat: a growing text box, attachments, Send or Stop."""

from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QImage,
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

from app.state.attached_files import AttachedFiles
from app.state.chat import ChatState
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.attached_text import AttachedPdf, AttachedText, SaidWith, fenced, with_attachments
from app.window.attachments import AttachmentRow, why_blind
from app.window.controls.dialogs import choose_files
from app.window.controls.fields import follow_writing, is_composing
from app.window.controls.icons import IconButton
from app.window.controls.labels import restyle, set_tip
from app.window.controls.layouts import STRETCH, column, row
from app.window.language import percent, said, tr
from app.window.look import look
from app.window.pictures import copied_pictures, png_of
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import Words

MOST_LINES = 10
LONGEST = 20_000
"""Characters of the text box; longer texts are attached.

Qt lays a paragraph out again at every key, in quadratic time: 0.1 s here, 2 s at 100 000.
"""

PAGES = (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
SENDING = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
PLAIN = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)


class MessageBox(QPlainTextEdit):
    """The text box.

    Signals: `send_wanted`, `edit_last_wanted`, `files_pasted`(list of Path),
    `long_text_pasted`(str), `picture_pasted`(QImage), `copied_picture_pasted`(bytes of
    a file), `focused`(bool).
    """

    send_wanted = Signal()
    edit_last_wanted = Signal()
    files_pasted = Signal(object)
    long_text_pasted = Signal(str)
    picture_pasted, copied_picture_pasted = Signal(object), Signal(object)
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
        """Fit the height to the text, up to ten lines."""
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
        """Insert a text at the cursor, or attach it if it is too long."""
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
            is_redo = event.matches(QKeySequence.StandardKey.Redo)
            can_undo, can_redo = (
                self.document().isUndoAvailable(),
                self.document().isRedoAvailable(),
            )
            if (is_undo and not can_undo) or (is_redo and not can_redo):
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
        elif copied := copied_pictures(source):
            for file in copied:
                self.copied_picture_pasted.emit(file)
            self.insert(source.text())
        elif source.hasImage() and not source.hasText():
            self.picture_pasted.emit(QImage(source.imageData()))
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


HINT, NO_MODEL = Words("Message…"), Words("Open or drop a model first")
NEARLY_FULL = 0.75
"""Share of the context from which the ring is shown."""
WAIT = Words("An answer is being written: send this once it has ended, or stop it with Esc.")
DOUBLE_MS = 400
"""Milliseconds after sending in which the button does not stop the answer."""


class ContextRing(QWidget):
    """A ring that shows how full the context is, once it is nearly full."""

    def __init__(self) -> None:
        super().__init__()
        self._share = 0.0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.hide()

    def show_context(self, used: int, length: int) -> None:
        """Show the tokens of the chat, and of the context; 0 if not known."""
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
    """The unsent message of a chat, its attachments, and a button to send or stop."""

    _chat: ChatState
    _models: ModelState
    _files: AttachedFiles
    _settings: KeptSettings

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "composer")
        self.setAccessibleName(tr("Composer"))
        self._was_answering = False
        self._sent = QElapsedTimer()
        self.box, self.row = MessageBox(), AttachmentRow()
        self.row.setFocusProxy(self.box)
        self._attach = IconButton("attach", tr("Attach files"))
        self._send = IconButton("send", tr("Send"), "primary")
        self.ring = ContextRing()
        foot = row(self._attach, STRETCH, self.ring, self._send, spacing=8)
        column(self.row, self.box, foot, of=self, margins=(10, 8, 8, 8), spacing=4)
        self.setFocusProxy(self.box)
        self.box.long_text_pasted.connect(
            lambda text: self.row.attach([AttachedText(tr("Pasted text"), text)])
        )
        self.box.focused.connect(lambda has_keys: restyle(self, "focused", has_keys))

    def watch(
        self,
        chat: ChatState,
        models: ModelState,
        files: AttachedFiles,
        settings: KeptSettings,
        edit_last: Callable[[], object],
    ) -> None:
        """Show and send the unsent message of this chat.

        settings: hold the folder of the last file dialog. edit_last: edits the last question.
        """
        self._chat, self._models, self._files, self._settings = chat, models, files, settings
        self.box.send_wanted.connect(self._try_send)
        self.box.edit_last_wanted.connect(edit_last)
        self.box.files_pasted.connect(files.read)
        self.box.picture_pasted.connect(
            lambda image: files.read_pasted(tr("Pasted picture"), lambda: png_of(image))
        )
        self.box.copied_picture_pasted.connect(
            lambda file: files.read_pasted(tr("Pasted picture"), lambda: file)
        )
        self.box.textChanged.connect(self._keep)
        self.row.changed.connect(self._count)
        self.row.pages_wanted.connect(files.read_pages)
        self.row.stop_reading.clicked.connect(self._give_up_reading)
        self._attach.clicked.connect(self._choose_files)
        self._send.clicked.connect(self._press)
        files.changed.connect(self._show_reading)
        files.arrived.connect(self.row.attach)
        chat.opened.connect(self._show_unsent)
        models.progressed.connect(self._show_tokens)
        models.switched.connect(self._count)
        for state in (chat, models):
            state.changed.connect(self._refresh)
        self._refresh()

    # the message

    def text(self) -> str:
        """The typed text."""
        return self.box.toPlainText()

    def attachments(self) -> tuple[AttachedText, ...]:
        """The attached texts."""
        return self.row.attachments()

    def pictures(self) -> tuple[Picture, ...]:
        """The attached pictures."""
        return self.row.pictures()

    def message(self) -> SaidWith:
        """The typed text with its attachments and pictures."""
        return SaidWith(self.text(), self.attachments(), self.pictures(), self.row.pdfs())

    def show_message(
        self,
        text: str,
        attachments: Sequence[AttachedText] = (),
        pictures: Sequence[Picture] = (),
        pdfs: Sequence[AttachedPdf] = (),
    ) -> None:
        """Replace the message; a text too long for the box is attached.

        pdfs: files to which some of the attachments or pictures belong.
        """
        if len(text) > LONGEST:
            attachments, text = (*attachments, AttachedText(tr("Pasted text"), text)), ""
        self.box.setPlainText(text)
        self.box.moveCursor(QTextCursor.MoveOperation.End)
        self.row.show_attachments(attachments, pictures, pdfs)

    def type(self, text: str) -> None:
        """Insert text that was typed elsewhere or dropped; a long text is attached."""
        self.box.setFocus()
        self.box.insert(text)

    def quote(self, text: str) -> None:
        """Insert a text as a quote above the typed one."""
        self.box.setFocus()
        self.box.moveCursor(QTextCursor.MoveOperation.End)
        above = "\n\n" if self.text().strip() else ""
        lines = "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))
        self.box.insert(f"{above}{lines}\n\n")

    def _show_unsent(self) -> None:
        self.show_message(*self._chat.unsent)
        self._show_reading()

    def _keep(self) -> None:
        self._chat.unsent = self.message()
        self._refresh()

    # attachments

    def _show_reading(self) -> None:
        self.row.show_reading(self._files.names)
        self._refresh()

    def _choose_files(self) -> None:
        title, every_kind = tr("Attach files"), ""
        paths = choose_files(self, title, every_kind, self._settings)
        self._files.read([Path(path) for path in paths])

    def _give_up_reading(self) -> None:
        self.box.setFocus()
        self._files.give_up()

    def _count(self) -> None:
        """Request the tokens of the attachments and pictures."""
        self._keep()
        self._models.count((*map(fenced, self.attachments()), *self.pictures()))
        self._show_tokens()

    def _show_tokens(self) -> None:
        model, counts = self._models.description, self._models.token_counts
        room = model.context_length if model else None
        texts = [counts.get(fenced(attachment)) for attachment in self.attachments()]
        self.row.show_tokens(texts, room, [counts.get(picture) for picture in self.pictures()])
        self._refresh()

    # sending

    @property
    def _is_answering(self) -> bool:
        return self._chat.running is not None

    @property
    def _why_not(self) -> str:
        """Return why the message cannot be sent, "" if it can."""
        no_model = "" if self._models.can_answer else tr(NO_MODEL)
        return no_model or self.row.reading or self.row.too_long or self.row.unseen

    def _has_message(self) -> bool:
        return bool(self.text().strip() or self.attachments() or self.pictures())

    def _press(self) -> None:
        """Send or stop; a double click on Send does not stop."""
        self.box.setFocus()
        if not self._is_answering:
            self._try_send()
        elif not self._sent.isValid() or self._sent.elapsed() > DOUBLE_MS:
            self._chat.stop()

    def _try_send(self) -> None:
        """Send the message; it stays while an answer is written, or if sending fails."""
        if self._is_answering and self._has_message():
            self.row.tell(tr(WAIT))
        if self._is_answering or self._why_not or not self._has_message():
            return
        self._sent.start()
        text = with_attachments(self.text().strip(), self.attachments())
        if self._chat.send(text, self.pictures()):
            self.show_message("")

    def _refresh(self) -> None:
        """Update the button and its tooltip."""
        is_answering = self._is_answering
        unseen = self._chat.why_unseen(len(self._chat.turns))
        self.row.show_vision(why_blind(self._models.description), said(unseen) if unseen else "")
        if self._was_answering and not is_answering:
            self.row.tell("")
        self._was_answering = is_answering
        hint = tr(HINT if self._models.can_answer or is_answering else NO_MODEL)
        if hint != self.box.placeholderText():
            self.box.setPlaceholderText(hint)
            self.box.viewport().update()  # Qt paints an empty box anew only for another reason
        if is_answering:
            self._send.show_icon("stop", tr("Stop (Esc)"))
        else:
            self._send.show_icon("send", tr("Send"))
            set_tip(self._send, self._why_not or tr("Send (Return)"))
        self._send.setEnabled(is_answering or (self._has_message() and not self._why_not))

    # Qt

    @override
    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.box.setFocus()
        event.accept()
