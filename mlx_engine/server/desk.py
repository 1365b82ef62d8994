"""Answers for HTTP requests: asks the engine's thread, and hands its events to asyncio."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from time import time
from typing import Any, TypeVar
from uuid import uuid4

from starlette.requests import Request

from mlx_engine import Engine
from mlx_engine.server.fields import SamplingFields
from mlx_engine.service.engine_thread import EngineThread, Events
from mlx_engine.values.conversation import (
    Event,
    GenerationFinished,
    Message,
    RoundFinished,
    TextPiece,
    Tool,
    ToolCall,
)
from mlx_engine.values.errors import BadPrompt, EngineError, EngineMisuse, ModelNotFound, NoModel
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOptions, GenerationOptions, TemplateValue
from mlx_engine.values.stats import GenerationStats

T = TypeVar("T")
log = logging.getLogger(__name__)
CLOSING = "The server is closing: ask again when it runs."
QUIET_S = 10.0
"""Seconds after which a stream without a new event says that it is alive."""


@dataclass
class ServerCounts:
    """Numbers of everything since the server began, for /metrics."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0

    def add(self, stats: GenerationStats) -> None:
        """Count an answer."""
        self.requests += 1
        self.prompt_tokens += stats.prompt_tokens
        self.cached_tokens += stats.reused_tokens
        self.generated_tokens += stats.generated_tokens
        self.drafted_tokens += stats.drafted
        self.accepted_tokens += stats.accepted


