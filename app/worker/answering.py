"""Runs answers by turns: their events in batches, and between two events whatever cannot wait."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, cast

from app.worker.inbox import Inbox, interruptions
from app.worker.model_in_use import KeptChats
from app.worker.replies import (
    INTERPRETER_EXITS,
    AnswerEvents,
    AnswerFailed,
    DraftOutputInUse,
    ModelChanged,
    OldestDropped,
    Pace,
    Reply,
    WorkerFailed,
    problem_of,
)
from app.worker.requests import Ask, ChangeSettings, CloseChat, CountTokens, StopAnswer
from mlx_engine.values.conversation import (
    TURN_ENDS,
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
        self._pieces: list[TextPiece] = []
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
            case ToolCall():  # the window gives its chats no tools
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
        if last is not None and replace(last, text="") == replace(piece, text=""):
            self._pieces[-1] = replace(last, text=last.text + piece.text)
        else:
            self._pieces.append(piece)

    def _if_due(self, *, at_once: bool) -> tuple[Event, ...]:
        return self.rest() if self._pace.is_due(at_once=at_once) else ()


class Effects:
    """Reports what an answer found out: MTP heads are tried when first used, and the output head is
    chosen by measuring.
    """

    def __init__(
        self, chat_id: str, session: "Session", chats: KeptChats, reply: Callable[[Reply], None]
    ) -> None:
        self._chat_id, self._session, self._chats, self._reply = chat_id, session, chats, reply
        self._output: DraftOutput | None = None

    def tell(self) -> None:
        """Reply with what changed since the last call."""
        description = self._chats.new_description()
        if description is not None:
            self._reply(ModelChanged(description))
        output = self._session.draft_output
        if output != self._output:
            self._output = output
            self._reply(DraftOutputInUse(self._chat_id, output))


@dataclass(frozen=True, slots=True)
class _Running:
    """A running answer: its question, session and events."""

    question: Ask
    model: str
    session: "Session"
    events: Generator[Event, None, None]
    batcher: Batcher
    effects: Effects


class Answering:
    """Answers the questions of several chats in turn, on the engine's thread.

    count: replies with the token counts of texts.
    """

    def __init__(
        self, inbox: Inbox, reply: Callable[[Reply], None], count: Callable[[tuple[str, ...]], None]
    ) -> None:
        self._inbox = inbox
        self._reply = reply
        self._count = count
        self._running: dict[str, _Running] = {}

    @property
    def is_busy(self) -> bool:
        """Whether any answer is running."""
        return bool(self._running)

    def begin(self, question: Ask, chats: KeptChats) -> None:
        """Start an answer; its replies are AnswerEvents up to the end, or AnswerFailed. The chat
        must not be answering.
        """
        try:
            session = chats.open(question.chat_id, question.settings, self._running)
            effects = Effects(question.chat_id, session, chats, self._reply)
            if session.messages != question.messages:  # else it goes on at its very last token
                session.load_messages(question.messages)
            if question.drops_oldest:
                dropped = session.drop_oldest()
                self._reply(OldestDropped(question.chat_id, question.message_id, dropped))
            events = _events(session, question)
            self._running[question.chat_id] = _Running(
                question, chats.model_name, session, events, Batcher(), effects
            )
        except INTERPRETER_EXITS:
            raise
        except BaseException as error:
            self._fail(question, error, chats)

    def take_turns(self, chats: KeptChats) -> None:
        """Run one round, or part of the prompt, of every answer."""
        for chat_id in list(self._running):
            self._take_turn(self._running[chat_id], chats)

    def _take_turn(self, running: _Running, chats: KeptChats) -> None:
        question = running.question
        try:
            for event in running.events:
                batch = running.batcher.add(event)
                self._send(running, batch)
                if batch:
                    running.effects.tell()
                self._obey(chats)
                if isinstance(event, TURN_ENDS):
                    return
            del self._running[question.chat_id]
        except INTERPRETER_EXITS:
            raise
        except BaseException as error:
            del self._running[question.chat_id]
            running.events.close()
            self._send(running, running.batcher.rest())
            self._fail(question, error, chats)

    def _fail(self, question: Ask, error: BaseException, chats: KeptChats) -> None:
        problem = problem_of(error)
        if problem.kind == "bug":
            chats.forget(question.chat_id)  # nobody knows what state it is in: read it anew
        elif problem.code == OutOfMemory.__name__:
            chats.forget_all(self._running)
        self._reply(AnswerFailed(question.chat_id, question.message_id, problem, chats.model_name))

    def _send(self, running: _Running, batch: tuple[Event, ...]) -> None:
        if batch:
            chat_id, message_id = running.question.chat_id, running.question.message_id
            self._reply(AnswerEvents(chat_id, message_id, batch, running.model))

    def _change(self, wanted: ChangeSettings, chats: KeptChats) -> None:
        """Change the settings of a chat; an error is replied and ends no answer."""
        try:
            chats.change(wanted.chat_id, wanted.settings)
        except Exception as error:
            self._reply(WorkerFailed(problem_of(error)))

    def _obey(self, chats: KeptChats) -> None:
        """Handle urgent requests; the sessions must be inside an answer."""
        answering = [running.question for running in self._running.values()]
        for request in interruptions(self._inbox, answering, self._reply):
            match request:
                case Ask():
                    self.begin(request, chats)
                case ChangeSettings():
                    self._change(request, chats)
                case CloseChat():
                    chats.close(request.chat_id)
                case CountTokens():
                    self._count(request.texts)
            if isinstance(request, StopAnswer | CloseChat) and request.chat_id in self._running:
                self._running[request.chat_id].session.stop()
        if self._inbox.is_ending():
            for running in self._running.values():
                running.session.stop()


def _events(session: "Session", question: Ask) -> Generator[Event, None, None]:
    """Return the events of an answer; the session has the question's messages."""
    goes_on = question.messages[-1].role == "assistant"
    events: Iterator[Event] = session.continue_answer() if goes_on else session.regenerate()
    return cast(Generator[Event, None, None], events)
