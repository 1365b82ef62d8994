"""Describes a model from its headers alone, without MLX."""

from pathlib import Path

from mlx_engine.loading.describe_model import describe
from mlx_engine.loading.locate_model import locate_model
from mlx_engine.loading.model_headers import read_headers
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import LoadOptions


def inspect_model(
    path: str | Path | None, built_in: Path, heads: Path | None = None
) -> ModelDescription:
    """What would be loaded from `path` (None: from `built_in`). Raises EngineError."""
    headers = read_headers(locate_model(path, built_in), heads)
    return describe(headers, LoadOptions(heads=heads))
