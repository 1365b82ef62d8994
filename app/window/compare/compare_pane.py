"""One side of a comparison: its speed, its figures and its text."""

from typing import NamedTuple

from PySide6.QtCore import QEvent, QTimer
from PySide6.QtWidgets import QFrame

from app.window.controls.chart import Part, ShareBar
from app.window.controls.labels import paragraph, tabular
from app.window.controls.layouts import STRETCH, Wide, column
from app.window.language import percent, tr
from app.window.look import look
from app.window.transcript.pinned_scroll import PinnedScroll
from app.window.transcript.reader import Reader
from app.window.transcript.segment_column import SegmentColumn, TextWidget
from mlx_engine.values.stats import GenerationStats

AFTER_THINKING = "\n\n"
LOWEST = 220
"""Pixels: where a window has less room for an answer, the page is scrolled."""

MARKED = 0.16
"""Opacity of the error colour behind what differs."""


class Passage(NamedTuple):
    """Thinking, or an answer; start: its first character in all that was said."""

    text: SegmentColumn
    start: int
    is_thinking: bool


class ComparedText(PinnedScroll):
    """Grows at its end, shown as in a chat; `said` is all of it, as it is compared."""

    def __init__(self, name: str, reader: Reader) -> None:
        super().__init__()
        self._reader = reader
        self._from: int | None = None
        self._passages: list[Passage] = []
        self.said = ""
        self.setAccessibleName(name)
        self.setMinimumHeight(LOWEST)
        self._lines = column(STRETCH, of=self.content, spacing=8)
        self._mark_soon = QTimer(self, singleShot=True, interval=0)
        self._mark_soon.timeout.connect(self._mark)
        reader.formulas.shown.connect(self._mark_soon.start)

    def start_again(self) -> None:
        """Nothing has been said."""
        for passage in self._passages:
            self._lines.removeWidget(passage.text)
            passage.text.hide()
            passage.text.deleteLater()
        self._passages.clear()
        self.said, self._from = "", None
        self.follow()

    def add(self, text: str, is_thinking: bool) -> None:
        """More of it; the view follows unless the user scrolled up."""
        if not self._passages or self._passages[-1].is_thinking != is_thinking:
            self._begin(is_thinking)
        self.said += text
        self._passages[-1].text.append(text)

    def _begin(self, is_thinking: bool) -> None:
        self.finish()
        if self._passages and not is_thinking:
            self.said += AFTER_THINKING
        text = SegmentColumn(self._reader, self.viewport().width(), muted=is_thinking)
        self._passages.append(Passage(text, len(self.said), is_thinking))
        self._lines.insertWidget(len(self._passages) - 1, text)

    def finish(self) -> None:
        """No more of this comes, for now."""
        if self._passages:
            self._passages[-1].text.finish()
            self._mark()

    def texts(self) -> list[TextWidget]:
        """The widgets that hold it, from the top."""
        return [text for passage in self._passages for text in passage.text.texts()]

    def mark_from(self, character: int | None) -> None:
        """Mark what stands at and after this character of `said`; None for nothing."""
        if character is not None or self._from is not None:
            self._from = character
            self._mark()

    def _mark(self) -> None:
        for text, start, _ in self._passages:
            first = None if self._from is None else max(0, self._from - start)
            text.mark_from(first, look().colour("error", MARKED))

    def go_to_mark(self) -> None:
        """Show where what is marked begins."""
        for text in self.texts():
            for marked in text.extraSelections()[:1]:
                cursor = text.textCursor()
                cursor.setPosition(marked.cursor.selectionStart())
                room = self.viewport().height() // 3
                self.go_to(text.viewport(), text.cursorRect(cursor).center(), room)
                return

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        """What is marked takes the colour of now."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._from is not None:
            self._mark_soon.start()


class ComparePane(QFrame):
    """`text` and speed as they come; is_strong: its bar is in the accent colour."""

    def __init__(self, title: str, is_strong: bool, reader: Reader) -> None:
        super().__init__()
        self._title, self._colour = title, "accent" if is_strong else "muted"
        self.speed, self._is_due = 0.0, False
        self.setProperty("role", "card")
        self.setAccessibleName(title)
        self._speed, self._figures = paragraph("", "figure"), paragraph("", "muted")
        for figures in (self._speed, self._figures):
            tabular(figures)
        self._bar = ShareBar(tr("{title}: speed", title=title))
        self.text = ComparedText(tr("{title}: answer", title=title), reader)
        heading = paragraph(title, "heading")
        parts = (heading, self._speed, self._bar, self._figures, 6, Wide(self.text))
        column(*parts, of=self, margins=(16, 12, 16, 12), spacing=6)
        self._enter(tr("Not run yet"), is_due=False)

    def begin(self) -> None:
        """It runs now."""
        self.text.start_again()
        self._enter(tr("Reading the prompt"), is_due=True)

    def wait(self) -> None:
        """It runs after the other one."""
        self.text.start_again()
        self._enter(tr("Runs next"), is_due=True)

    def add_text(self, text: str, is_thinking: bool = False) -> None:
        """More of the answer, or of the thinking before it."""
        if self._figures.text() != tr("Running"):
            self._say("", tr("Running"))
        self.text.add(text, is_thinking)

    def show_speed(self, tokens_per_second: float) -> None:
        """Speed so far."""
        self.speed = tokens_per_second
        self._say(tr("{speed:.1f} tok/s", speed=tokens_per_second), self._figures.text())

    def show_share(self, fastest: float) -> None:
        """The bar, beside the faster side's speed."""
        share = self.speed / fastest if fastest else 0.0
        self._bar.show_parts(self._speed.text(), Part(share, self._colour))

    def finish(self, stats: GenerationStats) -> None:
        """The answer is complete."""
        self.text.finish()
        self._is_due, self.speed = False, stats.tokens_per_second
        self._say(tr("{speed:.1f} tok/s", speed=stats.tokens_per_second), figures_in_words(stats))

    def end(self, words: str) -> None:
        """Stopped or failed; a side that is complete stays as it is."""
        self.text.finish()
        if self._is_due:
            self._enter(words, is_due=False)

    def _enter(self, words: str, is_due: bool) -> None:
        self._is_due, self.speed = is_due, 0.0
        self._say("", words)
        self.show_share(0.0)

    def _say(self, speed: str, figures: str) -> None:
        self._speed.setText(speed)
        self._figures.setText(figures)
        said = ", ".join(filter(None, (self._title, speed, figures)))
        self.setAccessibleDescription(said)


def figures_in_words(stats: GenerationStats) -> str:
    """ "212 tokens · 2.91 tok/pass · 82 % of drafts accepted (174/212)"."""
    parts = [
        tr("{tokens:,} tokens", tokens=stats.generated_tokens),
        tr("{mean:.2f} tok/pass", mean=stats.tokens_per_pass),
    ]
    if stats.drafted:
        share = percent(stats.acceptance).replace(" ", "\N{NO-BREAK SPACE}")
        parts.append(
            tr(
                "{share} of drafts accepted ({accepted:,}/{drafted:,})",
                share=share,
                accepted=stats.accepted,
                drafted=stats.drafted,
            )
        )
    return " · ".join(parts)
