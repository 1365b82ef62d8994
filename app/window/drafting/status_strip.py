"""The strip at the window's foot: drafting in effect, acceptance, speed, context, progress."""

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.window.controls.labels import ShortLabel, label, set_tip, tabular
from app.window.controls.layouts import STRETCH, row
from app.window.drafting.charts import Sparkline
from app.window.drafting.round_history import RoundHistory, state_in_short
from app.window.language import number, percent, tr


@dataclass(frozen=True, slots=True)
class StripFigures:
    """Figures that are not in the round history; None is not known."""

    tokens_per_second: float | None = None
    context_used: int | None = None
    context_length: int | None = None
    prompt_done: int | None = None
    prompt_total: int | None = None


class StatusStrip(QWidget):
    """One line of live figures. Signal `opened`: the user wants the Drafting view."""

    opened = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Drafting status"))
        set_tip(self, tr("Open the Drafting view"))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._drafting, self._acceptance = ShortLabel(), label("", "note")
        self._drafting.setProperty("role", "note")
        self._drafting.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._per_pass, self._speed, self._context = (label("", "note") for _ in range(3))
        self._sparkline = Sparkline()
        self._sparkline.setAccessibleName(tr("Acceptance of the recent rounds"))
        left = (self._drafting, self._sparkline, self._acceptance, self._per_pass)
        right = (self._speed, self._context)
        line = row(*left, STRETCH, *right, of=self, margins=(16, 4, 16, 4), spacing=16)
        line.addStrut(self._sparkline.height_wanted())
        for figures in self.findChildren(QLabel):
            tabular(figures)
        self.show_figures(RoundHistory(), StripFigures())

    def show_figures(self, history: RoundHistory, figures: StripFigures) -> None:
        """Show the newest figures."""
        drafting = state_in_short(history.state)
        self._drafting.show_text(drafting)
        recent = history.acceptance_over_time
        self._sparkline.show_values(recent)
        self._sparkline.setVisible(bool(recent))
        drafted = history.drafted
        self._acceptance.setText(percent(history.accepted / drafted) if drafted else "")
        passes = history.tokens_per_pass
        self._per_pass.setText(tr("{passes:.1f} tok/pass", passes=passes) if drafted else "")
        self._speed.setText(speed_in_words(history, figures))
        self._context.setText(context_in_words(figures))
        self._context.setVisible(bool(self._context.text()))
        others = (self._acceptance, self._per_pass, self._speed, self._context)
        said = (drafting, *(figures.text() for figures in others))
        self.setAccessibleDescription(" · ".join(filter(None, said)))

    # Qt

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click opens the Drafting view."""
        if self.rect().contains(event.position().toPoint()):
            self.opened.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """So do Return and Space."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.opened.emit()
        else:
            super().keyPressEvent(event)


def speed_in_words(history: RoundHistory, figures: StripFigures) -> str:
    """Tokens per second, beside plain decoding's where this chat has measured it."""
    if figures.tokens_per_second is None:
        return ""
    gain = history.gain
    speed = figures.tokens_per_second
    if gain is None:
        return tr("{speed:.1f} tok/s", speed=speed)
    return tr("{speed:.1f} tok/s (plain {plain:.1f})", speed=speed, plain=gain.plain)


def context_in_words(figures: StripFigures) -> str:
    """Prompt progress while it runs, else context used of what there is."""
    if figures.prompt_total and (figures.prompt_done or 0) < figures.prompt_total - 1:
        return tr(
            "reading {done:,} of {total:,} tokens",
            done=figures.prompt_done,
            total=figures.prompt_total,
        )
    if figures.context_used is None or figures.context_length is None:
        return ""
    return f"{_thousands(figures.context_used)} / {_thousands(figures.context_length)}"


def _thousands(count: int) -> str:
    return number(count / 1000, ".1f") + "k" if count >= 1000 else str(count)
