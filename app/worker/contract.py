"""What the worker needs of an engine; `mlx_engine` provides it, tests write their own."""

from collections.abc import Callable
from typing import Protocol

from app.worker.requests import LoadModel
from mlx_engine.values import chat_contract
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOutput, GenerationOptions

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


class ChatSession(chat_contract.ChatSession, Protocol):
    """One conversation; its settings may change while it answers."""

    generation: GenerationOptions

    @property
    def draft_output(self) -> DraftOutput | None:
        """The output head that MTP heads draft with, None without them."""


class ChatEngine(chat_contract.ChatEngine[ChatSession], Protocol):
    """A loaded model that counts tokens and what passes cost."""

    def measure_costs(self, stop: Stop) -> Costs | None:
        """Time passes; None when stop() ended it, and the next call goes on from there."""

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text."""


class ModelSource(Protocol):
    """Where models come from."""

    def inspect(self, request: LoadModel) -> ModelDescription:
        """From headers alone, quickly. Raises EngineError."""

    def load(self, request: LoadModel, on_progress: Progress, stop: Stop) -> ChatEngine:
        """All of it; on_progress gets bytes done and in all. Raises EngineError, LoadStopped when
        stop(), asked several times a second, says so.
        """
