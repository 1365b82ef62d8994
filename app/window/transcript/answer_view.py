"""An answer: its thinking, its text, a notice if something went wrong."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from PySide6.QtWidgets import QWidget

from app.window.controls.layouts import column
from app.window.language import tr
from app.window.transcript.drafted_spans import spans_of
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.reader import Reader, keeps_height
from app.window.transcript.segment_column import SegmentColumn, TextWidget
from app.window.transcript.selection import Part
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.thinking import ThinkingSegment
from mlx_engine.values.conversation import TextPiece


class AnswerView(QWidget):
    """width: of the column, until it is laid out."""

    def __init__(self, reader: Reader, width: int) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._width = reader, width
        self.thinking: ThinkingSegment | None = None
        self._prose = SegmentColumn(reader, width)
        self._notice: ProseSegment | None = None
        self._plain = ""
        self._column = column(self._prose, of=self, spacing=8)

    def show_message(self, message: ShownMessage) -> None:
        """Show all there is of a message, before anything is appended."""
        live = message.state == "live"
        if message.thinking:
            segment = self._thinking_segment()
            segment.append(message.thinking, message.thinking_spans)
            if message.text or not live:
                segment.finish(message.thinking_seconds)
        if live:
            self._prose.append(message.text, sorted(message.spans))
        else:
            self._prose.show_whole(message.text, sorted(message.spans))
            self._end(message)

    def show_plain(self, message: ShownMessage) -> None:
        """Show the text of a message as it is stored, without markdown."""
        self._plain = message.text
        words = tr("This message cannot be shown as it should be. Its text:")
        plain = replace(message, notice=f"{words}\n\n{message.thinking}\n\n{message.text}")
        self._column.insertWidget(0, self._make_notice(plain))

    def append(self, pieces: Sequence[TextPiece]) -> None:
        """Add what arrived; the widgets are set once for all of it."""
        thoughts = [piece for piece in pieces if piece.channel == "thinking"]
        words = [piece for piece in pieces if piece.channel == "answer"]
        if thoughts:
            thinking = self._thinking_segment()
            spans = spans_of(thoughts, len(thinking.text))
            thinking.append("".join(piece.text for piece in thoughts), spans)
        if words:
            spans = spans_of(words, self._prose.length())
            self._prose.append("".join(piece.text for piece in words), spans)

    def finish_thinking(self, seconds: float | None) -> None:
        """The thinking is over."""
        if self.thinking is not None:
            self.thinking.finish(seconds)

    def is_of(self, message: ShownMessage) -> bool:
        """Whether what is on show is this message's text and thinking."""
        thinking = self.thinking.text if self.thinking else ""
        return (self.text(), thinking) == (message.text, message.thinking)

    def finish(self, message: ShownMessage) -> None:
        """No more will come."""
        self._prose.finish()
        self._end(message)

    def _end(self, message: ShownMessage) -> None:
        if self.thinking is not None:
            self.thinking.finish(message.thinking_seconds)
        if message.notice and self._notice is None:
            self._notice = self._make_notice(message)
            self._column.addWidget(self._notice)

    def texts(self) -> list[TextWidget]:
        """What can be searched, from the top."""
        return [*(self.thinking.texts() if self.thinking else []), *self._prose.texts()]

    def parts(self) -> list[Part]:
        """What can be selected, from the top."""
        return [*(self.thinking.parts() if self.thinking else []), *self._prose.parts()]

    def text(self) -> str:
        """The answer's markdown so far."""
        return self._plain + self._prose.text()

    def _thinking_segment(self) -> ThinkingSegment:
        """Made when the first thought arrives."""
        if self.thinking is None:
            self.thinking = ThinkingSegment(self._reader, self._width)
            self._column.insertWidget(0, self.thinking)
        return self.thinking

    def _make_notice(self, message: ShownMessage) -> ProseSegment:
        notice = ProseSegment(self._reader, muted=message.state != "failed")
        notice.setAccessibleName(tr("Why it ended"))
        notice.fit(self._width)
        words = escape(message.notice).replace("\n", "<br>")
        kind = ' class="problem"' if message.state == "failed" else ""
        notice.show_html(f"<p{kind}>{words}</p>", message.notice, ())
        return notice
