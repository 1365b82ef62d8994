"""The Drafting view: everything known about drafting in this chat, in charts and words."""

from collections.abc import Iterable, Sequence

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.state.drafting import DraftingFigures
from app.state.round_history import RoundHistory
from app.window.controls.labels import paragraph, wrapped
from app.window.controls.layouts import add, column
from app.window.drafting.charts import CostCurve, DepthBars, PassBars, StageBar
from app.window.drafting.status_strip import state_in_words
from app.window.language import said, tr
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import KernelState
from mlx_engine.values.words import Words

ABOUT = Words(
    "Drafting guesses the next tokens, and the model checks all of them in one step. Each accepted "
    "guess saves a step; the words stay the same."
)


class DraftingView(QScrollArea):
    """Shows the figures that it watches; it is left alone while it is folded away."""

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(tr("Drafting"))
        self._summary, self._gain = paragraph(), paragraph()
        about = wrapped(tr(ABOUT), "muted")
        self._reasons, self._kernels = paragraph(), paragraph()
        self._bars, self._passes = DepthBars(), PassBars()
        self._costs, self._stages = CostCurve(), StageBar()
        parts: dict[str, QWidget] = {
            tr("Speedup in this chat"): self._gain,
            tr("Accepted by position in the draft"): self._bars,
            tr("Tokens per step"): self._passes,
            tr("Time per step by tokens checked (ms)"): self._costs,
            tr("Where the time goes"): self._stages,
            tr("Not in use"): self._reasons,
            tr("Speedups on the GPU"): self._kernels,
        }
        body = QWidget()
        lines = column(about, self._summary, of=body, margins=(16, 16, 16, 16), spacing=8)
        for title, part in parts.items():
            for item in (8, wrapped(title, "heading"), part):
                add(lines, item)
        lines.addStretch(1)
        for part in (self, body):
            part.setProperty("role", "side")
        self.setWidget(body)
        self._figures: DraftingFigures | None = None
        self.show_history(RoundHistory())
        self.show_kernels(())
        self.show_costs((), 0)

    def watch(self, figures: DraftingFigures) -> None:
        """Show these figures, whenever there are others."""
        self._figures = figures
        figures.changed.connect(self._refresh)

    def _refresh(self) -> None:
        figures = self._figures
        if figures is not None and self.isVisibleTo(self.window()):
            self.show_history(figures.history, figures.declined)
            self.show_kernels(figures.model.kernels if figures.model else ())
            self.show_costs(figures.costs, figures.history.depth_in_use)

    def show_history(self, history: RoundHistory, declined: Sequence[Reason] = ()) -> None:
        """Show all figures of a chat, and what its model declined."""
        self._summary.setText(summary(history))
        self._bars.show_rows(history.depths)
        self._passes.show_tokens(history.tokens_per_pass_over_time)
        self._stages.show_stages(history.stages)
        self._gain.setText(gain_in_words(history))
        self._reasons.setText(reasons_in_words((*declined, *history.reasons)))

    def show_kernels(self, kernels: Sequence[KernelState]) -> None:
        """Show which kernels of ours the model in use goes through, and why not the others."""
        self._kernels.setText(kernels_in_words(kernels))

    def show_costs(self, verify_ms: Sequence[float], depth_in_use: int) -> None:
        """Show the measured cost of a pass of 1 row and more."""
        self._costs.show_costs(verify_ms, depth_in_use + 1)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        """It has missed what came while it was folded away."""
        super().showEvent(event)
        self._refresh()


def summary(history: RoundHistory) -> str:
    """What is in effect, and acceptance in this chat."""
    sentences = [state_in_words(history.state)]
    if history.drafted:
        share = 100 * history.accepted / history.drafted
        sentences.append(
            tr(
                "{accepted:,} of {drafted:,} drafted tokens accepted in this chat ({percent:.0f} "
                "%), {mean:.2f} tokens per step.",
                accepted=history.accepted,
                drafted=history.drafted,
                percent=share,
                mean=history.tokens_per_pass,
            )
        )
    return " ".join(filter(None, sentences)) or tr("Nothing has been drafted in this chat yet.")


def gain_in_words(history: RoundHistory) -> str:
    """Measured speed with and without drafting."""
    gain = history.gain
    if gain is None:
        return tr(
            "Not measured yet: it takes steps with and without drafting. Chat > Compare runs both."
        )
    return tr(
        "{drafted:.1f} tok/s with drafting, {plain:.1f} without: {ratio:.2f} times.",
        drafted=gain.drafted,
        plain=gain.plain,
        ratio=gain.ratio,
    )


def reasons_in_words(reasons: Iterable[Reason]) -> str:
    """Every path that was declined, a line each, no words twice."""
    lines = list(dict.fromkeys(said(reason.words) for reason in reasons))
    return "\n".join(lines) if lines else tr("Everything that speeds up this model is in use.")


def kernels_in_words(kernels: Sequence[KernelState]) -> str:
    """Those in use on one line; the others on a line for each reason."""
    used = [said(kernel.words) for kernel in kernels if kernel.in_use]
    lines = [tr("In use: {kernels}.", kernels=", ".join(used))] if used else []
    reasons = dict.fromkeys(kernel.why_not for kernel in kernels if not kernel.in_use)
    for why in reasons:
        alike = [said(kernel.words) for kernel in kernels if kernel.why_not == why]
        lines.append(
            said(why)
            if len(alike) == len(kernels)
            else tr("Not {kernels}: {why}", kernels=", ".join(alike), why=why)
        )
    return "\n".join(lines) or tr("None is in use.")
