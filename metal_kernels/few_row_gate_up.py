"""Gate and up of a feed-forward in one pass: y = silu(x G^T) * (x U^T) for 1 to 8 rows.

G and U [N, K] are stored as one matrix [2N, K], G's rows first. A SIMD-group takes the same rows of
both, so each x it loads serves gate and up, and neither product is ever written. The products are
those of few_row_matvec, bit for bit, rounded to x's dtype before they meet; a row's result does
not depend on the rows beside it. silu(g) = g / (1 + exp(-g)) (arXiv 2002.05202).
"""

import mlx.core as mx

from metal_kernels import few_row_matvec
from metal_kernels.cost import Cost
from metal_kernels.few_row_matvec import ACCUMULATE
from metal_kernels.kernel import Launcher, Output
from metal_kernels.row_kernel import Cut, RowKernel, run_rows, weight_rows
from metal_kernels.weight_formats.contract import WeightFormat

SETUP = """
const int K = x_shape[1];
const int N = w_shape[0] / 2;
const int lane = thread_index_in_simdgroup;
const int simd = threadgroup_position_in_grid.x * SIMDS + simdgroup_index_in_threadgroup;
const int first = simd * (R / 2);
#define W_ROW(r) (min(first + r % (R / 2), N - 1) + (r < R / 2 ? 0 : N))
#define X_VALUE(m, k) float(x[size_t(m) * K + (k)])
#define ROWS_HERE M
"""

STORE = """
for (int r = 0; r < R / 2; r++) {
  for (int m = 0; m < M; m++) {
    const float gate = float(T(simd_sum(total[r][m])));
    const float up = float(T(simd_sum(total[r + R / 2][m])));
    if (lane == 0 && first + r < N) {
      y[size_t(m) * N + first + r] = T(gate / (1.0f + exp(-gate)) * up);
    }
  }
}
"""


KERNEL = RowKernel("few_row_gate_up", SETUP + ACCUMULATE + STORE)


def few_row_gate_up(
    x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat, launcher: Launcher
) -> mx.array:
    """x [M, K], weights of both [2N, K] -> [M, N] of x's dtype."""
    count, outputs = x.shape[0], weights[0].shape[0] // 2
    pairs = weight_rows(count) // 2
    cut = Cut(count, 2 * pairs, -(-outputs // pairs))
    out = Output((count, outputs), x.dtype)
    return run_rows(KERNEL, form, (x, *weights), (out,), cut, launcher)[0]


def reference(x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat) -> mx.array:
    """The same by plain ops."""
    both = few_row_matvec.reference(x, weights, form).astype(mx.float32)
    gate, up = mx.split(both, 2, axis=-1)
    return (gate / (1 + mx.exp(-gate)) * up).astype(x.dtype)


def cost(rows: int, outputs: int, inputs: int, form: WeightFormat, x_bytes: int = 2) -> Cost:
    """Of one call; `outputs` are N, half the rows of the matrix."""
    both = few_row_matvec.cost(rows, 2 * outputs, inputs, form, x_bytes)
    return both._replace(written=rows * outputs * x_bytes, flops=both.flops + 14.0 * rows * outputs)
