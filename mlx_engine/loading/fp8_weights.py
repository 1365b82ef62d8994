"""Arrays of fp8 weights: each value times the scale of its block."""

import mlx.core as mx

from mlx_engine.loading.fp8_tensors import Block


def unpacked_fp8(codes: mx.array, scales: mx.array, block: Block, dtype: mx.Dtype) -> mx.array:
    """The weight [..., N, K], lazy, from uint8 e4m3 and floating scales; as Fp8Tensor has them.

    The product is taken in float32 and rounded once, to dtype.
    """
    *stack, rows, columns = codes.shape
    down, across = -(-rows // block.rows), -(-columns // block.columns)
    missing = [(0, down * block.rows - rows), (0, across * block.columns - columns)]
    whole = mx.pad(codes, [(0, 0)] * len(stack) + missing)
    values = mx.from_fp8(whole, mx.float32)
    blocks = values.reshape(*stack, down, block.rows, across, block.columns)
    factors = scales.astype(mx.float32).reshape(*stack, down, 1, across, 1)
    product = (blocks * factors).reshape(whole.shape)
    return product[..., :rows, :columns].astype(dtype)
