"""What the user wrote, in a soft bubble; long text shows its beginning."""

from html import escape

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QPushButton, QWidget

from app.window.controls.fields import TOO_LONG, Lines, asks_for_escape
from app.window.controls.labels import paragraph, say
from app.window.controls.layouts import SPARE, Wide, column, row
from app.window.look import look
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.reader import Reader, keeps_height

SHORT = 2_000
"""Characters of a long text that are shown at first."""
SHORT_LINES = 24
MOST = 100_000
"""Characters shown on demand; Copy and Edit always take all."""
PADDING_X, PADDING_Y = 16, 10
SHARE = 0.85
"""Widest bubble, as a share of the column."""


class UserBubble(QWidget):
    """Signal `edited`(str): the text to send instead, which stays in its editor until it was sent.
    Places its parts itself: see `fit`.
    """

    edited = Signal(str)

    def __init__(self, reader: Reader, message_id: int, text: str, width: int) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._unsent, self._id = reader, reader.unsent, message_id
        self._text, self._width = text, width
        self._box = QRect()
        self.prose = ProseSegment(reader, parent=self)
        self.prose.setAccessibleName("Your message")
        self._more = QPushButton(f"Show all of {_size(len(text))}", self)
        self._more.setProperty("role", "quiet")
        self._more.clicked.connect(lambda: self._show(is_whole=True))
        self.editor: BubbleEditor | None = None
        self._show(is_whole=False)
        if message_id in self._unsent:
            self._open_editor()

    def edit(self) -> None:
        """Let the user change the text here; Escape gives up."""
        self._unsent.setdefault(self._id, self._text)
        self._open_editor().field.setFocus()

    def _open_editor(self) -> "BubbleEditor":
        if self.editor is None:
            self.editor = BubbleEditor(self._unsent[self._id], self)
            self.editor.changed.connect(lambda text: self._unsent.update({self._id: text}))
            self.editor.accepted.connect(self.edited)
            self.editor.given_up.connect(self._close_editor)
            self.editor.show()
            self.fit(self._width)
        return self.editor

    def fit(self, width: int) -> None:
        """Be as wide as the text needs, at the right side of a column this wide."""
        self._width = width
        self.prose.setVisible(self.editor is None)
        if self.editor is not None:
            self._more.hide()
            self.editor.setGeometry(0, 0, width, self.editor.sizeHint().height())
            self.setFixedHeight(self.editor.height())
        else:
            self._more.setVisible(self._is_cut)
            self._place(width)
        self.update()

    def _place(self, width: int) -> None:
        most = round(width * SHARE) - 2 * PADDING_X
        self.prose.fit(most)
        more = self._more.sizeHint() if self._is_cut else QSize(0, 0)
        ideal = max(round(self.prose.document().idealWidth()) + 2, more.width())
        needed = min(most, ideal)
        left = width - needed - PADDING_X
        text_height = self.prose.height()
        self.prose.setGeometry(left, PADDING_Y, needed, text_height)
        self._more.setGeometry(left, PADDING_Y + text_height, more.width(), more.height())
        height = text_height + more.height() + 2 * PADDING_Y
        self._box = QRect(left - PADDING_X, 0, needed + 2 * PADDING_X, height)
        self.setFixedHeight(height)

    def _show(self, is_whole: bool) -> None:
        """The text up to MOST of it, or its beginning."""
        shown, rest = beginning_of(self._text), len(self._text) - MOST
        self._is_cut = not is_whole and shown != self._text
        if is_whole:
            more = f"\n\n… {_size(rest)} more: Copy and Edit take all." if rest > 0 else ""
            shown = self._text[:MOST] + more
        self.prose.show_html(_lines(shown), shown, ())
        self.fit(self._width)

    def _close_editor(self) -> None:
        self._unsent.pop(self._id, None)
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
        self.fit(self._width)
        self._reader.edit_given_up.emit()

    # Qt

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Larger text needs a larger bubble."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.prose.take_look()
            self.fit(self._width)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """The bubble."""
        if self.editor is None:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(look().colour("bubble"))
            painter.drawRoundedRect(self._box, 14, 14)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep to the right side."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.fit(self.width())


class BubbleEditor(QWidget):
    """Signals `changed`(str), `accepted`(str), and `given_up`."""

    changed = Signal(str)
    accepted = Signal(str)
    given_up = Signal()

    def __init__(self, text: str, parent: QWidget) -> None:
        super().__init__(parent)
        beginning = text[:4000]
        self.field = Lines(min(16, max(3, text.count("\n", 0, 4000) + 1 + len(beginning) // 80)))
        self.field.setAccessibleName("Edit your message")
        self.field.setFont(look().text_font())
        self.field.fit()
        self.field.setPlainText(text)
        self._problem = paragraph("", "problem")
        say(self._problem, "")
        self.send = QPushButton("Send again")
        self.send.setProperty("role", "primary")
        cancel = QPushButton("Cancel")
        foot = row(Wide(self._problem), SPARE, cancel, self.send)
        column(self.field, foot, of=self, spacing=8)
        self.field.textChanged.connect(lambda: self.changed.emit(self.field.toPlainText()))
        self.field.refused.connect(lambda: say(self._problem, TOO_LONG))
        self.send.clicked.connect(self._accept)
        cancel.clicked.connect(self.given_up)

    def _accept(self) -> None:
        text = self.field.toPlainText()
        if text.strip():
            self.accepted.emit(text)

    # Qt

    def event(self, event: QEvent) -> bool:
        """Escape is a key here, before it stops an answer."""
        if asks_for_escape(event):
            event.accept()
            return True
        return bool(super().event(event))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape gives up; Command or Control with Return sends."""
        if event.matches(QKeySequence.StandardKey.Cancel):
            self.given_up.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and (
            event.modifiers() & Qt.KeyboardModifier.ControlModifier
        ):
            self._accept()
        else:
            super().keyPressEvent(event)


def beginning_of(text: str) -> str:
    """What is shown of a text at first."""
    shown = "\n".join(text[:SHORT].split("\n", SHORT_LINES)[:SHORT_LINES])
    return shown if len(shown) == len(text) else shown + " …"


def _lines(text: str) -> str:
    """A paragraph for each line: long text is laid out faster in many than in one."""
    style = 'style="margin:0; white-space:pre-wrap"'
    return "".join(f"<p {style}>{escape(line) or '<br>'}</p>" for line in text.split("\n"))


def _size(letters: int) -> str:
    """ "2.0 MB" or "4,321 characters"."""
    if letters < 20_000:
        return f"{letters:,} characters"
    return f"{letters / 1e6:.1f} MB" if letters >= 1e6 else f"{letters / 1e3:.0f} kB"
