"""What a command touches of the world around it: streams, the engine's doors, the log folder."""

import io
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TextIO

from mlx_engine.command_line.contract import ChatEngine
from mlx_engine.doctor.finding import Finding
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import LoadOptions


class Load(Protocol):
    """Opens a model, like `mlx_engine.load`."""

    def __call__(
        self,
        path: str | None = None,
        *,
        options: LoadOptions | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ChatEngine:
        """Raise EngineError when it cannot."""


class Inspect(Protocol):
    """Describes a model, like `mlx_engine.inspect`."""

    def __call__(self, path: str | None = None, *, heads: Path | None = None) -> ModelDescription:
        """Raise EngineError when it cannot."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything a command reads, writes and opens; tests bring their own.

    backend: says what MLX computes on ("Metal, Apple M4 Max"); asked after a model is loaded.
    log_folder: where a crash leaves its traceback, None for nowhere but the screen.
    """

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    log_folder: Path | None
    load: Load
    inspect: Inspect
    examine: Callable[[], Iterable[Finding]]
    backend: Callable[[], str]

    @property
    def interactive(self) -> bool:
        """A person types and reads here."""
        return self.stdin.isatty() and self.stdout.isatty()


def real_outside(log_folder: Path | None = None, lane_verdict: Path | None = None) -> Outside:
    """The process's own streams and the real engine; loads no MLX yet.

    lane_verdict: where it is remembered which Metal kernels are sound here, None for nowhere. What
    a terminal's encoding cannot show is shown as a question mark.
    """
    import mlx_engine

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    return Outside(
        stdin=sys.stdin,
        stdout=sys.stdout,
        stderr=sys.stderr,
        log_folder=log_folder,
        load=partial(mlx_engine.load, lane_verdict=lane_verdict),
        inspect=mlx_engine.inspect,
        examine=partial(_examine, lane_verdict),
        backend=_backend,
    )


def _examine(verdict: Path | None) -> Iterable[Finding]:
    from mlx_engine.doctor.examine import examine

    return examine(verdict)


def _backend() -> str:
    from mlx_engine.doctor.machine import backend_words

    return backend_words()