@dataclass
class EngineConnection:
    """Connection of all endpoints to one engine thread and its model.

    draft: draft options of requests that set none. tokens: generated so far, also by answers that
    are running.
    """

    thread: EngineThread
    draft: DraftOptions = field(default_factory=DraftOptions)
    tokens: int = 0
    began: int = field(default_factory=lambda: int(time()))
    counts: ServerCounts = field(default_factory=ServerCounts)

    @property
    def description(self) -> ModelDescription:
        """Description of the model in use. Raises NoModel."""
        described = self.thread.description
        if described is None:
            raise NoModel("No model is loaded: open one, then ask again.")
        return described

    def check_model(self, requested_model: str) -> None:
        """Raise ModelNotFound if a request names another model than the loaded one."""
        if requested_model and requested_model.casefold() != self.description.name.casefold():
            raise ModelNotFound(
                "The model {asked} is not loaded, {name} is: ask for that, or load the other "
                "model in the window, or start `headstart serve` with it.",
                asked=repr(requested_model[:200]),
                name=repr(self.description.name),
            )

    async def call(self, function: Callable[[Engine], T]) -> T:
        """Run a function on the engine's thread, between two rounds."""
        return await asyncio.wrap_future(self.thread.call(function))

    async def events(
        self, begin: Callable[[Engine], Events], *, is_streamed: bool = True
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the events of an answer, and None where a tick of QUIET_S seconds finds none.

        What a round adds to the text is one piece; ends of rounds are left out, unless they tell
        log-probabilities: these come before the piece. is_streamed: without it all events come at
        the end. The answer is stopped when this generator is closed. Raises EngineError.
        """
        loop, arrived, lock = asyncio.get_running_loop(), asyncio.Event(), threading.Lock()
        heard: list[Event] = []  # of the present round
        ready: list[Event] = []  # for the client; of a slow one the pieces of text are joined

        def wake_waiter(_: object = None) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(arrived.set)

        def receive_event(event: Event) -> None:
            if isinstance(event, RoundFinished):
                self.tokens += event.stats.emitted
                if event.logprobs:
                    heard.insert(0, event)
            else:
                heard.append(event)
            if isinstance(event, TextPiece | ToolCall) or not heard:
                return
            with lock:
                is_idle = not ready
                for each in heard:
                    _append_event(ready, each)
            heard.clear()
            if is_idle if is_streamed else isinstance(event, GenerationFinished):
                wake_waiter()

        asked = self.thread.answer(begin, receive_event)
        asked.done.add_done_callback(wake_waiter)
        tick = loop.call_later(QUIET_S, arrived.set)  # a timeout around every wait costs more
        try:
            while True:
                await arrived.wait()
                arrived.clear()
                is_done = asked.done.done()
                with lock:
                    events, ready = ready, []
                if tick.when() <= loop.time():
                    tick = loop.call_later(QUIET_S, arrived.set)
                if not events and not is_done:
                    yield None
                for event in events:
                    if isinstance(event, GenerationFinished):
                        self.counts.add(event.stats)
                    yield event
                    if isinstance(event, GenerationFinished):
                        return
                if is_done:
                    asked.done.result()
                    raise EngineMisuse(CLOSING)
        finally:
            tick.cancel()
            asked.stop()

    async def with_rows_written(self, begin: Callable[[Engine], Events]) -> GenerationFinished:
        """Return the end of an answer, with its text as streamed: what it continued is left out.

        Raises EngineError.
        """
        text, thinking = list[str](), list[str]()
        async with aclosing(self.events(begin, is_streamed=False)) as events:
            async for event in events:
                if isinstance(event, TextPiece):
                    (text if event.channel == "answer" else thinking).append(event.text)
                elif isinstance(event, GenerationFinished):
                    return replace(event, text="".join(text), thinking="".join(thinking))
        raise AssertionError("an answer without an end")

    def chat_answer(
        self,
        body: SamplingFields,
        messages: tuple[Message, ...],
        limits: GenerationOptions,
        arguments: dict[str, TemplateValue],
        choice: int = 0,
        tools: tuple[Tool, ...] = (),
        allows_parallel_calls: bool = True,
    ) -> Callable[[Engine], Events]:
        """Make the function that begins an answer to messages, on the engine's thread.

        An answer as the last message is continued. choice: as `SamplingFields.sampling` has it.
        allows_parallel_calls: whether the answer may have more than one tool call. Raises BadPrompt
        where nothing is asked.
        """
        check_messages_given(messages)

        def begin(engine: Engine) -> Events:
            self.check_model(body.model)  # another one may have taken its place
            session = engine.session(
                sampling=body.sampling_options(engine.description.sampling, choice),
                draft=body.draft.draft_options(self.draft),
                generation=limits,
                template_arguments=arguments,
                tools=tools,
            )
            session.load_messages(messages)
            goes_on = messages[-1].role == "assistant"
            events = session.continue_answer() if goes_on else session.regenerate()
            yield from events if allows_parallel_calls else _until_first_call(events, session.stop)

        return begin


def check_messages_given(messages: Sequence[Message]) -> None:
    """Raise BadPrompt if messages ask for nothing."""
    roles = {message.role for message in messages}
    if roles.isdisjoint(("user", "tool")) or messages[-1].role == "system":
        raise BadPrompt("messages: nothing is asked, add a message of the user.")


def _until_first_call(events: Iterator[Event], stop: Callable[[], None]) -> Iterator[Event]:
    """Yield the events of an answer, which ends behind its first tool call."""
    is_called = False
    for event in events:
        match event:
            case GenerationFinished():
                yield replace(event, calls=event.calls[:1])
            case ToolCall() if not is_called:
                is_called = True
                stop()
                yield event
            case ToolCall() | TextPiece() if is_called:
                pass
            case _:
                yield event


def message_for_client(error: Exception) -> str:
    """Return an error's message for the client; that of a bug names its entry in the log."""
    if isinstance(error, EngineError):
        return str(error)
    name = uuid4().hex[:8]
    log.error("request %s failed", name, exc_info=error)
    return f"This is a bug of Headstart; the server's log has it under {name}."


def _append_event(events: list[Event], event: Event) -> None:
    """Append an event, or a piece of text to the piece before."""
    match event, events[-1] if events else None:
        case TextPiece(), TextPiece() as last if event.channel == last.channel:
            events[-1] = replace(last, text=last.text + event.text)
        case _:
            events.append(event)


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


async def cancel_if_gone(request: Request, *works: Coroutine[Any, Any, T]) -> list[T]:
    """Run `works` at once and return what they return; a client that goes away cancels them.

    The body of the request must have been read. Raises ClientGone.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    leaving = asyncio.ensure_future(_wait_for_disconnect(request))
    working = asyncio.gather(*tasks)
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        for task in (*tasks, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def begun(
    events: AsyncGenerator[Event | None, None],
) -> AsyncIterator[Event | None]:
    """Wait for the first event, so that an error is raised here; then return all events."""
    first = await anext(events)

    async def all_events() -> AsyncIterator[Event | None]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return all_events()
