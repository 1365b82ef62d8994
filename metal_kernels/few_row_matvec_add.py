"""Weights times a few rows, and a bias or a residual added as the product is stored.

    y = x W^T + c,    x [M, K], W [N, K], c [N] (a bias) or [M, N] (a residual)

The product is that of few_row_matvec, bit for bit, rounded to x's dtype before c is added, so that
y is what the product and an addition of its own would give, without the launch and the traffic
of one.
"""

import mlx.core as mx

from metal_kernels import few_row_matvec
from metal_kernels.cost import Cost
from metal_kernels.few_row_matvec import ACCUMULATE, FIRST, SETUP
from metal_kernels.kernel import Launcher, Output, Parameter
from metal_kernels.row_kernel import Cut, RowKernel, run_rows, weight_rows
from metal_kernels.weight_formats.contract import WeightFormat

STORE = """
for (int r = 0; r < R; r++) {
  for (int m = 0; m < M; m++) {
    const float all = float(T(simd_sum(total[r][m])));
    if (lane == 0 && first + r < N) {
      const float added = float(c[(EACH_ROW ? size_t(m) * N : 0) + first + r]);
      y[size_t(m) * N + first + r] = T(all + added);
    }
  }
}
"""


KERNEL = RowKernel("few_row_matvec_add", SETUP + FIRST + ACCUMULATE + STORE, after=("c",))


def few_row_matvec_add(
    x: mx.array,
    weights: tuple[mx.array, ...],
    c: mx.array,
    form: WeightFormat,
    launcher: Launcher,
) -> mx.array:
    """x [M, K], c [N] or [M, N] of any floating dtype -> y [M, N] of x's dtype."""
    count, outputs = x.shape[0], weights[0].shape[0]
    together = weight_rows(count)
    cut = Cut(count, together, -(-outputs // together))
    out = Output((count, outputs), x.dtype)
    extra = (Parameter("EACH_ROW", c.ndim == 2),)
    return run_rows(KERNEL, form, (x, *weights, c), (out,), cut, launcher, extra)[0]


def reference(
    x: mx.array, weights: tuple[mx.array, ...], c: mx.array, form: WeightFormat
) -> mx.array:
    """The same by plain ops."""
    product = few_row_matvec.reference(x, weights, form).astype(mx.float32)
    return (product + c.astype(mx.float32)).astype(x.dtype)


def cost(
    rows: int, outputs: int, inputs: int, added: int, form: WeightFormat, x_bytes: int = 2
) -> Cost:
    """Of one call; added: elements of c."""
    product = few_row_matvec.cost(rows, outputs, inputs, form, x_bytes)
    return product._replace(
        read=product.read + added * x_bytes, flops=product.flops + rows * outputs
    )
