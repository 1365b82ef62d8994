"""Streaming Markdown as a column of prose and code widgets; only the last one changes."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from PySide6.QtCore import QEvent
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget
from typing_extensions import override

from app.values.chats import DraftedSpan
from app.window.controls.layouts import Wide, column, row
from app.window.language import tr
from app.window.look import look
from app.window.transcript.code_segment import CodeSegment, CodeText
from app.window.transcript.drafted_spans import within
from app.window.transcript.formulas import Searched, in_sources
from app.window.transcript.markdown_text import markdown_html
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.reader import GAP, LIST_STEP, PARAGRAPH_GAP, Reader, keeps_height
from app.window.transcript.selection import Part
from app.window.transcript.streaming_markdown import (
    Segment,
    StreamingMarkdown,
    settled,
)

DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]:[ \t]*\S+.*$", re.MULTILINE)
MOST_DEFINITIONS = 1000
"""Most link and footnote definitions that all segments of an answer share."""


TextWidget = ProseSegment | CodeText


def searched(widget: TextWidget) -> Searched:
    """Return the text of a widget in which words are found."""
    if isinstance(widget, ProseSegment):
        return widget.searched()
    return in_sources(widget.text(), ())


class Placed(NamedTuple):
    """Number of layout items before a segment, and its list level."""

    items: int
    level: int


class SegmentColumn(QWidget):
    """Streaming Markdown as a column of widgets. width: for the first layout."""

    def __init__(self, reader: Reader, width: int, muted: bool = False) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._muted = reader, muted
        self._width = width
        self._stream = StreamingMarkdown(may_be_json=not muted)
        self._spans: list[DraftedSpan] = []
        self._widgets: list[ProseSegment | CodeSegment] = []
        self._places: list[Placed] = []
        self._definitions = ""
        self._column = column(of=self, spacing=0)

    def append(self, text: str, spans: Iterable[DraftedSpan] = ()) -> None:
        """Append text; spans are offsets in all of the text."""
        self._spans.extend(spans)
        self._show_from(self._stream.append(text))

    def show_whole(self, text: str, spans: Iterable[DraftedSpan]) -> None:
        """Show a complete text; each segment is rendered once."""
        self._spans.extend(spans)
        self._stream.append(text)
        self._close()
        self._show_from(0)

    def text(self) -> str:
        """The Markdown so far."""
        return self._stream.text

    def length(self) -> int:
        """Number of characters so far."""
        segments = self._stream.segments
        return segments[-1].end if segments else 0

    def finish(self) -> None:
        """Close the last segment, and resolve reference links."""
        first = self._close()
        self._show_from(0 if self._definitions else first)

    def _close(self) -> int:
        """End the stream; return the index of the first segment that changed."""
        first = self._stream.finish()
        self._definitions = link_definitions(self._stream.segments)
        return first

    def parts(self) -> list[Part]:
        """Return the selectable parts, from the top."""
        pairs = zip(self.texts(), self._stream.segments, strict=True)
        return [Part(text, segment.source, text.selected_words) for text, segment in pairs]

    def texts(self) -> list[TextWidget]:
        """The widgets with text, from the top."""
        return [w if isinstance(w, ProseSegment) else w.lines for w in self._widgets]

    def _show_from(self, first: int) -> None:
        segments = self._stream.segments
        while len(self._widgets) > len(segments) or self._differ_in_kind(first):
            self._drop_last()
        for index in range(first, len(segments)):
            if index == len(self._widgets):
                self._add(segments[index])
            self._show(index)

    def _differ_in_kind(self, first: int) -> bool:
        """Whether one of the widgets from `first` on is not of its segment's kind and level."""
        shown = zip(
            self._widgets[first:], self._places[first:], self._stream.segments[first:], strict=False
        )
        return any(
            isinstance(widget, CodeSegment) != (segment.kind == "code")
            or place.level != segment.level
            for widget, place, segment in shown
        )

    def _show(self, index: int) -> None:
        widget, segment = self._widgets[index], self._stream.segments[index]
        if isinstance(widget, CodeSegment):
            widget.show_segment(segment, self._spans)
            return
        spans = within(self._spans, segment.start, segment.end, len(segment.head))
        written = segment.head + segment.source
        source = segment.markdown if segment.closed else settled(segment.markdown)
        definitions = self._definitions if segment.closed else ""
        widget.show_html(markdown_html(source, definitions), written, spans)
        widget.setVisible(bool(source.strip()))

    def _add(self, segment: Segment) -> None:
        widget: ProseSegment | CodeSegment
        left = segment.level * round(LIST_STEP * look().zoom)
        self._places.append(Placed(self._column.count(), segment.level))
        if segment.kind == "code":
            widget = CodeSegment(self._reader, segment.language)
            widget.resize(self._width - left, 1)
            self._column.addSpacing(GAP - PARAGRAPH_GAP if self._widgets else 0)
        else:
            widget = ProseSegment(self._reader, self._muted)
            widget.setAccessibleName(tr("Thinking") if self._muted else tr("Answer"))
            widget.fit(self._width - left)
            widget.resize(self._width - left, 1)
            if self._widgets and isinstance(self._widgets[-1], CodeSegment):
                self._column.addSpacing(GAP)
        if left:
            self._column.addLayout(row(Wide(widget), margins=(left, 0, 0, 0)))
        else:
            self._column.addWidget(widget)
        self._widgets.append(widget)

    def _drop_last(self) -> None:
        widget, place = self._widgets.pop(), self._places.pop()
        while self._column.count() > place.items:
            self._column.takeAt(place.items)
        widget.hide()
        widget.deleteLater()

    # Qt

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._width = self.contentsRect().width()

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            ends = (*(place.items for place in self._places[1:]), self._column.count())
            for place, end in zip(self._places, ends, strict=False):
                item = self._column.itemAt(end - 1)
                if item is not None and (inset := item.layout()) is not None:
                    left = place.level * round(LIST_STEP * look().zoom)
                    inset.setContentsMargins(left, 0, 0, 0)


def link_definitions(segments: Iterable[Segment]) -> str:
    """Return the lines of prose that define reference links and footnotes."""
    prose = (segment.source for segment in segments if segment.kind == "prose")
    lines = (found[0] for source in prose for found in DEFINITION.finditer(source))
    return "\n".join(islice(lines, MOST_DEFINITIONS))
