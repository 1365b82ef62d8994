"""The card of a file on disk, or the engine's own words for why it has none."""

from dataclasses import dataclass
from pathlib import Path

import mlx_engine
from app.library.machine import Machine
from app.library.model_card import make_card
from app.values.model_card import ModelCard
from mlx_engine.values.errors import EngineError


@dataclass(frozen=True, slots=True)
class NoCard:
    """The engine cannot run what is at `path`; code is the error's class name."""

    path: str
    code: str
    words: str


def read_card(
    path: str | Path | None, machine: Machine, heads: str | Path | None = None
) -> ModelCard | NoCard:
    """Reads file headers only: milliseconds for most, a tenth of a second for the largest.

    path: None for the built-in model. heads: MTP heads to take from elsewhere.
    """
    try:
        return make_card(mlx_engine.inspect(path, heads=heads), machine)
    except EngineError as error:
        return NoCard(str(path), type(error).__name__, str(error))
