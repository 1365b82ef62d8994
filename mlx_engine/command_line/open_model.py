"""Loads the model a command names, saying how far it is."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from mlx_engine.command_line.contract import ChatEngine
from mlx_engine.command_line.given_options import (
    draft_options,
    generation_options,
    load_options,
    sampling_options,
)
from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import Screen
from mlx_engine.values.options import SamplingOptions
from mlx_engine.values.words import percent_words, size_words


@contextmanager
def opened_model(arguments: Namespace, outside: Outside, screen: Screen) -> Iterator[ChatEngine]:
    """The engine, closed at the end. Options are checked before the file is read."""
    draft_options(arguments)
    generation_options(arguments)
    sampling_options(arguments, SamplingOptions())
    name = arguments.model or "the built-in model"

    def show(done: int, total: int) -> None:
        share = percent_words(done, total)
        screen.progress(f"Loading {name}: {share} of {size_words(total)}")

    try:
        engine = outside.load(arguments.model, options=load_options(arguments), on_progress=show)
    finally:
        screen.progress("")
    try:
        yield engine
    finally:
        engine.close()
