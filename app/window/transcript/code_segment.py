"""A code block: its language and a copy button above its lines."""

from collections.abc import Sequence

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.values.chats import DraftedSpan
from app.window.controls.icon_button import IconButton
from app.window.transcript.code_colours import CodeColours
from app.window.transcript.code_text import PADDING, CodeText
from app.window.transcript.drafted_spans import Run, tints
from app.window.transcript.look import Look, keeps_height
from app.window.transcript.segment import Segment

COPY = "Copy code"
COPIED_MS = 1500
"""For so long the button says that it has copied."""


class CodeSegment(QWidget):
    """Signal `copied`: the code went to the clipboard."""

    copied = Signal()

    def __init__(self, look: Look, language: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        keeps_height(self)
        self._look = look
        self._code = ""
        self._label = QLabel(language or "code")
        self._copy = IconButton("copy", COPY, look.muted_icons(), look.sizes)
        self._copy.clicked.connect(self.copy)
        self.lines = CodeText(look)
        self.lines.setAccessibleName(f"Code, {language or 'plain'}")
        self._colours = CodeColours(self.lines.document(), language, look.theme)
        self._back = QTimer(self)
        self._back.setSingleShot(True)
        self._back.setInterval(COPIED_MS)
        self._back.timeout.connect(lambda: self._copy.show_icon("copy", COPY))
        head = QHBoxLayout()
        head.setContentsMargins(PADDING, 2, 4, 2)
        head.addWidget(self._label)
        head.addStretch()
        head.addWidget(self._copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(self.lines)
        self._dress()

    def show_segment(self, segment: Segment, spans: Sequence[DraftedSpan]) -> None:
        """Show the code of a segment; spans count in its source."""
        code = segment.code.replace("\r\n", " \n")
        self._code = segment.code
        run = Run(0, segment.body_start, len(code))
        self.lines.show_code(code, tints([run], spans) if spans else ())
        if segment.closed:
            QTimer.singleShot(0, self, lambda: self._colours.complete(code))

    def set_look(self, look: Look) -> None:
        """Take other colours and sizes, and show or hide the tints."""
        changed = look.theme != self._look.theme
        self._look = look
        self.lines.set_look(look)
        if changed:
            self._colours.set_theme(look.theme)
        self._dress()
        self.update()

    def copy(self) -> None:
        """Put the code on the clipboard."""
        QGuiApplication.clipboard().setText(self._code)
        self._copy.show_icon("check", "Copied")
        self._back.start()
        self.copied.emit()

    def _dress(self) -> None:
        theme = self._look.theme
        self._label.setFont(self._look.small_font())
        palette = QPalette(self._label.palette())
        palette.setColor(QPalette.ColorRole.WindowText, QColor(theme.muted))
        self._label.setPalette(palette)
        self._copy.set_theme(self._look.muted_icons(), self._look.sizes)

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """The box around head and lines."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._look.theme.line), 1))
        painter.setBrush(QColor(self._look.theme.code))
        painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
