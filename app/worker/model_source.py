"""Models from `mlx_engine`, which is imported at the first load and on the loading thread."""

from pathlib import Path

from app.worker.contract import ChatEngine, Progress, Stop
from app.worker.requests import LoadModel
from mlx_engine.values.model_description import ModelDescription


class EngineModels:
    """The real ModelSource. lane_verdict: what is remembered of the Metal kernels here."""

    def __init__(self, lane_verdict: Path | None = None) -> None:
        self._lane_verdict = lane_verdict

    def inspect(self, request: LoadModel) -> ModelDescription:
        """The description from file headers. Raises EngineError."""
        import mlx_engine

        return mlx_engine.inspect(request.path, heads=request.heads)

    def load(self, request: LoadModel, on_progress: Progress, stop: Stop) -> ChatEngine:
        """The engine, bound to the calling thread. Raises EngineError."""
        import mlx_engine

        return mlx_engine.load(
            request.path,
            heads=request.heads,
            options=request.options,
            on_progress=on_progress,
            stop=stop,
            lane_verdict=self._lane_verdict,
        )
