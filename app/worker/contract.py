"""Where the worker gets models from; `mlx_engine` provides them, tests write their own."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from app.worker.requests import LoadModel
from mlx_engine.values.model_description import ModelDescription

if TYPE_CHECKING:
    from mlx_engine import Engine

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


class ModelSource(Protocol):
    """Where models come from."""

    def inspect(self, request: LoadModel) -> ModelDescription:
        """From headers alone, quickly. Raises EngineError."""

    def load(self, request: LoadModel, on_progress: Progress, stop: Stop) -> "Engine":
        """All of it; on_progress gets bytes done and in all. Raises EngineError, LoadStopped when
        stop(), asked several times a second, says so.
        """
