"""Replaces RoPE layers of mlx-lm's models by ones with every scaling that configs ask for.

mlx-lm uses only LongRoPE's factors for long texts (arXiv 2402.13753) and YaRN (arXiv 2309.00071)
without `attention_factor` and `truncate`; several classes have no scaling at all.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_unflatten

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import RopeSpec
from mlx_engine.models.rope import apply_rope_scaling

_LAYER = re.compile(r"(?:.+\.)?(?:layers|h|blocks)\.(\d+)\..+")
_LONG_ALONE = "mlx_lm.models.rope_utils.SuScaledRoPE"
_WIDTH = {
    "mlx.nn.layers.positional_encoding.RoPE": "dims",
    "mlx_lm.models.rope_utils.YarnRoPE": "dims",
    "mlx_lm.models.rope_utils.Llama3RoPE": "dims",
    "mlx_lm.models.rope_utils.DynamicNTKScalingRoPE": "dims",
    "mlx_lm.models.hunyuan.DynamicNTKAlphaRoPE": "dims",
    "mlx_lm.models.hunyuan_v1_dense.DynamicNTKAlphaRoPE": "dims",
    "mlx_lm.models.internlm3.DynamicNTKScalingRoPE": "dims",
    _LONG_ALONE: "dim",
}
"""By the whole name of a rotation's class: its attribute for the number of rotated elements."""


@dataclass(slots=True)
class TextLength:
    """Switch shared by a model's RoPE layers: is the text longer than `switch_length` tokens?"""

    switch_length: int
    is_long: bool = False


class _Rotation(Module):
    """RoPE layer that replaces one of mlx-lm's; magnitudes: factors for short and long texts."""

    def __init__(
        self, rope: RopeSpec, magnitudes: tuple[float, float], prompt_length: TextLength
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        periods = rope.base ** (mx.arange(0, rope.width, 2) / rope.width)
        lists = (rope.factors, rope.long_factors or rope.factors)
        self._periods = [periods if one is None else mx.array(one) * periods for one in lists]
        self._rope, self._magnitudes, self._length = rope, magnitudes, prompt_length

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        """Rotate queries or keys [..., T, head], of which the first is at position `offset`."""
        is_long, width = self._length.is_long, self._rope.width
        if self._magnitudes[is_long] != 1:
            turned = x[..., :width] * self._magnitudes[is_long]
            x = mx.concatenate([turned, x[..., width:]], axis=-1).astype(x.dtype)
        return mx.fast.rope(
            x,
            width,
            traditional=self._rope.interleaved,
            base=None,
            scale=1.0,
            offset=offset,
            freqs=self._periods[is_long],
        )


def use_engine_rope(model: Module, config: Mapping[str, object], origin: str) -> TextLength | None:
    """Replace a model's scaled RoPE layers; returns their switch for long texts or None.

    config: as the class reads it (class_fields.py). Raises BadModelFile for fields that are not
    numbers. Phi-3.5-MoE gives magnitudes for both lengths.
    """
    unscaled = {key: value for key, value in config.items() if key != "rope_scaling"}
    fields = ConfigFields(unscaled, origin)
    kinds = fields.strings("layer_types")
    parts = fields.section("rope_parameters") or ()  # for each kind of layers, or one for all
    length, made = TextLength(0), []
    modules = model.named_modules()  # type: ignore[no-untyped-call]
    for path, stock in modules:
        name = f"{type(stock).__module__}.{type(stock).__qualname__}"
        if name not in _WIDTH:
            continue
        found = _LAYER.fullmatch(path)
        number = int(found[1]) if found else len(kinds)
        kind = kinds[number] if number < len(kinds) else "full_attention"
        values = fields.rope_fields(kind if kind in parts else "full_attention")
        is_interleaved = bool(vars(stock).get("traditional"))
        base = values.number("rope_theta", vars(stock).get("base", 10000.0))
        plain = RopeSpec(vars(stock)[_WIDTH[name]], base, interleaved=is_interleaved)
        rope = apply_rope_scaling(plain, values, fields)
        if rope == plain and name != _LONG_ALONE:
            continue
        if rope.long_factors not in (None, rope.factors):
            length.switch_length = rope.long_rope_after
        short, long = (values.number(f"{one}_mscale", rope.magnitude) for one in ("short", "long"))
        made.append((path, _Rotation(rope, (short, long), length)))
    if made:
        model.update_modules(tree_unflatten(made))
    return length if length.switch_length else None
