"""A code block: its language and a copy button above its lines."""

from collections.abc import Sequence

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.values.chats import DraftedSpan
from app.window.controls.icons import IconButton
from app.window.controls.labels import label
from app.window.look import look
from app.window.transcript.code_colours import CodeColours
from app.window.transcript.code_text import PADDING, CodeText
from app.window.transcript.drafted_spans import Run, tints
from app.window.transcript.reader import Reader, keeps_height
from app.window.transcript.segment import Segment

COPY = "Copy code"
COPIED_MS = 1500
"""For so long the button says that it has copied."""


class CodeSegment(QWidget):
    """The box around head and lines."""

    def __init__(self, reader: Reader, language: str) -> None:
        super().__init__()
        keeps_height(self)
        self._code = ""
        language_label = label(language or "code", "muted")
        self._copy = IconButton("copy", COPY, colour="muted")
        self._copy.clicked.connect(self.copy)
        self.lines = CodeText(reader)
        self.lines.setAccessibleName(f"Code, {language or 'plain'}")
        self._colours = CodeColours(self.lines.document(), language)
        self._back = QTimer(self)
        self._back.setSingleShot(True)
        self._back.setInterval(COPIED_MS)
        self._back.timeout.connect(lambda: self._copy.show_icon("copy", COPY))
        head = QHBoxLayout()
        head.setContentsMargins(PADDING, 2, 4, 2)
        head.addWidget(language_label)
        head.addStretch()
        head.addWidget(self._copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(self.lines)
        self.lines.redressed.connect(self._colours.rehighlight)

    def show_segment(self, segment: Segment, spans: Sequence[DraftedSpan]) -> None:
        """Show the code of a segment; spans count in its source."""
        code = segment.code.replace("\r\n", " \n")
        self._code = segment.code
        run = Run(0, segment.body_start, len(code))
        self.lines.show_code(code, tints([run], spans) if spans else ())
        if segment.closed:
            QTimer.singleShot(0, self, lambda: self._colours.complete(code))

    def copy(self) -> None:
        """Put the code on the clipboard."""
        QGuiApplication.clipboard().setText(self._code)
        self._copy.show_icon("check", "Copied")
        self._back.start()

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802
        """The box around head and lines."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(look().colour("line"), 1))
        painter.setBrush(look().colour("code"))
        painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
