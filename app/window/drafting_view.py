"""The Drafting view with its charts, and the status strip at the foot of the window."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPen, QShowEvent
from PySide6.QtWidgets import QAbstractButton, QFrame, QScrollArea, QWidget
from typing_extensions import override

from app.state.drafting import DraftingFigures
from app.state.round_history import DraftingNow, DraftingState, LastAnswer, RoundHistory
from app.state.server import ServerState
from app.window.controls.labels import ShortLabel, label, paragraph, say, set_tip, tabular, wrapped
from app.window.controls.layouts import STRETCH, Group, Item, Wide, column, row
from app.window.controls.scroll_bar import overlay_bar
from app.window.drafting_charts import CostCurve, DepthBars, PassBars, StageBar
from app.window.language import DRAFTING, STEP, TOKEN, percent, said, tr
from app.window.look import look
from mlx_engine.values.conversation import PromptProgress
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import KernelState
from mlx_engine.values.words import Words

WHAT_THIS_IS = Words(
    "Drafting in this chat, its speed, and how many tokens it has of those that the model can "
    "read. {token}\nClick for details.",
    token=TOKEN,
)
WORTH_SAYING = 1.05
"""Gain from which drafting is called faster."""
OFF = "off"
"""Code of the reason not to draft where drafting is switched off."""


@dataclass(frozen=True, slots=True)
class StripFigures:
    """Figures of the status strip beside the round history; None if not known."""

    tokens_per_second: float | None = None
    context_used: int | None = None
    context_length: int | None = None
    reading: PromptProgress | None = None


class StatusStrip(QAbstractButton):
    """A line of live figures; a click opens the Drafting view."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Drafting status"))
        set_tip(self, tr(WHAT_THIS_IS))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._sentence = ShortLabel()
        self._sentence.setProperty("role", "note")
        self._speed, self._context = label("", "note"), label("", "note")
        self._server = label("", "note")
        self._server.hide()
        for figures in (self._server, self._speed, self._context):
            figures.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            tabular(figures)
        self._keep_columns()
        parts = (Wide(self._sentence), self._server, self._speed, self._context)
        row(*parts, of=self, margins=(16, 4, 16, 4), spacing=24)
        for part in (self._sentence, self._server, self._speed, self._context):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.show_figures(RoundHistory(), StripFigures())

    def watch(self, figures: DraftingFigures) -> None:
        """Show these figures."""
        self._watched = figures
        figures.changed.connect(self._refresh)

    def _refresh(self) -> None:
        self.show_figures(self._watched.history, strip_figures(self._watched))

    def watch_server(self, server: ServerState) -> None:
        """Show the server's state while it is switched on."""

        def show() -> None:
            say(self._server, server_words(server) if server.is_on else "")

        server.changed.connect(show)

    def show_figures(self, history: RoundHistory, figures: StripFigures) -> None:
        """Show the newest figures."""
        speed = figures.tokens_per_second
        self._sentence.show_text(drafting_sentence(history))
        self._speed.setText("" if speed is None else tr("{speed:.1f} tok/s", speed=speed))
        self._context.setText(context_in_words(figures))
        self._context.setVisible(bool(self._context.text()))
        words = (drafting_sentence(history), accepted_in_words(history))
        told = (*words, self._speed.text(), self._context.text())
        self.setAccessibleDescription(" · ".join(filter(None, dict.fromkeys(told))))

    def _keep_columns(self) -> None:
        """Reserve room for the widest figures, so that nothing moves as they change."""
        metrics = self.fontMetrics()
        self._speed.setMinimumWidth(metrics.horizontalAdvance(tr("{speed:.1f} tok/s", speed=999)))
        self._context.setMinimumWidth(
            metrics.horizontalAdvance(
                tr("{used:,} of {length:,} tokens", used=99_999, length=99_999)
            )
        )

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._keep_columns()

    @override
    def sizeHint(self) -> QSize:
        return QSize(200, self.fontMetrics().height() + 12)

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        if self.hasFocus():
            with QPainter(self) as painter:
                painter.setPen(QPen(look().colour("accent"), 1))
                painter.drawRect(self.rect().adjusted(0, 0, -1, -1))


def server_words(server: ServerState) -> str:
    """Describe the server's state in a few words."""
    if not server.address:
        return tr("Server: not running")
    if not server.requests:
        return tr("Server: on")
    return tr(
        "Server: {n} requests, {speed:.0f} tok/s",
        "Server: 1 request, {speed:.0f} tok/s",
        server.requests,
        speed=server.tokens_per_second,
    )


