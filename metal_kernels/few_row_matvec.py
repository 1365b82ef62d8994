"""Weights times a few rows: y = x W^T for 1 to 8 rows x, each row's bits its own.

Verifying a draft multiplies the same weights by a few rows. Memory is the bound, so every weight
is read once for all rows; and a row's result must not depend on the rows beside it, so one
algorithm serves every count: the order in which a row adds is fixed by K alone.

    x [M, K] float, W [N, K] in a WeightFormat of units u (8 values each, scale s, offset o)
    part[l] = sum over units u = l, l + 32, ... of s_u * (q_u . x_u) + o_u * sum(x_u)    in float32
    y[m, n] = part[0] + ... + part[31], by simd_sum

Other kernels take ACCUMULATE and say by three macros which rows of the matrix (W_ROW), which values
of x (X_VALUE) and how many of the M rows (ROWS_HERE) it works on.

A SIMD-group takes `R` weight rows and all M rows of x: a lane fetches a unit of each weight row,
and each x it loads serves R rows. R * M accumulators, at most 24 a thread; beside them the units as
floats and eight values of one row of x are live, whatever M is. Neighbouring lanes fetch
neighbouring units, so a SIMD-group reads whole lines. Weight rows beyond N are read as the last one
and not stored. Every product is an explicit fma: what a compiler contracts could depend on M.
"""

import mlx.core as mx

from metal_kernels.cost import Cost
from metal_kernels.kernel import Launcher, Output
from metal_kernels.row_kernel import Cut, RowKernel, run_rows, weight_rows
from metal_kernels.weight_formats.contract import WeightFormat

SETUP = """
const int K = x_shape[1];
const int N = w_shape[0];
const int lane = thread_index_in_simdgroup;
const int simd = threadgroup_position_in_grid.x * SIMDS + simdgroup_index_in_threadgroup;
#define W_ROW(r) min(first + r, N - 1)
#define X_VALUE(m, k) float(x[size_t(m) * K + (k)])
#define ROWS_HERE M
"""

FIRST = """
const int first = simd * R;
"""

ACCUMULATE = """
float total[R][M];
for (int r = 0; r < R; r++) {
  for (int m = 0; m < M; m++) {
    total[r][m] = 0;
  }
}

const int units = K / (8 * RUNS);
for (int unit = lane; unit < units; unit += 32) {
  decltype(FETCH(0, 0, 0)) fetched[R];
  for (int r = 0; r < R; r++) {
    fetched[r] = FETCH(W_ROW(r), unit, K);
  }
  for (int run = 0; run < RUNS; run++) {
    const int start = run_start(unit, run);
    float q[R][8];
    float2 scale_offset[R];
    for (int r = 0; r < R; r++) {
      scale_offset[r] = decode(fetched[r], run, q[r]);
    }
    for (int m = 0; m < M; m++) {
      if (m < ROWS_HERE) {
        float x8[8];
        float sum = 0;
        for (int i = 0; i < 8; i++) {
          x8[i] = X_VALUE(m, start + i);
          sum += x8[i];
        }
        for (int r = 0; r < R; r++) {
          float dot = q[r][0] * x8[0];
          for (int i = 1; i < 8; i++) {
            dot = fma(q[r][i], x8[i], dot);
          }
          total[r][m] = fma(scale_offset[r].x, dot, fma(scale_offset[r].y, sum, total[r][m]));
        }
      }
    }
  }
}
"""

STORE = """
for (int r = 0; r < R; r++) {
  for (int m = 0; m < M; m++) {
    const float all = simd_sum(total[r][m]);
    if (lane == 0 && first + r < N) {
      y[size_t(m) * N + first + r] = T(all);
    }
  }
}
"""


KERNEL = RowKernel("few_row_matvec", SETUP + FIRST + ACCUMULATE + STORE)


def few_row_matvec(
    x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat, launcher: Launcher
) -> mx.array:
    """x [M, K] (M 1 to 8, K a multiple of form.unit) -> y [M, N] of x's dtype, row-contiguous."""
    count, outputs = x.shape[0], weights[0].shape[0]
    together = weight_rows(count)
    cut = Cut(count, together, -(-outputs // together))
    out = Output((count, outputs), x.dtype)
    return run_rows(KERNEL, form, (x, *weights), (out,), cut, launcher)[0]


def reference(x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat) -> mx.array:
    """The same by plain ops in float32, adding in the kernel's order: lane by lane, then lanes.

    Within a unit the order is MLX's own, and a product is rounded before it is added.
    """
    dense, (rows, width) = form.dequantise(weights), x.shape
    blank = -width % (32 * form.unit)
    lanes = [
        mx.pad(matrix.astype(mx.float32), [(0, 0), (0, blank)]).reshape(
            matrix.shape[0], -1, 32, form.unit
        )
        for matrix in (x, dense)
    ]
    part = mx.zeros((rows, dense.shape[0], 32))
    for step in range(lanes[0].shape[1]):
        mine, its = lanes[0][:, step], lanes[1][:, step]
        part = part + (mine[:, None] * its[None]).sum(axis=-1)
    while part.shape[-1] > 1:
        part = part[..., 0::2] + part[..., 1::2]
    return part[..., 0].astype(x.dtype)


def cost(rows: int, outputs: int, inputs: int, form: WeightFormat, x_bytes: int = 2) -> Cost:
    """Of one call: weights and x read once, y written, two operations a weight and row."""
    return Cost(
        read=outputs * form.nbytes(inputs) + rows * inputs * x_bytes,
        written=rows * outputs * x_bytes,
        flops=2.0 * rows * outputs * inputs,
    )
