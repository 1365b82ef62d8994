"""An answer: thinking, text, tool calls, and a notice if it failed."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import groupby

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget
from typing_extensions import override

from app.values.chats import DraftedSpan
from app.values.tools import AnswerStep, ToolUse, gap_after, steps_of
from app.window.controls.layouts import column
from app.window.language import tr
from app.window.look import look
from app.window.transcript.drafted_spans import spans_of
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.reader import FoldHead, Reader, keeps_height
from app.window.transcript.segment_column import SegmentColumn, TextWidget
from app.window.transcript.selection import Part
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.tool_card import ToolCard
from mlx_engine.values.conversation import TextPiece

INSET = 16


class ThinkingSegment(QWidget):
    """Foldable thinking; its widgets are made when it is first opened."""

    def __init__(self, reader: Reader, width: int) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._width = reader, width
        self.text = ""
        self._spans: list[DraftedSpan] = []
        self._seconds: float | None = None
        self._finished = False
        self._body: SegmentColumn | None = None
        self.head = FoldHead()
        self.head.toggled.connect(self._open)
        self._column = column(self.head, of=self, spacing=4)
        self._column.setAlignment(self.head, Qt.AlignmentFlag.AlignLeft)
        self._say()

    @property
    def is_open(self) -> bool:
        """Whether the thinking is on show."""
        return self.head.isChecked()

    def append(self, text: str, spans: Iterable[DraftedSpan] = ()) -> None:
        """Append text; spans are offsets in all of the thinking."""
        new = list(spans)
        self.text += text
        self._spans.extend(new)
        if self._body is not None:
            self._body.append(text, new)

    def finish(self, seconds: float | None) -> None:
        """End the thinking after so many seconds; None keeps the heading."""
        if self._body is not None:
            self._body.finish()
        self._finished = True
        if seconds is not None:
            self._seconds = seconds
        self._say()

    def texts(self) -> list[TextWidget]:
        """The widgets that can be searched: none while it is closed."""
        return self._body.texts() if self._body is not None and self.is_open else []

    def parts(self) -> list[Part]:
        """The selectable parts."""
        return self._body.parts() if self._body is not None and self.is_open else []

    def words(self) -> str:
        """Text of the heading."""
        if not self._finished:
            return tr("Thinking…")
        if self._seconds is None:
            return tr("Thought")
        if self._seconds < 60:
            return tr("Thought for {seconds:.1f} s", seconds=self._seconds)
        minutes, seconds = divmod(round(self._seconds), 60)
        return tr("Thought for {minutes} min {seconds} s", minutes=minutes, seconds=seconds)

    def _open(self, is_open: bool) -> None:
        if is_open and self._body is None:
            self._body = SegmentColumn(self._reader, self._width - INSET, muted=True)
            self._body.setContentsMargins(INSET, 0, 0, 0)
            self._column.addWidget(self._body)
            self._body.append(self.text, self._spans)
            if self._finished:
                self._body.finish()
        if self._body is not None:
            self._body.setVisible(is_open)
        self.update()

    def _say(self) -> None:
        self.head.setText(self.words())
        self.head.setAccessibleName(self.words())
        self.head.updateGeometry()

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        if self._body is not None and self.is_open:
            with QPainter(self) as painter:
                line = look().colour("line")
                painter.fillRect(7, self._body.y(), 2, self._body.height(), line)


class StepView:
    """One step of an answer: thinking, text, and the tool calls after it."""

    def __init__(self, lines: QVBoxLayout, reader: Reader, width: int) -> None:
        self._lines, self._reader, self._width = lines, reader, width
        self.thinking: ThinkingSegment | None = None
        self.prose = SegmentColumn(reader, width)
        self.cards: list[ToolCard] = []
        lines.addWidget(self.prose)

    def think(self) -> ThinkingSegment:
        """Return the thinking segment, made at the first thought."""
        if self.thinking is None:
            self.thinking = ThinkingSegment(self._reader, self._width)
            self._lines.insertWidget(self._lines.indexOf(self.prose), self.thinking)
        return self.thinking

    def show_calls(self, uses: Sequence[ToolUse]) -> None:
        """Show tool calls below the text, which is complete then."""
        if not self.cards:
            self.prose.finish()
            self.prose.setVisible(bool(self.prose.text()))
            if self.thinking is not None:
                self.thinking.finish(None)
            self.cards = [ToolCard(self._reader, self._width) for _ in uses]
            for card in self.cards:
                self._lines.insertWidget(self._lines.count(), card)
        for card, use in zip(self.cards, uses, strict=False):
            card.show_use(use)

    def parts(self) -> list[Part]:
        """The selectable parts, from the top."""
        thoughts = self.thinking.parts() if self.thinking else []
        return [*thoughts, *self.prose.parts(), *(p for card in self.cards for p in card.parts())]


class AnswerView(QWidget):
    """The widgets of an answer. width: of the column, for the first layout."""

    def __init__(self, reader: Reader, width: int) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._width = reader, width
        self._notice: ProseSegment | None = None
        self._plain = ""
        self._column = column(of=self, spacing=8)
        self._steps = [StepView(self._column, reader, width)]

    @property
    def thinking(self) -> ThinkingSegment | None:
        """The thinking segment of the newest step."""
        return self._steps[-1].thinking

    @property
    def all_thinking(self) -> list[ThinkingSegment]:
        """The thinking segments of all steps, from the top."""
        return [step.thinking for step in self._steps if step.thinking is not None]

    def thoughts(self) -> str:
        """Text of all thinking so far."""
        return _joined([step.thinking.text if step.thinking else "" for step in self._steps])

    def show_message(self, message: ShownMessage) -> None:
        """Show a message before anything is appended."""
        live = message.state == "live"
        *called, last = steps_of(message.text, message.thinking, message.uses)
        for step in called:
            if step.thinking:
                thoughts = _within(message.thinking_spans, step.thinking_start, step.thinking)
                self._steps[-1].think().append(step.thinking, thoughts)
            self._steps[-1].prose.show_whole(step.text, _within(message.spans, *step[:2]))
            self._show_calls_of(step)
        thoughts = _within(message.thinking_spans, last.thinking_start, last.thinking)
        if last.thinking:
            segment = self._steps[-1].think()
            segment.append(last.thinking, thoughts)
            if last.text or not live:
                segment.finish(None if called else message.thinking_seconds)
        spans, prose = _within(message.spans, last.text_start, last.text), self._steps[-1].prose
        if live:
            prose.append(last.text, sorted(spans))
        else:
            prose.show_whole(last.text, sorted(spans))
            self._end(message)

    def show_uses(self, uses: Sequence[ToolUse]) -> None:
        """Update the tool calls."""
        calls = [tuple(group) for _, group in groupby(uses, lambda use: use.step)]
        for step, group in zip(self._steps, calls, strict=False):
            step.show_calls(group)
        if len(self._steps) == len(calls):
            self._steps.append(StepView(self._column, self._reader, self._width))

    def _show_calls_of(self, step: AnswerStep) -> None:
        self._steps[-1].show_calls(step.uses)
        self._steps.append(StepView(self._column, self._reader, self._width))

    def show_plain(self, message: ShownMessage) -> None:
        """Show the stored text without rendering Markdown."""
        self._plain = message.text
        words = tr("This message cannot be shown as it should be. Its text:")
        plain = replace(message, notice=f"{words}\n\n{message.thinking}\n\n{message.text}")
        self._column.insertWidget(0, self._make_notice(plain))

    def append(self, pieces: Sequence[TextPiece]) -> None:
        """Append pieces; each widget is updated once."""
        step = self._steps[-1]
        thoughts = [piece for piece in pieces if piece.channel == "thinking"]
        words = [piece for piece in pieces if piece.channel == "answer"]
        if thoughts:
            thinking = step.think()
            spans = spans_of(thoughts, len(thinking.text))
            thinking.append("".join(piece.text for piece in thoughts), spans)
        if words:
            if step is not self._steps[0] and step.thinking is not None and not step.prose.text():
                step.thinking.finish(None)
            spans = spans_of(words, step.prose.length())
            step.prose.append("".join(piece.text for piece in words), spans)

    def finish_thinking(self, seconds: float | None) -> None:
        """End the thinking of the newest step."""
        if self.thinking is not None:
            self.thinking.finish(seconds)

    def is_of(self, message: ShownMessage) -> bool:
        """Whether text and thinking on show are those of a message."""
        return (self.text(), self.thoughts()) == (message.text, message.thinking)

    def finish(self, message: ShownMessage) -> None:
        """Show the final state of the answer."""
        self.show_uses(message.uses)
        self._steps[-1].prose.finish()
        self._end(message)

    def _end(self, message: ShownMessage) -> None:
        if self.thinking is not None:
            self.thinking.finish(None if message.uses else message.thinking_seconds)
        if message.notice and self._notice is None:
            self._notice = self._make_notice(message)
            self._column.addWidget(self._notice)

    def texts(self) -> list[TextWidget]:
        """The widgets that can be searched: all thinking, then all text, from the top."""
        thoughts = [text for thinking in self.all_thinking for text in thinking.texts()]
        return [*thoughts, *(text for step in self._steps for text in step.prose.texts())]

    def parts(self) -> list[Part]:
        """The selectable parts, from the top."""
        return [part for step in self._steps for part in step.parts()]

    def text(self) -> str:
        """Markdown of the answer so far."""
        return self._plain + _joined([step.prose.text() for step in self._steps])

    def _make_notice(self, message: ShownMessage) -> ProseSegment:
        notice = ProseSegment(self._reader, muted=message.state != "failed")
        notice.setAccessibleName(tr("Why it ended"))
        notice.fit(self._width)
        words = escape(message.notice).replace("\n", "<br>")
        kind = ' class="problem"' if message.state == "failed" else ""
        notice.show_html(f"<p{kind}>{words}</p>", message.notice, ())
        return notice


def _within(spans: Sequence[DraftedSpan], start: int, text: str) -> Sequence[DraftedSpan]:
    """Return the spans of a part of an answer, counted from its beginning."""
    if not start:
        return [span for span in spans if span.end <= len(text)]
    end = start + len(text)
    return [
        span._replace(start=span.start - start, end=span.end - start)
        for span in spans
        if start <= span.start and span.end <= end
    ]


def _joined(texts: Sequence[str]) -> str:
    """Join the texts of all steps as they are stored."""
    whole = texts[0]
    for text in texts[1:]:
        whole += gap_after(whole) + text
    return whole
