"""Rotation whose periods are stretched by a factor each, as GGUF files list them.

A config asks for it by rope_scaling {"rope_type": "listed", "base": b, "factors": [...],
"magnitude": m} and perhaps "layers", if not all have it; mlx-lm's classes know nothing of it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import mlx.core as mx
from mlx.nn.layers.base import Module


class Listed(NamedTuple):
    """base: of the periods; factors: one for each pair of elements.

    magnitude: what rotated elements are multiplied by. layers: those that have it, None for all.
    """

    base: float
    factors: tuple[float, ...]
    magnitude: float
    layers: tuple[int, ...] | None


class ListedRotation(Module):
    """Rotates the first elements of [1, heads, T, size] from position `offset` on, halves apart."""

    def __init__(self, listed: Listed) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._size = 2 * len(listed.factors)
        plain = listed.base ** (mx.arange(0, self._size, 2, dtype=mx.float32) / self._size)
        self._periods = plain * mx.array(listed.factors, dtype=mx.float32)
        self._magnitude = listed.magnitude

    def __call__(self, x: mx.array, offset: int = 0) -> mx.array:
        """The same shape."""
        if self._magnitude != 1:
            rotated = self._magnitude * x[..., : self._size]
            x = mx.concatenate([rotated, x[..., self._size :]], axis=-1)
        return mx.fast.rope(
            x,
            self._size,
            traditional=False,
            base=None,
            scale=1.0,
            offset=offset,
            freqs=self._periods,
        )


def listed_rotation(flat: Mapping[str, object]) -> Listed | None:
    """What a config lists; None where it does not."""
    scaling = flat.get("rope_scaling")
    if not isinstance(scaling, Mapping) or scaling.get("rope_type") != "listed":
        return None
    layers = scaling.get("layers")
    return Listed(
        scaling["base"],
        tuple(scaling["factors"]),
        scaling["magnitude"],
        None if layers is None else tuple(layers),
    )


def rotate_as_listed(model: Module, listed: Listed) -> None:
    """Give this rotation to the layers of a built model that are to have it."""
    layers = model["model"]["layers"]
    for number in range(len(layers)) if listed.layers is None else listed.layers:
        layers[number]["self_attn"].rope = ListedRotation(listed)
