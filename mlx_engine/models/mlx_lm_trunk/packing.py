"""How a packed weight is stored, told from the shapes of its tensors."""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.values.errors import BadModelFile

_AFFINE = frozenset((bits, size) for bits in (2, 3, 4, 5, 6, 8) for size in (32, 64, 128))
_MICROSCALED = {(4, 32): "mxfp4", (8, 32): "mxfp8", (4, 16): "nvfp4"}


class Packing(NamedTuple):
    """Bits and weights per scale in one of MLX's modes; the arguments of `to_quantized`."""

    group_size: int
    bits: int
    mode: str


def packing_of(
    name: str, weight: mx.array, scales: mx.array, has_biases: bool, inputs: int, origin: str
) -> Packing:
    """From weight [..., inputs * bits / 32] uint32 and scales [..., groups]; BadModelFile."""
    words, groups = weight.shape[-1], scales.shape[-1]
    whole = groups > 0 and words > 0 and inputs % groups == 0 and words * 32 % inputs == 0
    layout = (words * 32 // inputs, inputs // groups) if whole else (0, 0)
    mode = "affine" if has_biases and layout in _AFFINE else None
    if not has_biases and scales.dtype == mx.uint8:
        mode = _MICROSCALED.get(layout)
    if weight.dtype != mx.uint32 or mode is None:
        raise BadModelFile(
            f"{origin}: {name} is packed in a way that does not exist ({weight.dtype} "
            f"{list(weight.shape)} with {scales.dtype} scales {list(scales.shape)} for rows of "
            f"{inputs}). The file is damaged or its config belongs to another model: get both "
            "again from the same place."
        )
    return Packing(layout[1], layout[0], mode)
