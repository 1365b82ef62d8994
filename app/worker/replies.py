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
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class Problem:
    """An error. "known": words say what to do; "bug": an error of ours, to be reported.

    code: class name of the error. details: traceback of a bug.
    """

    kind: Literal["known", "bug"]
    code: str
    words: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Bytes of the weights read so far; total 0 while headers are read.

    fetches: the bytes come from the hub. waits: the load waits for running answers.
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
    """The description of the model in use changed, for example because its heads do not fit."""

    description: ModelDescription


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """The model in use was closed; `words` say why."""

    words: str


@dataclass(frozen=True, slots=True)
class MemoryHeld:
    """Bytes of the model in use, its draft model and the caches of all chats."""

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
    """Milliseconds on this machine: verify_ms[r-1] for a pass of r rows, draft_ms for a pass of the
    head.
    """

    verify_ms: tuple[float, ...]
    draft_ms: float


@dataclass(frozen=True, slots=True)
class TokensCounted:
    """Token counts of texts and pictures, in their order; None where the model sees no picture."""

    contents: tuple[str | Picture, ...]
    counts: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class AnswerEvents:
    """Events since the last such reply, at most 30 replies a second; an answer ends with
    GenerationFinished or AnswerFailed. model: name of the model that answers.
    """

    chat_id: str
    message_id: str
    events: tuple[Event, ...]
    model: str = ""


@dataclass(frozen=True, slots=True)
class DraftOutputInUse:
    """Output head that the chat's drafts use now; None without MTP heads."""

    chat_id: str
    output: DraftOutput | None


@dataclass(frozen=True, slots=True)
class OldestDropped:
    """The first `count` messages of a question are left out, so that the others fit."""

    chat_id: str
    message_id: str
    count: int


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """The answer ended with an error; the text so far stands. model: name of the model, "" for
    none.
    """

    chat_id: str
    message_id: str
    problem: Problem
    model: str = ""


@dataclass(frozen=True, slots=True)
class AnswerWithdrawn:
    """The question was stopped before its answer began."""

    chat_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """Another error; the thread goes on."""

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
    "a new chat, or take a smaller model, then try "
    "again."
)


def problem_of(error: BaseException) -> Problem:
    """Describe an exception: known if the engine says what to do, else a bug with its traceback."""
    code = type(error).__name__
    if isinstance(error, EngineError):
        return Problem("known", code, str(error))
    if is_out_of_memory(error):
        return Problem("known", OutOfMemory.__name__, MEMORY_FULL)
    words = Words("Headstart made a mistake. What was answered so far is kept.")
    return Problem("bug", code, words, "".join(traceback.format_exception(error)))


INTERVAL_S = 1 / 30


class Pace:
    """Limits how often something is told; the first time is due at once."""

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
