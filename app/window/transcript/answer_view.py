"""An answer: its thinking, its text, a notice if something went wrong."""

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.window.transcript.growing_text import GrowingText
from app.window.transcript.look import Look, keeps_height
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.rendered_html import MarkdownHtml
from app.window.transcript.segment_column import SegmentColumn
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.thinking_segment import ThinkingSegment, ThinkingShown
from mlx_engine.values.events import TextPiece


class AnswerView(QWidget):
    """Signal `link_clicked`(str); `shown`: whether thinking is open, by itself."""

    link_clicked = Signal(str)

    def __init__(
        self, look: Look, renderer: MarkdownHtml, width: int, shown: ThinkingShown
    ) -> None:
        super().__init__()
        keeps_height(self)
        self._look, self._renderer, self._width, self._shown = look, renderer, width, shown
        self._text, self._thoughts = GrowingText(), GrowingText()
        self.thinking: ThinkingSegment | None = None
        self._prose = SegmentColumn(look, renderer, width)
        self._prose.link_clicked.connect(self.link_clicked)
        self._notice: ProseSegment | None = None
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self._column.addWidget(self._prose)

    def show_message(self, message: ShownMessage) -> None:
        """Show all there is of a message, once, before anything is appended."""
        live = message.state == "live"
        if message.thinking:
            self._thoughts.add(message.thinking)
            segment = self._thinking_segment(live)
            segment.append(message.thinking, message.thinking_spans)
            if message.text or not live:
                segment.finish(message.thinking_seconds)
        self._text.add(message.text)
        self._prose.append(message.text, sorted(message.spans))
        if not live:
            self.finish(message)

    def append(self, pieces: Sequence[TextPiece]) -> None:
        """Add what arrived; the widgets are set once for all of it."""
        thoughts = [piece for piece in pieces if piece.channel == "thinking"]
        words = [piece for piece in pieces if piece.channel == "answer"]
        if thoughts:
            spans = self._thoughts.spans_of(thoughts)
            self._thinking_segment(True).append("".join(p.text for p in thoughts), spans)
        if words:
            spans = self._text.spans_of(words)
            self._prose.append("".join(piece.text for piece in words), spans)

    def finish_thinking(self, seconds: float | None, closes: bool) -> None:
        """The thinking is over; closes: nobody reads it, so it may fold away."""
        if self.thinking is not None:
            self.thinking.finish(seconds)
            if closes and self._shown == "while-thinking":
                self.thinking.set_open(False)

    def is_of(self, message: ShownMessage) -> bool:
        """Whether what is on show is this message's text and thinking."""
        return (self._text.text, self._thoughts.text) == (message.text, message.thinking)

    def finish(self, message: ShownMessage) -> None:
        """No more will come."""
        self._prose.finish()
        if self.thinking is not None:
            self.thinking.finish(message.thinking_seconds)
        if message.notice and self._notice is None:
            self._notice = self._make_notice(message)
            self._column.addWidget(self._notice)

    def set_look(self, look: Look) -> None:
        """Take other colours and sizes, and show or hide the tints."""
        self._look = look
        self._prose.set_look(look)
        for part in (self.thinking, self._notice):
            if part is not None:
                part.set_look(look)

    def columns(self) -> list[SegmentColumn]:
        """What can be searched, from the top."""
        return [*(self.thinking.columns() if self.thinking else []), self._prose]

    def text(self) -> str:
        """The answer's markdown so far."""
        return self._text.text

    def _thinking_segment(self, live: bool) -> ThinkingSegment:
        """Made when the first thought arrives."""
        if self.thinking is None:
            self.thinking = ThinkingSegment(self._look, self._renderer, self._width)
            self.thinking.link_clicked.connect(self.link_clicked)
            self._column.insertWidget(0, self.thinking)
            opened = self._shown == "open" or (self._shown == "while-thinking" and live)
            self.thinking.set_open(opened)
        return self.thinking

    def _make_notice(self, message: ShownMessage) -> ProseSegment:
        notice = ProseSegment(self._look, muted=message.state != "failed")
        notice.setAccessibleName("Why it ended")
        notice.fit(self._width)
        words = escape(message.notice).replace("\n", "<br>")
        kind = ' class="problem"' if message.state == "failed" else ""
        notice.show_html(f"<p{kind}>{words}</p>", message.notice, ())
        return notice
