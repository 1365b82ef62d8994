"""YaRN rotation (arXiv 2309.00071) whose range of stretched frequencies is not rounded.

gpt-oss was trained with `truncate: false`; mlx-lm 0.32.2 rounds the range to whole dimensions.
"""

import math
from collections.abc import Mapping

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.models.config_fields import ConfigFields


class YarnRotation(Module):
    """Rotates [1, heads, T, size] from position `offset` on, halves apart."""

    def __init__(self, size: int, flat: Mapping[str, object], origin: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        scaling = flat["rope_scaling"]
        assert isinstance(scaling, Mapping)
        inner = ConfigFields(scaling, origin)
        factor = inner.number("factor", 1.0)
        trained = inner.number("original_max_position_embeddings", 4096)
        base = ConfigFields(flat, origin).number("rope_theta", 10000.0)

        def turning(rotations: float) -> float:
            """The dimension that turns so often within the trained length."""
            return size * math.log(trained / (rotations * 2 * math.pi)) / (2 * math.log(base))

        low = max(0.0, turning(inner.number("beta_fast", 32)))
        high = min(size - 1.0, turning(inner.number("beta_slow", 1)))
        steps = mx.arange(size // 2, dtype=mx.float32)
        stretched = mx.clip((steps - low) / max(high - low, 0.001), 0, 1)
        plain = base ** (2 * steps / size)
        self._periods = 1 / ((1 - stretched) / plain + stretched / (factor * plain))
        self._size = size
        self._magnitude = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0

    def __call__(self, x: mx.array, offset: int = 0) -> mx.array:
        """The same shape."""
        scaled = self._magnitude * x
        return mx.fast.rope(
            scaled,
            self._size,
            traditional=False,
            base=None,
            scale=1.0,
            offset=offset,
            freqs=self._periods,
        )


def rotate_untruncated(model: Module, flat: Mapping[str, object], origin: str) -> None:
    """Give every layer of a built gpt-oss this rotation where its config asks for it."""
    scaling = flat.get("rope_scaling")
    if not isinstance(scaling, Mapping) or scaling.get("truncate", True) is not False:
        return
    if scaling.get("rope_type") == "yarn":
        rotation = YarnRotation(ConfigFields(flat, origin).count("head_dim"), flat, origin)
        for layer in model["model"]["layers"]:
            layer["self_attn"].rope = rotation
