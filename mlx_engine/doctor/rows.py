"""Whether a row of a product depends on the rows beside it, with stock MLX on this machine.

Drafting verifies k+1 rows in one pass; where a row depends on them, the same text with drafting on
and off takes more than the stock kernels.
"""

from collections.abc import Callable, Iterator

import mlx.core as mx

from mlx_engine.doctor.finding import Finding

MOST_ROWS = 8
SHAPES = ((1024, 512), (512, 1536))
"""Inputs and outputs of the tested matrices."""

Product = Callable[[mx.array], mx.array]


def check_rows() -> Iterator[Finding]:
    """One finding for each way of storing weights. Activations are of the type models use here."""
    activations = mx.bfloat16 if mx.metal.is_available() else mx.float32
    yield rows_finding("rows float32", [_dense(shape) for shape in SHAPES], mx.float32)
    for bits in (8, 4):
        products = [_quantised(shape, bits, activations) for shape in SHAPES]
        yield rows_finding(f"rows {bits}-bit", products, activations)


def rows_finding(name: str, products: list[Product], dtype: mx.Dtype) -> Finding:
    """Warn when a product's rows depend on their number; each product knows its own width."""
    dependent = sorted(
        {
            rows
            for product, (width, _) in zip(products, SHAPES, strict=True)
            for rows in dependent_row_counts(product, width, dtype)
        }
    )
    if not dependent:
        return Finding(name, "ok", f"bit-equal in passes of 1 to {MOST_ROWS} rows")
    counts = ", ".join(str(rows) for rows in dependent)
    return Finding(name, "warn", f"a row changes in passes of {counts} rows, with stock kernels")


def dependent_row_counts(product: Product, width: int, dtype: mx.Dtype) -> list[int]:
    """Row counts up to 8 at which some row differs, in any bit, from that row alone."""
    rows = mx.random.normal((MOST_ROWS, width), key=mx.random.key(7)).astype(dtype)
    alone = mx.concatenate([product(rows[i : i + 1]) for i in range(MOST_ROWS)])
    return [
        count
        for count in range(2, MOST_ROWS + 1)
        if not mx.array_equal(product(rows[:count]), alone[:count]).item()
    ]


def _weights(shape: tuple[int, int]) -> mx.array:
    inputs, outputs = shape
    return mx.random.normal((outputs, inputs), key=mx.random.key(11))


def _dense(shape: tuple[int, int]) -> Product:
    weights = _weights(shape)
    return lambda rows: rows @ weights.T


def _quantised(shape: tuple[int, int], bits: int, dtype: mx.Dtype) -> Product:
    weights, scales, biases = mx.quantize(_weights(shape).astype(dtype), group_size=64, bits=bits)
    return lambda rows: mx.quantized_matmul(
        rows, weights, scales, biases, transpose=True, group_size=64, bits=bits
    )
