"""The matrix that unpacks latents into keys and values, in the form each class takes it.

Published files have `kv_b_proj` [heads * (nope + value), rank]; mlx-lm's classes of V3 and GLM have
its halves, the keys' transposed: `embed_q` [heads, rank, nope] and `unembed_out` [heads, value,
rank]. A packed matrix is packed along its rows, so what is transposed has to be unpacked; it stays
so, for packing it anew would change its values.
"""

from collections.abc import Mapping

import mlx.core as mx

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.mlx_lm_trunk.latent_attention import LATENT
from mlx_engine.models.mlx_lm_trunk.packing import packing_of

_PARTS = ("weight", "scales", "biases")


def in_form_of_class(
    model_type: str, arrays: Mapping[str, mx.array], fields: ConfigFields, origin: str
) -> dict[str, mx.array]:
    """The arrays with halves put together for V2's class, whole ones unpacked for the others."""
    made = dict(arrays)
    if model_type in LATENT:
        for name in [name for name in made if name.endswith(".kv_b_proj.scales")]:
            matrix = name.removesuffix(".scales")
            made[f"{matrix}.weight"] = _taken(made, matrix, fields.count("kv_lora_rank"), origin)
    if model_type == "deepseek_v2":
        for name in [name for name in made if name.endswith(".embed_q.weight")]:
            attention = name.removesuffix(".embed_q.weight")
            nope, rank = fields.count("qk_nope_head_dim"), fields.count("kv_lora_rank")
            keys = _taken(made, f"{attention}.embed_q", nope, origin)
            values = _taken(made, f"{attention}.unembed_out", rank, origin)
            whole = mx.concatenate([keys.swapaxes(-1, -2), values], axis=1)
            made[f"{attention}.kv_b_proj.weight"] = whole.reshape(-1, rank)
    return made


def _taken(made: dict[str, mx.array], matrix: str, inputs: int, origin: str) -> mx.array:
    """The matrix in numbers; its parts are taken out of `made`."""
    weight, scales, biases = (made.pop(f"{matrix}.{part}", None) for part in _PARTS)
    assert weight is not None
    if scales is None:
        return weight
    packing = packing_of(matrix, weight, scales, biases is not None, inputs, origin)
    dtype = mx.bfloat16 if scales.dtype == mx.uint8 else scales.dtype
    return mx.dequantize(weight, scales, biases, **packing._asdict(), dtype=dtype)
