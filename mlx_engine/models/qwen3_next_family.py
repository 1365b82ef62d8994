"""Qwen3-Next as loading sees it: Qwen3.5 with experts, other names and joined projections."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from mlx_engine.models.family import Parts
from mlx_engine.models.qwen3_5_config import Qwen35Config
from mlx_engine.models.qwen3_5_family import Qwen35Family
from mlx_engine.models.qwen3_next_names import projection_recipes

T = TypeVar("T")


class Qwen3NextFamily(Qwen35Family):
    """The Family (models/family.py) of `qwen3_next`.

    Its config does not tell of the heads, so only their tensors do.
    """

    def split(self, raw: Mapping[str, T], config: Mapping[str, object], origin: str) -> Parts[T]:
        """Tensors of a model's own files by part."""
        parts = super().split(raw, config, origin)
        joined = projection_recipes(parts.trunk, Qwen35Config.read(config, origin))
        return replace(parts, trunk_recipes={**parts.trunk_recipes, **joined})