def strip_figures(figures: DraftingFigures) -> StripFigures:
    """Return figures of the running answer of the chat on show, or of the last one of its model."""
    running, model = figures.chat.running, figures.model
    progress = running.progress if running is not None and running.is_reading else None
    speed = running.tokens_per_second if running else None
    return StripFigures(
        tokens_per_second=figures.last_speed if speed is None else speed,
        context_used=figures.context_used,
        context_length=model.context_length if model else None,
        reading=progress,
    )


def state_in_words(state: DraftingState) -> str:
    """Describe what drafting does, "" before the first answer."""
    match state:
        case DraftingNow(depth=None):
            return tr("The prompt is being read.")
        case DraftingNow(depth, why):
            plain = tr("Not drafting now.")
            words = (
                tr("Guessing {n} tokens ahead now.", "Guessing 1 token ahead now.", depth)
                if depth
                else plain
            )
            return said(why.words) if why is not None else words
        case LastAnswer(deepest, why=why):
            if deepest:
                return tr(
                    "Last answer: up to {n} tokens ahead.",
                    "Last answer: 1 token ahead.",
                    deepest,
                )
            plain = tr("The last answer was written without drafting.")
            return tr("Last answer: {words}", words=why.words) if why is not None else plain
    return ""


PLAIN_IS_FASTER = Words("answers come faster without drafting here")


def drafting_sentence(history: RoundHistory) -> str:
    """Say what is worth knowing about drafting in this chat, "" for nothing."""
    state, gain = history.state, history.gain
    if isinstance(state, DraftingNow) and state.depth is None:
        return tr("Reading the prompt…")
    if state is not None and state.plain_is_faster:
        drafts = state.depth if isinstance(state, DraftingNow) else state.drafted
        faster = tr("Answers come faster without drafting here")
        return faster if drafts else tr("Drafting is paused: answers come faster without it here")
    if state is not None and was_not_drafted(state):
        return ""
    if gain is not None and gain.ratio >= WORTH_SAYING:
        return tr("{ratio:.1f}× faster with drafting", ratio=gain.ratio)
    return accepted_in_words(history)


def was_not_drafted(state: DraftingNow | LastAnswer) -> bool:
    """Whether drafting is switched off, or had no part in the last answer."""
    is_off = state.why is not None and state.why.code == OFF
    return is_off or (isinstance(state, LastAnswer) and not state.drafted)


def accepted_in_words(history: RoundHistory) -> str:
    """Say which share of the drafted tokens was accepted, "" if nothing was drafted."""
    if not history.drafted:
        return ""
    return tr("{share} of guesses right", share=percent(history.accepted / history.drafted))


def context_in_words(figures: StripFigures) -> str:
    """Say how much of the prompt is read while it is, else how much of the context is used."""
    reading = figures.reading
    if reading and reading.pictures:
        return tr(
            "Looking at picture {number} of {count}, {share}",
            number=reading.picture_number,
            count=reading.pictures,
            share=percent(reading.encoded / reading.pictures),
        )
    if reading and reading.done < reading.total - 1:
        return tr("{done:,} of {total:,} tokens read", done=reading.done, total=reading.total)
    if figures.context_used is None or figures.context_length is None:
        return ""
    return tr(
        "{used:,} of {length:,} tokens", used=figures.context_used, length=figures.context_length
    )


BARS = Words(
    "Row 1 is the first guessed token of a step, row 2 the second, and so on. A full bar "
    "means every guess was right. The further ahead, the harder it is to guess."
)
PASSES = Words(
    "A bar for each of the last steps. Below: the one token that a step gives in any case. "
    "Above it: what right guesses added."
)
COSTS = Words(
    "At the left, milliseconds that a step takes; below, tokens that it checks at once. Dashed: "
    "the time the same tokens take without drafting. Below it, guessing can pay off. Large dot: "
    "in use now."
)
STAGES = Words(
    "Share of time spent guessing, checking, choosing what to keep, and everything else."
)
REASONS = Words("What could speed up this model but isn't available here.")
KERNELS = Words(
    "Each speeds up one part of the model's arithmetic on the graphics processor (GPU)."
)


def _titled(title: str, part: QWidget, legend: str = "") -> tuple[Item, ...]:
    """Return a figure with its title, and a legend if it needs one."""
    items = 8, wrapped(title, "heading"), part
    if not legend:
        return items
    part.setAccessibleDescription(tr(legend))
    return *items, wrapped(legend, "muted")


