"""Figures of every chat, stored and new, shown in the strip and the Drafting view."""

from PySide6.QtCore import QObject

from app.state.answers import Growth, RunningAnswer, worth_telling
from app.store.messages import Messages
from app.values.errors import StoreError
from app.window.drafting.drafting_view import DraftingView
from app.window.drafting.round_history import RoundHistory
from app.window.drafting.status_strip import StatusStrip, StripFigures
from app.worker.replies import CostsMeasured
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.stats import GenerationStats


class LiveFigures(QObject):
    """Shows one chat's figures; the others' are kept."""

    def __init__(
        self,
        strip: StatusStrip,
        drafting: DraftingView,
        messages: Messages,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._strip, self._drafting, self._messages = strip, drafting, messages
        self._histories: dict[int, RoundHistory] = {}
        self._begun: set[int] = set()
        self._chat_id: int | None = None
        self._last: GenerationStats | None = None
        self._running: RunningAnswer | None = None
        self._model: ModelDescription | None = None
        self.costs: tuple[float, ...] = ()

    @property
    def history(self) -> RoundHistory:
        """Of the chat on show."""
        return self.history_of(self._chat_id)

    def history_of(self, chat_id: int | None) -> RoundHistory:
        """Of any chat; an empty one that is not kept for a chat without a number."""
        if chat_id is None:
            return RoundHistory()
        if chat_id not in self._histories:
            self._histories[chat_id] = RoundHistory(self._past_of(chat_id))
        return self._histories[chat_id]

    def _past_of(self, chat_id: int) -> list[GenerationStats]:
        """Of the model in use; before there is one, of the model that answered last.

        None where the store has trouble, which others tell.
        """
        try:
            past = self._messages.figures(chat_id)
        except StoreError:
            return []
        model = self._model.name if self._model else past[-1].model if past else ""
        stats = (worth_telling(figures.stats) for figures in past if figures.model == model)
        return list(filter(None, stats))

    def show_chat(
        self, chat_id: int | None, last: GenerationStats | None, running: RunningAnswer | None
    ) -> None:
        """Show a chat, its last answer's figures, and the answer that runs in it."""
        self._chat_id, self._last, self._running = chat_id, last, running
        self._show()

    def take(self, answer: RunningAnswer, growth: Growth) -> None:
        """An answer grew."""
        history = self.history_of(answer.chat_id)
        if answer.chat_id not in self._begun:
            self._begun.add(answer.chat_id)
            history.begin_answer()
        history.add(growth.rounds)
        if answer.chat_id == self._chat_id:
            self._running = answer
            self._show()

    def end(self, answer: RunningAnswer) -> None:
        """An answer is over."""
        self._begun.discard(answer.chat_id)
        self.history_of(answer.chat_id).end_answer()
        if answer.chat_id == self._chat_id:
            self._running = None
            self._last = answer.stats or self._last
            self._show()

    def show_model(self, model: ModelDescription | None) -> None:
        """Another model is in use: what was measured with the last one says nothing any more."""
        self._model, self.costs = model, ()
        self._histories.clear()
        self._begun.clear()
        self._show()

    def describe_model(self, model: ModelDescription | None) -> None:
        """More is known of the model in use; what was measured with it stands."""
        self._model = model
        self._show()

    def show_costs(self, measured: CostsMeasured) -> None:
        """What a pass of 1 and more rows costs here."""
        self.costs = measured.verify_ms
        self._show()

    def _show(self) -> None:
        history = self.history
        self._strip.show_figures(history, self._figures())
        self.show_drafting()

    def show_drafting(self) -> None:
        """Bring the Drafting view up to date; it is left alone while it is folded away."""
        if not self._drafting.isVisibleTo(self._drafting.window()):
            return
        self._drafting.show_history(self.history, _declined(self._model))
        self._drafting.show_kernels(self._model.kernels if self._model else ())
        self._drafting.show_costs(self.costs, self.history.depth_in_use)

    def _figures(self) -> StripFigures:
        running, last = self._running, self._last
        progress = running.progress if running else None
        used = running.context_used if running else None
        if used is None and last is not None:
            used = last.prompt_tokens + last.generated_tokens
        speed = running.tokens_per_second if running else None
        if speed is None and last is not None:
            speed = last.tokens_per_second
        is_reading = running is not None and running.is_reading
        return StripFigures(
            tokens_per_second=speed,
            context_used=used,
            context_length=self._model.context_length if self._model else None,
            prompt_done=progress.done if progress and is_reading else None,
            prompt_total=progress.total if progress and is_reading else None,
        )


def _declined(model: ModelDescription | None) -> tuple[Reason, ...]:
    """Whatever the model in use cannot do, or does in another way than asked."""
    if model is None:
        return ()
    return (*((model.mtp,) if model.mtp else ()), *model.declined)
