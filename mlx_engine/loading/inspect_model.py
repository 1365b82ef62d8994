"""Describes a model from its headers alone, without MLX."""

from dataclasses import replace
from pathlib import Path

from mlx_engine.loading.describe_model import describe
from mlx_engine.loading.locate_model import locate_model
from mlx_engine.loading.model_headers import keep_blocks, read_headers
from mlx_engine.values.model_description import Footprint, ModelDescription
from mlx_engine.values.options import LoadOptions

_HALF, _FLOAT = 2, 4
"""Bytes of an element that is computed with: with Metal, and without."""


def inspect_model(
    path: str | Path | None, built_in: Path, heads: Path | None = None
) -> ModelDescription:
    """What would be loaded from `path` (None: from `built_in`), with Metal; for GGUF also without.

    With Metal our kernels are taken to be in use: they alone read some blocks of a GGUF.

    Raises EngineError.
    """
    headers, options = read_headers(locate_model(path, built_in), heads), LoadOptions(heads=heads)
    with_metal = describe(keep_blocks(headers, _every_kernel), options, _HALF)
    if headers.gguf is None:
        return with_metal
    wide = describe(headers, options, _FLOAT)
    there = Footprint(wide.nbytes, wide.cache_bytes_per_token, wide.state_bytes)
    return replace(with_metal, without_metal=there)


def _every_kernel(kind: str, outputs: int, inputs: int) -> bool:
    """As where all are in use."""
    del kind, outputs, inputs
    return True
