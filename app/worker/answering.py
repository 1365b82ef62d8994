"""One answer for the window: its events in batches, and what was found out while it ran."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from app.worker.model_in_use import ModelInUse
from app.worker.replies import (
    AnswerEvents,
    AnswerFailed,
    AnswerWithdrawn,
    DraftOutputInUse,
    OldestDropped,
    Pace,
    Reply,
    problem_of,
)
from app.worker.requests import Ask
from mlx_engine.service.engine_thread import QueuedAnswer
from mlx_engine.values.conversation import (
    Event,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
    ToolCall,
)
from mlx_engine.values.errors import OutOfMemory
from mlx_engine.values.options import DraftOutput

if TYPE_CHECKING:
    from mlx_engine import Session


class Batcher:
    """Collects the events of one answer into batches. The first event, the first round and the last
    event are due at once.

    Text waits for the end of its round, so it is late by one round at most.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._pace = Pace(clock)
        self._has_round = False
        self._progress: PromptProgress | None = None
        self._pieces: list[TextPiece | ToolCall] = []
        self._rounds: list[RoundFinished] = []

    def add(self, event: Event) -> tuple[Event, ...]:
        """Add an event; return the batch that is due, empty for none."""
        match event:
            case PromptProgress():
                self._progress = event
                return self._if_due(at_once=event.done >= event.total)
            case TextPiece():
                self._add_text(event)
                return ()
            case ToolCall():
                self._pieces.append(event)
                return ()
            case RoundFinished():
                self._rounds.append(event)
                is_first, self._has_round = not self._has_round, True
                return self._if_due(at_once=is_first)
            case GenerationFinished():
                return (*self.rest(), event)

    def rest(self) -> tuple[Event, ...]:
        """Return all events not yet returned: the newest progress, then text, then rounds."""
        progress = () if self._progress is None else (self._progress,)
        batch: tuple[Event, ...] = (*progress, *self._pieces, *self._rounds)
        self._progress, self._pieces, self._rounds = None, [], []
        return batch

    def _add_text(self, piece: TextPiece) -> None:
        """Join pieces of the same channel, drafter and depth."""
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, TextPiece) and replace(last, text="") == replace(piece, text=""):
            self._pieces[-1] = replace(last, text=last.text + piece.text)
        else:
            self._pieces.append(piece)

    def _if_due(self, *, at_once: bool) -> tuple[Event, ...]:
        return self.rest() if self._pace.is_due(at_once=at_once) else ()


class WindowAnswer:
    """An answer to a question of the window; its replies are AnswerEvents up to the end,
    AnswerFailed or AnswerWithdrawn. Lives on the engine's thread.

    settings: may change until the answer begins.
    """

    def __init__(
        self,
        question: Ask,
        model: ModelInUse,
        reply: Callable[[Reply], None],
        answering: Callable[[], Collection[str]],
    ) -> None:
        """answering: returns the ids of the chats whose sessions must be kept."""
        self.question, self.settings = question, question.settings
        self._model, self._reply, self._answering = model, reply, answering
        self._session: Session | None = None
        self._batcher = Batcher()
        self._output: DraftOutput | None = None
        self._model_name = ""

    @property
    def chat_id(self) -> str:
        """Id of the chat that asks."""
        return self.question.chat_id

    def begin(self) -> Iterator[Event]:
        """Return the events of the answer, in the chat's session. Raises EngineError."""
        question, chats = self.question, self._model.chats
        assert chats is not None, "the engine's thread asks for events of a loaded model alone"
        self._model_name = chats.model_name
        session = self._session = chats.open(self.chat_id, self.settings, self._answering())
        if session.messages != question.messages:  # else it goes on at its very last token
            session.load_messages(question.messages)
        if session.tools != question.tools:
            session.tools = question.tools
        if question.drops_oldest:
            dropped = session.drop_oldest()
            self._reply(OldestDropped(self.chat_id, question.message_id, dropped))
        goes_on = question.messages[-1].role == "assistant"
        return session.continue_answer() if goes_on else session.regenerate()

    def hear(self, event: Event) -> None:
        """Reply with the events that are due, and with changes since the last reply."""
        if not self._send(self._batcher.add(event)):
            return
        self._model.tell_changes()
        output = self._session.draft_output if self._session is not None else None
        if output != self._output:
            self._output = output
            self._reply(DraftOutputInUse(self.chat_id, output))

    def stop(self, asked: QueuedAnswer) -> None:
        """End the answer after its round, or withdraw the question. asked: the thread's answer."""
        if self._session is None:
            asked.stop()
        else:
            self._session.stop()

    def end(self, error: BaseException | None) -> None:
        """Reply how the answer ended, if not with GenerationFinished."""
        chat_id, message_id = self.chat_id, self.question.message_id
        if error is not None:
            self._send(self._batcher.rest())
            problem = problem_of(error)
            if self._session is not None and (chats := self._model.chats) is not None:
                if problem.kind == "bug":
                    chats.forget(chat_id)  # nobody knows what state it is in: read it anew
                elif problem.code == OutOfMemory.__name__:
                    chats.forget_all(self._answering())
            self._reply(AnswerFailed(chat_id, message_id, problem, self._model_name))
        elif self._session is None:
            self._reply(AnswerWithdrawn(chat_id, message_id))

    def _send(self, batch: tuple[Event, ...]) -> bool:
        if batch:
            chat_id, message_id = self.chat_id, self.question.message_id
            self._reply(AnswerEvents(chat_id, message_id, batch, self._model_name))
        return bool(batch)
