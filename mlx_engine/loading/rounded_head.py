"""Rounds the matrices of an MTP head to fewer bits: it drafts faster, and changes no text."""

from collections.abc import Mapping

import mlx.core as mx

from mlx_engine.values.options import HeadBits

GROUP = 64
ROUTERS = (".gate.weight", ".shared_expert_gate.weight")
"""Small matrices that choose experts; rounding them saves nothing and sends tokens elsewhere."""


def rounded_head(arrays: Mapping[str, mx.array], bits: HeadBits) -> dict[str, mx.array]:
    """Canonical head arrays -> the same with dense matrices packed, lazily.

    Matrices that are packed already, or whose rows are no multiple of GROUP, stay as they are.
    """
    packed: dict[str, mx.array] = {}
    for name, array in arrays.items():
        matrix = name.removesuffix(".weight")
        is_dense = array.ndim == 2 and mx.issubdtype(array.dtype, mx.floating)
        if not is_dense or name.endswith(ROUTERS) or array.shape[1] % GROUP:
            packed[name] = array
            continue
        weight, scales, biases = mx.quantize(array, group_size=GROUP, bits=bits)
        packed |= {name: weight, f"{matrix}.scales": scales, f"{matrix}.biases": biases}
    return packed
