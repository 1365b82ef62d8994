"""Factors of Falcon-H1's keys and values, which mlx-lm's class leaves out."""

from collections.abc import Mapping

import mlx.core as mx

_CONV = "model.layers.0.mamba.conv1d.weight"


def with_all_factors(
    arrays: Mapping[str, mx.array], config: Mapping[str, object]
) -> dict[str, mx.array]:
    """What transformers multiplies by and mlx-lm 0.32.2 does not, in files it has not converted.

    Convolutions tell: [channels, 1, taps] as published. Others have all factors in their matrices.
    """
    conv = arrays.get(_CONV)
    if conv is None or conv.shape[-1] <= conv.shape[1]:
        return dict(arrays)
    told = {key: config.get(key, 1.0) for key in ("key_multiplier", "attention_in_multiplier")}
    factors = {part: told[key] for part, key in zip("kv", told, strict=True)}
    made = dict(arrays)
    for name, array in arrays.items():
        factor = factors.get(name.removesuffix("_proj.weight")[-1:])
        if name.endswith(("k_proj.weight", "v_proj.weight")) and isinstance(factor, float):
            made[name] = array * factor
    return made
