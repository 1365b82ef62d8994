"""A model's files changed, and the numbers of what they then are."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

import mlx_engine

Arrays = dict[str, mx.array]


def edit_config(folder: Path, **changes: object) -> None:
    """Sets keys of config.json, in its text_config if it has one; None takes one out."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    inner = config.get("text_config", config)
    inner |= changes
    for key, value in changes.items():
        if value is None:
            del inner[key]
    path.write_text(json.dumps(config))


def edit_tensors(place: Path, change: Callable[[Arrays], Arrays]) -> None:
    """place: a file of tensors, or a folder with one."""
    file = place / "model.safetensors" if place.is_dir() else place
    arrays = dict(mx.load(str(file)))
    mx.eval(arrays)
    mx.save_safetensors(str(file), change(arrays))


def drop_tensors(place: Path, part: str) -> None:
    """Those with this in their names."""
    edit_tensors(place, lambda arrays: {n: a for n, a in arrays.items() if part not in n})


def logits(path: Path, tokens: Sequence[int]) -> NDArray[np.float32]:
    engine = mlx_engine.load(path)
    found = engine.logits(tokens)
    engine.close()
    return found


def all_logits(path: Path, tokens: Sequence[int], heads: Path | None = None) -> NDArray[np.float32]:
    """Logits and draft logits of every head, one below the other."""
    engine = mlx_engine.load(path, heads=heads)
    assert engine.description.mtp_heads
    found = np.concatenate([engine.logits(tokens), *engine.draft_logits(tokens)])
    engine.close()
    return found
