"""The strip at the window's foot: drafting in effect, acceptance, speed, context, progress."""

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.state.drafting import DraftingFigures
from app.state.round_history import DraftingNow, DraftingState, LastAnswer, RoundHistory
from app.window.controls.labels import ShortLabel, label, set_tip, tabular
from app.window.controls.layouts import STRETCH, row
from app.window.drafting.charts import Sparkline
from app.window.language import number, percent, said, tr
from mlx_engine.values.words import Words


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

    def watch(self, figures: DraftingFigures) -> None:
        """Show these figures, whenever there are others."""
        figures.changed.connect(lambda: self.show_figures(figures.history, strip_figures(figures)))

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


def strip_figures(figures: DraftingFigures) -> StripFigures:
    """Those of the answer that runs in the chat on show, else of its last one."""
    running, last, model = figures.chat.running, figures.chat.last_stats, figures.model
    progress = running.progress if running is not None and running.is_reading else None
    used = running.context_used if running else None
    if used is None and last is not None:
        used = last.prompt_tokens + last.generated_tokens
    speed = running.tokens_per_second if running else None
    if speed is None and last is not None:
        speed = last.tokens_per_second
    return StripFigures(
        tokens_per_second=speed,
        context_used=used,
        context_length=model.context_length if model else None,
        prompt_done=progress.done if progress else None,
        prompt_total=progress.total if progress else None,
    )


def state_in_words(state: DraftingState) -> str:
    """A sentence; "" before the first answer."""
    match state:
        case DraftingNow(depth=None):
            return tr("The prompt is being read.")
        case DraftingNow(depth, why):
            plain = tr("Not drafting in this round.")
            words = tr("Drafting {depth} now.", depth=depth) if depth else plain
            return said(why.words) if why is not None else words
        case LastAnswer(deepest, why=why):
            if deepest:
                return tr(
                    "The last answer drafted up to {n} tokens a round.",
                    "The last answer drafted 1 token a round.",
                    deepest,
                )
            plain = tr("The last answer was decoded plainly.")
            return tr("Last answer: {words}", words=why.words) if why is not None else plain
    return ""


PLAIN_IS_FASTER = Words("plain decoding is faster here")


def state_in_short(state: DraftingState) -> str:
    """A few words, for the strip; also that drafting does not pay on this machine."""
    match state:
        case None:
            return tr("drafting idle")
        case DraftingNow(depth=None):
            return tr("reading the prompt")
        case DraftingNow(depth):
            words = tr("drafting {depth}", depth=depth) if depth else tr("not drafting")
        case LastAnswer(depth):
            words = tr("drafted up to {depth}", depth=depth) if depth else tr("not drafted")
    return f"{words}: {tr(PLAIN_IS_FASTER)}" if state.plain_is_faster else words


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
