"""The engine's loop on a plain thread, for tests: requests in, replies collected."""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.values.chat_settings import ChatSettings
from app.worker.engine_worker import WindowDesk
from app.worker.model_in_use import ModelSource
from app.worker.replies import AnswerEvents, AnswerFailed, Reply
from app.worker.requests import Ask, Request
from mlx_engine.values.conversation import (
    Event,
    GenerationFinished,
    Message,
    RoundFinished,
    TextPiece,
)

PATIENCE_S = 60.0


class Served:
    """What goes to the loop and what came back; `replies` are all so far, in order."""

    def __init__(self, source: ModelSource, memory_bytes: int, gpu_bytes: int) -> None:
        self.desk = WindowDesk(source, self.reply, memory_bytes, gpu_bytes)
        self.replies: list[Reply] = []
        self.times: list[float] = []
        self._arriving: queue.SimpleQueue[Reply] = queue.SimpleQueue()

    def reply(self, value: Reply) -> None:
        self.times.append(time.perf_counter())
        self._arriving.put(value)

    def put(self, *requests: Request) -> None:
        for request in requests:
            self.desk.request(request)

    def until(self, is_it: Callable[[Reply], bool]) -> Reply:
        """Collect replies up to the first that is it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            value = self._arriving.get(timeout=max(0.0, deadline - time.monotonic()))
            self.replies.append(value)
            if is_it(value):
                return value

    def rest(self) -> list[Reply]:
        """Replies that came and were not collected."""
        left = list[Reply]()
        while not self._arriving.empty():
            left.append(self._arriving.get())
        return left

    def until_a(self, kind: type[Reply]) -> Reply:
        return self.until(lambda value: isinstance(value, kind))

    def until_answered(self, message_id: str) -> GenerationFinished:
        """Collect until this answer is complete."""
        value = self.until(lambda v: message_id_of(v) == message_id and is_end(v))
        assert isinstance(value, AnswerEvents), value
        finished = value.events[-1]
        assert isinstance(finished, GenerationFinished)
        return finished

    def events(self, message_id: str) -> list[Event]:
        batches = [r for r in self.replies if isinstance(r, AnswerEvents)]
        return [e for batch in batches if batch.message_id == message_id for e in batch.events]

    def text(self, message_id: str) -> str:
        return "".join(e.text for e in self.events(message_id) if isinstance(e, TextPiece))

    def depths(self, message_id: str) -> list[int]:
        return [e.stats.depth for e in self.events(message_id) if isinstance(e, RoundFinished)]


@contextmanager
def served(
    source: ModelSource, memory_bytes: int = 64 * 10**9, gpu_bytes: int = 0
) -> Iterator[Served]:
    """A running loop, shut down at the end."""
    room = Served(source, memory_bytes, gpu_bytes)
    room.desk.thread.start()
    try:
        yield room
    finally:
        room.desk.thread.close()


def message_id_of(value: Reply) -> str | None:
    return value.message_id if isinstance(value, AnswerEvents | AnswerFailed) else None


def is_end(value: Reply) -> bool:
    """Whether an answer ends with this reply."""
    return isinstance(value, AnswerFailed) or (
        isinstance(value, AnswerEvents) and isinstance(value.events[-1], GenerationFinished)
    )


def ask(
    text: str,
    chat_id: str = "chat",
    message_id: str = "answer",
    settings: ChatSettings | None = None,
    before: tuple[Message, ...] = (),
) -> Ask:
    """A question after the messages `before`."""
    messages = (*before, Message("user", text))
    return Ask(chat_id, message_id, messages, settings or ChatSettings())