class DraftingView(QScrollArea):
    """Charts and sentences about drafting in the chat on show; not updated while hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(tr("Drafting"))
        self._summary, self._gain = paragraph(), paragraph()
        self.details = Group(
            Words("Details"), is_open=False, what=Words("Where the time goes, for the curious.")
        )
        self._reasons, self._kernels = paragraph(), paragraph()
        self._bars, self._passes = DepthBars(), PassBars()
        self._costs, self._stages = CostCurve(), StageBar()
        body = QWidget()
        column(
            wrapped(tr(DRAFTING), "muted"),
            wrapped(f"{tr(TOKEN)} {tr(STEP)}", "muted"),
            self._summary,
            *_titled(tr("Speed in this chat"), self._gain),
            *_titled(tr("How many guesses were right"), self._bars, BARS),
            *_titled(tr("Tokens per step"), self._passes, PASSES),
            8,
            self.details,
            STRETCH,
            of=body,
            margins=(16, 16, 16, 16),
            spacing=8,
        )
        self.details.add(
            *_titled(tr("Time per step"), self._costs, COSTS),
            *_titled(tr("Where the time goes"), self._stages, STAGES),
            *_titled(tr("Not in use"), self._reasons, REASONS),
            *_titled(tr("Speedups on the GPU"), self._kernels, KERNELS),
        )
        for part in (self, body):
            part.setProperty("role", "side")
        self.setWidget(body)
        overlay_bar(self)
        self._figures: DraftingFigures | None = None
        self.show_history(RoundHistory())
        self.show_kernels(())
        self.show_costs((), 0)

    def watch(self, figures: DraftingFigures) -> None:
        """Show these figures."""
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
        """Show how many Metal kernels the model in use runs, and why not the others."""
        self._kernels.setText(kernels_in_words(kernels))
        names = kernel_names(kernels)
        set_tip(self._kernels, names)
        self._kernels.setAccessibleDescription(f"{tr(KERNELS)}\n{names}".strip())

    def show_costs(self, verify_ms: Sequence[float], depth_in_use: int) -> None:
        """Show the measured cost of a pass of 1 row and more."""
        self._costs.show_costs(verify_ms, depth_in_use + 1)

    # Qt

    @override
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()


def summary(history: RoundHistory) -> str:
    """Say what drafting does, and the acceptance in this chat."""
    sentences = [state_in_words(history.state)]
    if history.drafted:
        sentences.append(
            tr(
                "{accepted:,} of {drafted:,} guesses were right in this chat ({share}): {mean:.2f} "
                "tokens per step instead of 1.",
                accepted=history.accepted,
                drafted=history.drafted,
                share=percent(history.accepted / history.drafted),
                mean=history.tokens_per_pass,
            )
        )
    return " ".join(filter(None, sentences)) or tr("Nothing has been guessed in this chat yet.")


def gain_in_words(history: RoundHistory) -> str:
    """Say the measured speed with and without drafting."""
    gain = history.gain
    if gain is None:
        return tr(
            "Not measured yet. To measure it, choose Chat > Compare With and Without Drafting."
        )
    return tr(
        "{drafted:.1f} tokens per second with drafting, {plain:.1f} without: {ratio:.2f} times as "
        "fast.",
        drafted=gain.drafted,
        plain=gain.plain,
        ratio=gain.ratio,
    )


def reasons_in_words(reasons: Iterable[Reason]) -> str:
    """List reasons why something is not in use, without repeating one."""
    lines = list(dict.fromkeys(said(reason.words) for reason in reasons))
    return "\n".join(lines) if lines else tr("Everything that speeds up this model is in use.")


def kernels_in_words(kernels: Sequence[KernelState]) -> str:
    """Say how many kernels are in use, and how many are off for each reason."""
    reasons = Counter(kernel.why_not for kernel in kernels if not kernel.is_in_use)
    if len(kernels) in reasons.values() or not kernels:
        return " ".join((tr("None is in use."), *map(said, reasons)))
    used = len(kernels) - reasons.total()
    told = tr("{used} of {all} speedups are in use.", used=used, all=len(kernels))
    off = (tr("{n} off: {why}", "1 off: {why}", n, why=why) for why, n in reasons.items())
    return "\n".join((told, *off))


def kernel_names(kernels: Sequence[KernelState]) -> str:
    """List what each kernel speeds up: a line for those in use, one for each reason to be off."""
    alike: dict[str, list[str]] = {}
    for kernel in kernels:
        is_partial = kernel.is_in_use and kernel.details
        in_use = tr("In use for some number formats") if is_partial else tr("In use")
        line = tr("Off. {why}", why=kernel.why_not).rstrip(".") if kernel.why_not else in_use
        alike.setdefault(line, []).append(said(kernel.words))
    return "\n".join(f"{line}: {', '.join(names)}." for line, names in alike.items())
