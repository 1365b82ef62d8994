"""What the engine's thread reports, and how often: values that can cross a process border."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from mlx_engine.values.conversation import Event
from mlx_engine.values.errors import EngineError, OutOfMemory, is_out_of_memory
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOutput
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong. "known": words say what to do; "bug": a mistake of ours, for a report.

    code: the error's class name. details: for *Copy details*, the traceback of a bug.
    """

    kind: Literal["known", "bug"]
    code: str
    words: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Bytes of the weights read so far; total 0 while files are only looked at.

    fetches: they come from the hub, such as a draft model that was named by its id. waits: for the
    answers that are being written.
    """

    path: str | None
    done: int
    total: int
    fetches: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """This model is in use from now on; chats are read anew at their next question."""

    path: str | None
    description: ModelDescription


@dataclass(frozen=True, slots=True)
class ModelChanged:
    """More is known of the model in use than when it was loaded, such as that heads do not fit."""

    description: ModelDescription


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """The model in use was let go; `words` say why."""

    words: str


@dataclass(frozen=True, slots=True)
class MemoryHeld:
    """Bytes of the model in use, its draft model and the caches of all chats, once it changed."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The load failed; the model in use still is, unless ModelUnloaded came before."""

    path: str | None
    problem: Problem


@dataclass(frozen=True, slots=True)
class LoadCancelled:
    """The load was cancelled; the model in use still is, unless ModelUnloaded came before."""

    path: str | None


@dataclass(frozen=True, slots=True)
class CostsMeasured:
    """Milliseconds here: verify_ms[r-1] for a pass of r rows, draft_ms for one pass of the head."""

    verify_ms: tuple[float, ...]
    draft_ms: float


@dataclass(frozen=True, slots=True)
class TokensCounted:
    """Tokens of each text that was asked about, in their order."""

    texts: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnswerEvents:
    """What happened since the last such reply, at most 30 a second; the last one of an answer ends
    with GenerationFinished unless AnswerFailed follows. model: the name of the one that answers.
    """

    chat_id: str
    message_id: str
    events: tuple[Event, ...]
    model: str = ""


@dataclass(frozen=True, slots=True)
class DraftOutputInUse:
    """The output head that the chat's drafts go through now; None without MTP heads."""

    chat_id: str
    output: DraftOutput | None


@dataclass(frozen=True, slots=True)
class OldestDropped:
    """The first `count` messages of a question are not read, so that the others fit."""

    chat_id: str
    message_id: str
    count: int


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """The answer ended with a problem; the text reported so far stands. model: that was asked, ""
    for none.
    """

    chat_id: str
    message_id: str
    problem: Problem
    model: str = ""


@dataclass(frozen=True, slots=True)
class AnswerWithdrawn:
    """The question was stopped before it was begun."""

    chat_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """Something else went wrong; the thread goes on."""

    problem: Problem


Reply = (
    LoadProgress
    | ModelLoaded
    | ModelChanged
    | ModelUnloaded
    | MemoryHeld
    | LoadFailed
    | LoadCancelled
    | CostsMeasured
    | TokensCounted
    | AnswerEvents
    | DraftOutputInUse
    | OldestDropped
    | AnswerFailed
    | AnswerWithdrawn
    | WorkerFailed
)


MEMORY_FULL = Words(
    "Memory ran out. What was answered so far is kept. Close other programs, begin "
    "a new chat, or take a smaller or more strongly quantised model, then try "
    "again."
)


INTERPRETER_EXITS = (KeyboardInterrupt, SystemExit)
"""The only errors that may end the engine's thread; a panic of an extension in Rust is none."""


def problem_of(error: BaseException) -> Problem:
    """Known when the engine says in words what to do, else a bug with its traceback."""
    code = type(error).__name__
    if isinstance(error, EngineError):
        return Problem("known", code, str(error))
    if is_out_of_memory(error):
        return Problem("known", OutOfMemory.__name__, MEMORY_FULL)
    words = Words(
        "Headstart made a mistake ({code}: {error}). What was answered so far is kept.",
        code=code,
        error=error,
    )
    return Problem("bug", code, words, "".join(traceback.format_exception(error)))


INTERVAL_S = 1 / 30


class Pace:
    """For one answer or one load; the first thing is due at once."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._due_at = float("-inf")

    def is_due(self, *, at_once: bool = False) -> bool:
        """Whether to tell now; if so, the next time is an interval later."""
        now = self._clock()
        if now < self._due_at and not at_once:
            return False
        self._due_at = now + INTERVAL_S
        return True
