"""Headers of model files on this disk, cached until a file in their folder changes."""

import os
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import mlx_engine
from app.library.machine import Machine
from app.values.models import FoundModel, short_quantisation
from mlx_engine.hub.weight_files import GGUF, is_gguf_head
from mlx_engine.values.errors import EngineError, HeadsOnly
from mlx_engine.values.model_description import ModelDescription

Stamp = tuple[tuple[str, int, int], ...]


def described(path: Path | None, heads: Path | None = None) -> ModelDescription:
    """Describe a model as `mlx_engine.inspect` does, None the built-in one; raises EngineError."""
    stamps = (_stamp(place) for place in (path, heads) if place is not None)
    found = _inspect(path, heads, *stamps)
    if isinstance(found, EngineError):
        raise found.with_traceback(None)
    return found


@lru_cache(maxsize=1024)
def _inspect(
    path: Path | None, heads: Path | None, *stamps: Stamp
) -> ModelDescription | EngineError:
    """stamps: of the files that were read; others make another entry."""
    del stamps
    try:
        return mlx_engine.inspect(None if path is None else str(path), heads=heads)
    except EngineError as error:
        return error


def _stamp(path: Path) -> Stamp:
    """Names, sizes and times of all files that may belong to a model: heads may lie beside it."""
    found = []
    with suppress(OSError), os.scandir(path if path.is_dir() else path.parent) as entries:
        for entry in entries:
            with suppress(OSError):
                facts = entry.stat()
                found.append((entry.name, facts.st_size, facts.st_mtime_ns))
    return tuple(sorted(found))


def is_heads_file(file: Path) -> bool:
    """Whether a GGUF file holds MTP heads without a model; its name or its tensors tell."""
    if is_gguf_head(file.name):
        return True
    if not file.name.lower().endswith(GGUF):
        return False
    try:
        described(file)
    except EngineError as error:
        return isinstance(error, HeadsOnly)
    return False


def with_headers(model: FoundModel, machine: Machine) -> FoundModel | None:
    """Add what a model's headers say, as its card does; None for a file of MTP heads alone."""
    if model.problem or model.is_built_in:
        return model
    try:
        told = described(model.path).on(metal=machine.has_metal)
    except HeadsOnly:
        return None
    except EngineError as error:
        return replace(model, refusal=str(error))
    memory = told.memory_fit(machine.usable_bytes, gpu_bytes=machine.gpu_bytes)
    return replace(
        model,
        parameters=told.parameters,
        format=short_quantisation(told.quantisation),
        heads=told.mtp_heads > 0 and told.mtp is None,
        fit=memory.fit,
    )
