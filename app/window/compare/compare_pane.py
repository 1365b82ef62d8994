"""One side of a comparison: its speed, its figures and its text."""

from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from app.window.compare.compared_text import ComparedText
from app.window.compare.speed_bar import SpeedBar
from app.window.controls.labels import label, paragraph, tabular
from mlx_engine.values.stats import GenerationStats

State = Literal["idle", "waiting", "running", "done", "ended"]


class ComparePane(QFrame):
    """Text and speed as they come; is_strong: its bar is in the accent colour."""

    def __init__(self, title: str, is_strong: bool) -> None:
        super().__init__()
        self._title, self._is_strong = title, is_strong
        self._state: State = "idle"
        self.speed = 0.0
        self.setProperty("role", "card")
        self.setAccessibleName(title)
        self._speed, self._figures = label("", "figure"), paragraph("", "muted")
        for figures in (self._speed, self._figures):
            tabular(figures)
        self._bar = SpeedBar()
        self._bar.setAccessibleName(f"{title}: speed")
        self._text = ComparedText(f"{title}: answer")
        top = QHBoxLayout()
        top.addWidget(label(title, "heading"), 1, Qt.AlignmentFlag.AlignBottom)
        top.addWidget(self._speed)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(6)
        column.addLayout(top)
        column.addWidget(self._bar)
        column.addWidget(self._figures)
        column.addSpacing(6)
        column.addWidget(self._text, 1)
        self._enter("idle", "Not run yet")

    def begin(self) -> None:
        """It runs now."""
        self._text.start_again()
        self._enter("running", "Reading the prompt")

    def wait(self) -> None:
        """It runs after the other one."""
        self._text.start_again()
        self._enter("waiting", "Runs next")

    def add_text(self, text: str, is_thinking: bool = False) -> None:
        """More of the answer, or of the thinking before it."""
        if self._figures.text() != "Running":
            self._say("", "Running")
        self._text.add(text, is_thinking)

    def text(self) -> str:
        """Thinking and answer so far."""
        return self._text.said

    def show_speed(self, tokens_per_second: float) -> None:
        """Speed so far."""
        self.speed = tokens_per_second
        self._say(f"{tokens_per_second:.1f} tok/s", self._figures.text())

    def show_share(self, fastest: float) -> None:
        """The bar, beside the faster side's speed."""
        share = self.speed / fastest if fastest else 0.0
        self._bar.show_share(share, self._speed.text(), self._is_strong)

    def mark_from(self, character: int | None) -> None:
        """Where the other side says something else; None for nowhere."""
        self._text.mark_from(character)

    def finish(self, stats: GenerationStats) -> None:
        """The answer is complete."""
        self._state, self.speed = "done", stats.tokens_per_second
        self._say(f"{stats.tokens_per_second:.1f} tok/s", figures_in_words(stats))

    def end(self, words: str) -> None:
        """Stopped or failed; a side that is complete stays as it is."""
        if self._state in ("running", "waiting"):
            self._enter("ended", words)

    def _enter(self, state: State, words: str) -> None:
        self._state, self.speed = state, 0.0
        self._say("", words)
        self.show_share(0.0)

    def _say(self, speed: str, figures: str) -> None:
        self._speed.setText(speed)
        self._figures.setText(figures)
        said = ", ".join(filter(None, (self._title, speed, figures)))
        self.setAccessibleDescription(said)


def figures_in_words(stats: GenerationStats) -> str:
    """ "212 tokens · 2.91 tok/pass · 82 % of drafts accepted (174/212)"."""
    parts = [f"{stats.generated_tokens:,} tokens", f"{stats.tokens_per_pass:.2f} tok/pass"]
    if stats.drafted:
        share = f"{100 * stats.acceptance:.0f} %"
        parts.append(f"{share} of drafts accepted ({stats.accepted:,}/{stats.drafted:,})")
    return " · ".join(parts)
