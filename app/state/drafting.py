"""Figures of drafting: rounds of every chat, and costs of passes with the model in use."""

from collections.abc import Sequence

from PySide6.QtCore import QObject

from app.state.answers import Answers
from app.state.chat import ChatState
from app.state.models import ModelState
from app.state.round_history import RoundHistory, SpeedBySetting
from app.state.running_answer import Growth, RunningAnswer, worth_telling
from app.state.state import State
from app.store.messages import Messages
from app.values.errors import StoreError
from app.worker.replies import CostsMeasured, DraftOutputInUse
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOutput
from mlx_engine.values.stats import GenerationStats


class DraftingFigures(State):
    """Figures of drafting in all chats; costs and speeds are reset with another model.

    chat: the one on show. costs: milliseconds of a pass of 1 row and more. speeds_by_probability,
    speeds_by_output: speed of rounds by a draft setting. Signal `changed`: other figures of the
    chat on show, or another chat.
    """

    def __init__(
        self,
        chat: ChatState,
        answers: Answers,
        models: ModelState,
        messages: Messages,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.chat, self._models, self._messages = chat, models, messages
        self._begun: set[int] = set()
        self.costs: Sequence[float] = ()
        self._forget()
        answers.grown.connect(self._grow)
        answers.ended.connect(self._end)
        chat.changed.connect(self._tell)
        models.switched.connect(self._forget)
        models.changed.connect(self._tell)

    @property
    def model(self) -> ModelDescription | None:
        """The model in use."""
        return self._models.description

    @property
    def history(self) -> RoundHistory:
        """Rounds of the chat on show."""
        return self.history_of(self.chat.chat_id)

    def history_of(self, chat_id: int | None) -> RoundHistory:
        """Return the rounds of a chat; an empty history for a chat without an id."""
        if chat_id is None:
            return RoundHistory()
        if chat_id not in self._histories:
            self._histories[chat_id] = RoundHistory(self._past_of(chat_id))
        return self._histories[chat_id]

    @property
    def context_used(self) -> int | None:
        """Tokens of the chat on show, None if its last answer is another model's or has no
        figures.
        """
        running = self.chat.running
        if running is not None and running.context_used is not None:
            return running.context_used
        now = None if running is None else running.message_id
        answers = (message for message in self.chat.newest if message.role == "assistant")
        last = next((answer for answer in answers if answer.id != now), None)
        is_counted = last is not None and self.model is not None and last.model == self.model.name
        stats = worth_telling(last.stats) if last is not None and is_counted else None
        return None if stats is None else stats.prompt_tokens + stats.generated_tokens

    @property
    def last_speed(self) -> float | None:
        """Tokens per second of the newest answer on show, of the model in use if it has any."""
        name = self.model.name if self.model else ""
        ours = (message for message in self.chat.newest if not name or message.model == name)
        stats = next(filter(None, (worth_telling(message.stats) for message in ours)), None)
        return None if stats is None else stats.tokens_per_second

    @property
    def output(self) -> DraftOutput | None:
        """Output head that drafts of the chat on show use, None if not known."""
        return self._outputs.get(str(self.chat.chat_id))

    @property
    def declined(self) -> tuple[Reason, ...]:
        """Reasons why the model in use does something differently than asked, or not at all."""
        model = self.model
        if model is None:
            return ()
        return (*((model.mtp,) if model.mtp else ()), *model.declined)

    def take(self, reply: CostsMeasured | DraftOutputInUse) -> None:
        """Take a reply of the engine about costs or the output head in use."""
        if isinstance(reply, CostsMeasured):
            self.costs = reply.verify_ms
        else:
            self._outputs[reply.chat_id] = reply.output
        self._tell()

    def _past_of(self, chat_id: int) -> list[GenerationStats]:
        """Return figures of a chat's answers by the model in use, or by the last model without
        one.
        """
        try:
            past = self._messages.figures(chat_id)
        except StoreError:
            return []
        model = self.model.name if self.model else past[-1].model if past else ""
        stats = (worth_telling(figures.stats) for figures in past if figures.model == model)
        return list(filter(None, stats))

    def _grow(self, answer: RunningAnswer, growth: Growth) -> None:
        history = self.history_of(answer.chat_id)
        if answer.chat_id not in self._begun:
            self._begun.add(answer.chat_id)
            history.begin_answer()
        history.add(growth.rounds)
        if answer.chat_id == self.chat.chat_id:
            probability = self.chat.settings.draft.min_probability
            self.speeds_by_probability.add(f"{probability:g}", growth.rounds)
            if self.output is not None:
                self.speeds_by_output.add(self.output, growth.rounds)
            self._tell()

    def _end(self, answer: RunningAnswer) -> None:
        self._begun.discard(answer.chat_id)
        self.history_of(answer.chat_id).end_answer()
        self._tell()

    def _forget(self) -> None:
        """Reset what was measured with another model."""
        self.costs = ()
        self._histories: dict[int, RoundHistory] = {}
        self._outputs: dict[str, DraftOutput | None] = {}
        self.speeds_by_probability, self.speeds_by_output = SpeedBySetting(), SpeedBySetting()
        self._begun.clear()
        self._tell()

    def _tell(self) -> None:
        self.changed.emit()
