"""What the worker needs of an engine; `mlx_engine` provides it, tests write their own."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from app.worker.requests import LoadModel
from mlx_engine.values.conversation import Message
from mlx_engine.values.events import Event
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.stats import GenerationStats

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


class Costs(Protocol):
    """Milliseconds of passes."""

    @property
    def verify_ms(self) -> tuple[float, ...]:
        """[r-1] for a pass of r rows."""

    @property
    def draft_ms(self) -> float:
        """One pass of the head."""


class ChatSession(Protocol):
    """One conversation; its settings may change while it answers."""

    system: str | None
    sampling: SamplingOptions
    draft: DraftOptions
    generation: GenerationOptions

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""

    @property
    def stats(self) -> GenerationStats:
        """Figures of the newest answer."""

    def load_messages(self, messages: Sequence[Message]) -> None:
        """Replace the conversation."""

    def regenerate(self) -> Iterator[Event]:
        """Answer the last question."""

    def continue_answer(self) -> Iterator[Event]:
        """Go on with the last answer."""

    def stop(self) -> None:
        """End the running answer before its next round."""


class ChatEngine(Protocol):
    """A loaded model."""

    @property
    def description(self) -> ModelDescription:
        """The model and what is in effect."""

    def measure_costs(self, stop: Stop) -> Costs | None:
        """Time passes; None when stop() ended it, and the next call goes on from there."""

    def session(
        self,
        system: str | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        generation: GenerationOptions | None = None,
        thinking: bool | None = None,
    ) -> ChatSession:
        """A new conversation."""

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text."""

    def close(self) -> None:
        """Let the model go."""


class ModelSource(Protocol):
    """Where models come from."""

    def inspect(self, request: LoadModel) -> ModelDescription:
        """From headers alone, quickly. Raises EngineError."""

    def load(self, request: LoadModel, on_progress: Progress, stop: Stop) -> ChatEngine:
        """All of it; on_progress gets bytes done and in all. Raises EngineError, LoadStopped when
        stop(), asked several times a second, says so.
        """
