"""The box a message is typed in: it grows with its text, and Return sends."""

from math import ceil
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy

from app.window.controls.writing import follow_writing, is_composing
from app.window.language import tr

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

    def event(self, event: QEvent) -> bool:
        """Take Ctrl-Backspace while there is text.

        Undo is left to others while there is none to undo, and a jump to the end at the end.
        """
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

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return sends, Shift-Return breaks the line, Up in an empty box edits the last prompt.

        Page Up and Page Down are for what is around it where it has no more pages itself.
        """
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

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Text and local files, and pictures, of which it is said why they are not."""
        return source.hasText() or source.hasUrls() or source.hasImage()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Files and long texts are for the attachments."""
        files = [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]
        if files:
            self.files_pasted.emit(files)
        elif source.hasImage() and not source.hasText():
            self.picture_pasted.emit()
        else:
            self.insert(source.text())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width breaks lines elsewhere."""
        super().resizeEvent(event)
        self.fit()

    def changeEvent(self, event: QEvent) -> None:
        """Another font has other lines."""
        super().changeEvent(event)
        self.fit()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Tell the frame around it."""
        super().focusInEvent(event)
        self.focused.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell the frame around it."""
        super().focusOutEvent(event)
        self.focused.emit(False)
