"""LongRoPE (arXiv 2402.13753) for mlx-lm's classes, which know the list for long texts alone."""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import Rope
from mlx_engine.models.library.exchange import exchange
from mlx_engine.models.rope import rope_of


@dataclass(slots=True)
class TextLength:
    """What all rotations of a model ask: a text is long from border + 1 tokens on."""

    border: int
    is_long: bool = False


class _LongRope(Module):
    """In the place of mlx-lm's SuScaledRoPE."""

    def __init__(self, rope: Rope, length: TextLength, magnitudes: tuple[float, float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        assert rope.factors is not None
        assert rope.long_factors is not None
        periods = rope.base ** (mx.arange(0, rope.width, 2) / rope.width)
        lists = (rope.factors, rope.long_factors)
        self._periods = [mx.array(factors) * periods for factors in lists]
        self._magnitudes, self._width, self._length = magnitudes, rope.width, length

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        """[..., T, head] -> the same, rotated from position `offset` on."""
        is_long = self._length.is_long
        turned = x[..., : self._width] * self._magnitudes[is_long]
        if self._width < x.shape[-1]:
            turned = mx.concatenate([turned, x[..., self._width :]], axis=-1)
        return mx.fast.rope(
            turned.astype(x.dtype),
            self._width,
            traditional=False,
            base=None,
            scale=1.0,
            offset=offset,
            freqs=self._periods[is_long],
        )


def use_both_lists(model: Module, config: Mapping[str, object], origin: str) -> TextLength | None:
    """Exchange every such rotation; None where there is none, or the lists are one.

    config: of the text part. Phi-3.5-MoE tells what rotated elements are multiplied by for both.
    """
    fields = ConfigFields(config, origin)
    length: TextLength | None = None

    def with_both(stock: Module) -> Module | None:
        nonlocal length
        rope = rope_of(fields, stock.dim)
        if rope.long_factors in (None, rope.factors):
            return None
        length = length or TextLength(rope.long_beyond)
        told = fields.rope("full_attention")
        short, long = (told.number(f"{one}_mscale", rope.magnitude) for one in ("short", "long"))
        return _LongRope(rope, length, (short, long))

    exchange(model, {"mlx_lm.models.rope_utils.SuScaledRoPE": with_both})
    return length
