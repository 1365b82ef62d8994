"""One side of a comparison: its speed, its figures and its answer."""

from PySide6.QtWidgets import QFrame

from app.state.answers import Growth, RunningAnswer
from app.window.controls.chart import Part, ShareBar
from app.window.controls.labels import paragraph, tabular
from app.window.controls.layouts import STRETCH, Wide, column
from app.window.language import percent, tr
from app.window.transcript.answer_view import AnswerView
from app.window.transcript.pinned_scroll import PinnedScroll
from app.window.transcript.reader import Reader
from app.window.transcript.shown_message import ShownMessage
from mlx_engine.values.stats import GenerationStats

LOWEST = 220
"""Pixels: where a window has less room for an answer, the page is scrolled."""


class ComparePane(QFrame):
    """An answer as in a chat, below its figures. is_strong: its bar is in the accent colour."""

    def __init__(self, title: str, is_strong: bool, reader: Reader) -> None:
        super().__init__()
        self._title, self._colour = title, "accent" if is_strong else "muted"
        self._reader = reader
        self._answer: RunningAnswer | None = None
        self.view: AnswerView | None = None
        self.setProperty("role", "card")
        self.setAccessibleName(title)
        self._speed, self._figures = paragraph("", "figure"), paragraph("", "muted")
        for figures in (self._speed, self._figures):
            tabular(figures)
        self._bar = ShareBar(tr("{title}: speed", title=title))
        self._scroll = PinnedScroll()
        self._scroll.setAccessibleName(tr("{title}: answer", title=title))
        self._scroll.setMinimumHeight(LOWEST)
        self._lines = column(STRETCH, of=self._scroll.content)
        heading = paragraph(title, "heading")
        parts = (heading, self._speed, self._bar, self._figures, 6, Wide(self._scroll))
        column(*parts, of=self, margins=(16, 12, 16, 12), spacing=6)

    def show_answer(self, answer: RunningAnswer | None) -> None:
        """Show an answer that begins, None for none; the same one goes on."""
        if answer is self._answer:
            return
        if self.view is not None:
            self._lines.removeWidget(self.view)
            self.view.hide()
            self.view.deleteLater()
        self._answer, self.view = answer, None
        if answer is not None:
            self.view = AnswerView(self._reader, self._scroll.viewport().width())
            self._lines.insertWidget(0, self.view)
            self._scroll.follow()

    def grow(self, growth: Growth) -> None:
        """Add what has arrived of the answer."""
        if self.view is not None and self._answer is not None:
            self.view.append(growth.pieces)
            if growth.ends_thinking:
                self.view.finish_thinking(self._answer.thinking_seconds)

    def finish(self) -> None:
        """No more of the answer comes."""
        if self.view is not None and self._answer is not None:
            seconds = self._answer.thinking_seconds
            text = self._answer.answer.text
            self.view.finish(ShownMessage(0, "assistant", text, thinking_seconds=seconds))

    def show_figures(self, speed: float | None, fastest: float, words: str) -> None:
        """Show tokens a second, None for none, beside those of the faster side, and `words`."""
        told = "" if speed is None else tr("{speed:.1f} tok/s", speed=speed)
        self._speed.setText(told)
        self._figures.setText(words)
        share = speed / fastest if speed and fastest else 0.0
        self._bar.show_parts(told, Part(share, self._colour))
        self.setAccessibleDescription(", ".join(filter(None, (self._title, told, words))))


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
