"""The streams, engine entry points and folders that a command uses; and loading its model."""

import io
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from mlx_engine.command_line.options import load_options
from mlx_engine.self_check import Finding
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import percent_words, size_words

if TYPE_CHECKING:
    from mlx_engine import Engine
    from mlx_engine.self_check.doctor import Machine

DOWNLOADING = "Downloading (Ctrl-C stops, a later try goes on)"


@dataclass(frozen=True, slots=True)
class Runtime:
    """The streams and engine functions that a command uses; tests replace it.

    load, inspect: as in `mlx_engine`. examine: runs the doctor's checks, with the memory plan of a
    model. machine: describes backend and memory.
    """

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    load: Callable[..., "Engine"]
    inspect: Callable[..., ModelDescription]
    examine: Callable[[str | None], Iterable[Finding]]
    machine: Callable[[], "Machine"]

    @property
    def is_interactive(self) -> bool:
        """Whether stdin and stdout are a terminal."""
        return self.stdin.isatty() and self.stdout.isatty()


def process_runtime(kernel_verdict: Path | None = None) -> Runtime:
    """Make a Runtime of the process's own streams and the real engine; loads no MLX yet.

    kernel_verdict: file of verdicts on Metal kernels, None for one in the user's caches. Characters
    that a terminal's encoding lacks are printed as question marks.
    """
    import mlx_engine

    nowhere = Path(os.devnull)  # for streams that were closed before this process began
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    return Runtime(
        stdin=sys.stdin or nowhere.open(),
        stdout=sys.stdout or nowhere.open("w"),
        stderr=sys.stderr or nowhere.open("w"),
        load=partial(mlx_engine.load, kernel_verdict=kernel_verdict),
        inspect=mlx_engine.inspect,
        examine=partial(_examine_installation, kernel_verdict),
        machine=_this_machine,
    )


def _examine_installation(kernel_verdict: Path | None, model: str | None) -> "Iterable[Finding]":
    """Run the doctor's checks; MLX is loaded only now."""
    from mlx_engine.self_check.doctor import examine_installation

    return examine_installation(kernel_verdict, model)


def _this_machine() -> "Machine":
    """Describe this machine; MLX is loaded only now."""
    from mlx_engine.self_check.doctor import this_machine

    return this_machine()


def percent_progress(progress: Callable[[str], None], action: str) -> Callable[[int, int], None]:
    """Make a callback (bytes done, total) that reports progress in words at each per cent."""
    last = ""

    def show_progress(bytes_done: int, total_bytes: int) -> None:
        nonlocal last
        words = f"{action}: {percent_words(bytes_done, total_bytes)} of {size_words(total_bytes)}"
        if words != last:
            progress(words)
        last = words

    return show_progress


def load_model(arguments: Namespace, runtime: Runtime, progress: Callable[[str], None]) -> "Engine":
    """Load the model of a command.

    progress: called with words while loading, with "" at the end of it.
    """
    name = arguments.model or "the built-in model"
    progress(f"Loading {name}")
    try:
        return runtime.load(
            arguments.model,
            options=load_options(arguments),
            on_progress=percent_progress(progress, f"Loading {name}"),
            on_download=percent_progress(progress, DOWNLOADING),
        )
    finally:
        progress("")
