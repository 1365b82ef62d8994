"""Rotation of queries and keys by position, stretched as a draft model's config says."""

from collections.abc import Mapping

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.mlx_lm_trunk.text_config import with_rotation
from mlx_engine.values.errors import UnsupportedModel


class Rotation:
    """Rotates [1, heads, T, size] from a position on, halves apart."""

    def __init__(self, rotate: Module) -> None:
        self._rotate = rotate

    @staticmethod
    def read(config: Mapping[str, object], size: int, origin: str) -> "Rotation":
        """By rope_theta and rope_scaling, or rope_parameters; UnsupportedModel for other kinds."""
        from mlx_lm.models.rope_utils import initialize_rope  # on use: it brings torch along

        flat = with_rotation(config, origin)
        fields = ConfigFields(flat, origin)
        scaling = flat.get("rope_scaling")
        try:
            rotate = initialize_rope(
                size,
                base=fields.number("rope_theta", 10000.0),
                traditional=False,
                scaling_config=dict(scaling) if isinstance(scaling, Mapping) else None,
                max_position_embeddings=fields.count("max_position_embeddings", 4096),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UnsupportedModel(
                f"{origin}: positions are rotated in a way this version does not run "
                f"({ascii(str(error))[:80]})."
            ) from error
        return Rotation(rotate)

    def __call__(self, x: mx.array, position: int) -> mx.array:
        """The same shape."""
        rotated: mx.array = self._rotate(x, offset=position)
        return rotated
