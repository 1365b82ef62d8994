"""The engine's thread as a Qt object: values go into a slot and come out of a signal."""

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal, Slot

from app.worker.contract import ModelSource, Progress, Stop
from app.worker.engine_loop import serve
from app.worker.inbox import Inbox
from app.worker.requests import LoadModel, Request, Shutdown
from mlx_engine.values.model_description import ModelDescription

if TYPE_CHECKING:
    from mlx_engine import Engine


class EngineModels:
    """The real ModelSource. kernel_verdict: what is remembered of the Metal kernels here."""

    def __init__(self, kernel_verdict: Path | None = None) -> None:
        self._kernel_verdict = kernel_verdict

    def inspect(self, request: LoadModel) -> ModelDescription:
        """The description from file headers. Raises EngineError."""
        import mlx_engine

        return mlx_engine.inspect(request.path, heads=request.heads)

    def load(self, request: LoadModel, on_progress: Progress, stop: Stop) -> "Engine":
        """The engine, bound to the calling thread. Raises EngineError."""
        import mlx_engine

        return mlx_engine.load(
            request.path,
            heads=request.heads,
            options=request.options,
            on_progress=on_progress,
            stop=stop,
            kernel_verdict=self._kernel_verdict,
        )


SHUTDOWN_S = 2.0


class EngineWorker(QThread):
    """One thread for the life of the program; MLX is imported and used on it alone.

    Signals:
        replied: a value of app.worker.replies, delivered on the receiver's thread.
    """

    replied = Signal(object)

    def __init__(
        self, memory_bytes: int, source: ModelSource | None = None, parent: QObject | None = None
    ) -> None:
        """memory_bytes: what models and caches may use on this machine."""
        super().__init__(parent)
        self.setObjectName("engine")
        self._memory = memory_bytes
        self._source = source or EngineModels()
        self._inbox = Inbox()

    @Slot(object)
    def request(self, request: Request) -> None:
        """Take a request; returns at once, from any thread."""
        self._inbox.put(request)

    def shutdown(self, timeout_s: float = SHUTDOWN_S) -> bool:
        """End the running work and the thread, waiting for it.

        False when it did not end in time, deep inside one pass or one slice of a load: then end
        the process, for Qt aborts when a running thread is destroyed.
        """
        self._inbox.put(Shutdown())
        return self.wait(int(1000 * timeout_s))

    def run(self) -> None:
        """Serve until Shutdown."""
        serve(self._inbox, self.replied.emit, self._source, self._memory)
