"""What a command touches of the world: streams, the engine's entry points, the log folder."""

import io
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mlx_engine.command_line.options import (
    cache_options,
    draft_options,
    generation_options,
    load_options,
    sampling_options,
)
from mlx_engine.self_check import Finding
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import SamplingOptions
from mlx_engine.values.words import percent_words, size_words

if TYPE_CHECKING:
    from mlx_engine import Engine

DOWNLOADING = "Downloading (Ctrl-C stops, a later try goes on)"


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything a command reads, writes and opens; tests bring their own.

    load, inspect: as `mlx_engine` has them. examine: all checks, and the memory plan of a model.
    backend: what MLX computes on ("Metal, Apple M4 Max"). gpu_bytes: what a GPU may hold, 0
    without Metal. log_folder: where a crash leaves its traceback; None prints it.
    """

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    log_folder: Path | None
    load: Callable[..., "Engine"]
    inspect: Callable[..., ModelDescription]
    examine: Callable[[str | None], Iterable[Finding]]
    backend: Callable[[], str]
    gpu_bytes: Callable[[], int]

    @property
    def interactive(self) -> bool:
        """Whether a person types and reads here."""
        return self.stdin.isatty() and self.stdout.isatty()


def real_outside(log_folder: Path | None = None, kernel_verdict: Path | None = None) -> Outside:
    """The process's own streams and the real engine; loads no MLX yet.

    kernel_verdict: file that remembers which Metal kernels are sound here, None for one in the
    user's caches. Characters that a terminal's encoding lacks are printed as question marks.
    """
    import mlx_engine

    nowhere = Path(os.devnull)  # for streams that were closed before this process began
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    return Outside(
        stdin=sys.stdin or nowhere.open(),
        stdout=sys.stdout or nowhere.open("w"),
        stderr=sys.stderr or nowhere.open("w"),
        log_folder=log_folder,
        load=partial(mlx_engine.load, kernel_verdict=kernel_verdict),
        inspect=mlx_engine.inspect,
        examine=partial(_examine, kernel_verdict),
        backend=_backend,
        gpu_bytes=_gpu_bytes,
    )


def _examine(verdict: Path | None, model: str | None) -> Iterable[Finding]:
    from mlx_engine.self_check.doctor import examine

    return examine(verdict, model)


def _backend() -> str:
    from mlx_engine.self_check.doctor import backend_words

    return backend_words()


def _gpu_bytes() -> int:
    from mlx_engine.self_check.doctor import this_machine

    return this_machine().gpu_bytes


def percent_progress(progress: Callable[[str], None], what: str) -> Callable[[int, int], None]:
    """Report bytes done of a total to `progress` in words, once for each per cent."""
    last = ""

    def show(done: int, total: int) -> None:
        nonlocal last
        words = f"{what}: {percent_words(done, total)} of {size_words(total)}"
        if words != last:
            progress(words)
        last = words

    return show


def check_options(arguments: Namespace) -> None:
    """Raise BadOption before a file is read."""
    draft_options(arguments)
    generation_options(arguments)
    cache_options(arguments)
    sampling_options(arguments, SamplingOptions())


@contextmanager
def opened_model(
    arguments: Namespace, outside: Outside, progress: Callable[[str], None]
) -> Iterator["Engine"]:
    """Load the model of a command, and close it at the end; progress: is given "" once loaded."""
    name = arguments.model or "the built-in model"
    progress(f"Loading {name}")
    try:
        engine = outside.load(
            arguments.model,
            options=load_options(arguments),
            on_progress=percent_progress(progress, f"Loading {name}"),
            on_download=percent_progress(progress, DOWNLOADING),
        )
    finally:
        progress("")
    with closing(engine):
        yield engine
