"""A tool call in an answer: a line that opens to arguments and result, or asks to allow it."""

import json

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget
from typing_extensions import override

from app.values.tools import Decision, ToolUse, UseState, fenced
from app.window.controls.labels import announce, paragraph
from app.window.controls.layouts import STRETCH, column, row
from app.window.language import tr
from app.window.look import look
from app.window.transcript.reader import FoldHead, Reader, keeps_height
from app.window.transcript.segment_column import SegmentColumn
from app.window.transcript.selection import Part
from mlx_engine.values.words import Words

PADDING = 8
HEADS: dict[UseState, Words] = {
    "new": Words("{tool}: no result"),
    "asked": Words("The model asks to use {tool}"),
    "running": Words("Calling {tool}…"),
    "done": Words("Called {tool}"),
    "failed": Words("{tool} failed"),
    "denied": Words("{tool}: not allowed"),
}
CHOICES: tuple[tuple[Decision, Words], ...] = (
    ("once", Words("Allow Once")),
    ("chat", Words("Allow in This Chat")),
    ("deny", Words("Don't Allow")),
)


class ToolCard(QWidget):
    """A tool call, folded unless it asks for permission."""

    def __init__(self, reader: Reader, width: int) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._width = reader, width
        self._use = ToolUse("")
        self._body: SegmentColumn | None = None
        self.head = FoldHead()
        self.head.toggled.connect(self._show_body)
        self._ask, self.buttons = QWidget(), dict[Decision, QPushButton]()
        question = paragraph(tr("It runs on this computer or sends these arguments to a server."))
        for decision, words in CHOICES:
            self.buttons[decision] = button = QPushButton(tr(words))
            button.clicked.connect(lambda _=False, d=decision: reader.chat.decide_call(d))
        self.buttons["once"].setProperty("role", "primary")
        buttons = row(*self.buttons.values(), STRETCH, spacing=8)
        column(question, buttons, of=self._ask, margins=(0, 4, 0, 0), spacing=8)
        self._ask.hide()
        head = row(self.head, STRETCH)
        margins = (PADDING, 4, PADDING, PADDING)
        self._column = column(head, self._ask, of=self, margins=margins, spacing=4)

    def show_use(self, use: ToolUse) -> None:
        """Show the state of the call."""
        before, self._use = self._use, use
        if use == before:
            return
        server, _, name = use.key.partition("/")
        tool = tr("{tool} ({server})", tool=name, server=server) if server else use.name
        words = tr(HEADS[use.state], tool=tool)
        self.head.setText(words)
        self.head.setAccessibleName(words)
        self.head.is_urgent = use.state == "asked"
        self.head.updateGeometry()
        is_asked = use.state == "asked"
        for decision, label in CHOICES:
            self.buttons[decision].setAccessibleName(f"{tr(label)}: {tool}")
        self._ask.setVisible(is_asked)
        if self._body is not None:
            self._body.deleteLater()
            self._column.removeWidget(self._body)
            self._body = None
        if is_asked != (before.state == "asked"):
            self.head.setChecked(is_asked)
        self._show_body(self.head.isChecked())
        if is_asked:
            announce(self, words)

    def parts(self) -> list[Part]:
        """The selectable parts."""
        return self._body.parts() if self._body is not None and self.head.isChecked() else []

    def _show_body(self, is_open: bool) -> None:
        """Show or hide arguments and result; their widgets are made when first shown."""
        if is_open and self._body is None:
            self._body = SegmentColumn(self._reader, self._width - 2 * PADDING)
            self._body.show_whole(self._markdown(), ())
            self._column.insertWidget(1, self._body)
        if self._body is not None:
            self._body.setVisible(is_open)

    def _markdown(self) -> str:
        result = self._use.result if self._use.is_over else ""
        blocks = [tr("Arguments"), fenced(_indented(self._use.arguments), "json")]
        blocks += [tr("Result"), fenced(result, "text")] if result else []
        return "\n\n".join(blocks)

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            is_asked = self._use.state == "asked"
            painter.setPen(look().colour("accent" if is_asked else "line"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)


def _indented(arguments: str) -> str:
    return json.dumps(json.loads(arguments), ensure_ascii=False, indent=2)
