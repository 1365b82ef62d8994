"""A GGUF block type as a form that kernels read: one buffer of bytes, units of four runs."""

from collections.abc import Callable

import mlx.core as mx

from metal_kernels.weight_formats.contract import WeightFormat


def block_format(
    name: str, each: float, header: str, values: Callable[[mx.array], mx.array]
) -> WeightFormat:
    """each: bytes a value. values: uint8 [N, bytes of a row] -> float32 [N, K]."""
    return WeightFormat(
        name=name,
        buffers=("w",),
        unit=32,
        header=header,
        parameters=(),
        dequantise=lambda arrays: values(arrays[0]),
        nbytes=lambda k: k * each,
    )
