"""y = x W^T for up to 32 rows x, in 8 x 8 matrices: a weight costs as much for 8 rows as for one.

    x [M, K] float, W [N, K] in a WeightFormat
    y[m, n] = sum of four shares of K, each added up in steps; all in float32

A GPU multiplies 8 x 8 matrices (simdgroup_matrix) at the rate of single products, so from about six
rows on this takes less than a product for each. It adds in another order than few_row_matvec, so
rows have other bits than a pass of one; but its own do not depend on the rows beside it.

A lane holds two elements of such a matrix: of row i, two neighbouring columns (as MLX's kernels
presume too). The sum does not care which k is where, as long as W and x agree. So the four lanes of
a row of W take a unit each, decode a run of eight weights, and hold two of them in each of four
matrices; and a lane of x loads four neighbours, one for each matrix. Nothing goes through
threadgroup memory but the sums: four SIMD-groups share TILES times eight weight rows, by turns.

Cost: weights read and decoded once, x read once for 8 TILES weight rows, y written; 16 N K flops
for each eight rows, begun or whole.
"""

from functools import cache
from math import prod

import mlx.core as mx

from metal_kernels.few_row_matvec import MatvecTemplate, kernel_source
from metal_kernels.kernel import Launch, Launcher, parameters, pipeline
from metal_kernels.weight_formats.contract import WeightFormat

MOST_ROWS = 32
TILES = (4, 4, 2, 2)
"""Matrices of weights in a SIMD-group, by those of rows: what a lane's registers hold."""

SHARES = 4
"""SIMD-groups that share a threadgroup's weights."""

BODY = """
const int rows = x_shape[0];
const int K = x_shape[1];
const int N = w_shape[0];
const int lane = thread_index_in_simdgroup;
const int simd = simdgroup_index_in_threadgroup;
const int first = threadgroup_position_in_grid.x * 8 * TILES;
const int row = (lane / 16) * 4 + (lane / 2) % 4;     // of a matrix, in which this lane has
const int column = (lane / 8 % 2) * 4 + lane % 2 * 2;  // two elements from this column on

simdgroup_float8x8 total[TILES][ROW_TILES];
UNROLL for (int a = 0; a < TILES; a++) {
  UNROLL for (int b = 0; b < ROW_TILES; b++) {
    total[a][b] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
}
const int units = K / (8 * RUNS);
for (int four = 4 * simd; four < units; four += 4 * SHARES) {
  const bool is_beyond = four + row / 2 >= units;
  const int w_unit = min(four + column / 2, units - 1);
  const int x_unit = min(four + row / 2, units - 1);
  decltype(FETCH(0, 0, 0)) held[TILES];
  UNROLL for (int a = 0; a < TILES; a++) {
    held[a] = FETCH(min(first + 8 * a + row, N - 1), w_unit, K);
  }
  for (int run = 0; run < RUNS; run++) {
    float q[TILES][8];
    UNROLL for (int a = 0; a < TILES; a++) {
      const float scale = decode(held[a], q[a]);
      UNROLL for (int i = 0; i < 8; i++) {
        q[a][i] *= scale;
      }
    }
    const int start = run_start(x_unit, run) + row % 2 * 4;
    UNROLL for (int b = 0; b < ROW_TILES; b++) {
      float values[2][4];
      UNROLL for (int i = 0; i < 2; i++) {
        load_values<4>(x + size_t(min(8 * b + column + i, rows - 1)) * K + start, values[i]);
        UNROLL for (int k = 0; k < 4; k++) {
          values[i][k] = is_beyond ? 0.0f : values[i][k];
        }
      }
      UNROLL for (int k = 0; k < 4; k++) {
        simdgroup_float8x8 right;
        right.thread_elements()[0] = values[0][k];
        right.thread_elements()[1] = values[1][k];
        UNROLL for (int a = 0; a < TILES; a++) {
          simdgroup_float8x8 left;
          left.thread_elements()[0] = q[a][k];
          left.thread_elements()[1] = q[a][4 + k];
          simdgroup_multiply_accumulate(total[a][b], left, right, total[a][b]);
        }
      }
    }
  }
}

constexpr int SUMS = TILES * ROW_TILES * 64;
threadgroup float sums[SHARES * SUMS];
UNROLL for (int a = 0; a < TILES; a++) {
  UNROLL for (int b = 0; b < ROW_TILES; b++) {
    threadgroup float* to = sums + simd * SUMS + b * TILES * 64 + a * 8;
    simdgroup_store(total[a][b], to, 8 * TILES, ulong2(0, 0), true);
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (int at = 32 * simd + lane; at < SUMS; at += 32 * SHARES) {
  const int m = at / (8 * TILES);
  const int n = first + at % (8 * TILES);
  if (m < rows && n < N) {
    float sum = sums[at];
    UNROLL for (int share = 1; share < SHARES; share++) {
      sum += sums[share * SUMS + at];
    }
    y[size_t(m) * N + n] = T(sum);
  }
}
"""

KERNEL = MatvecTemplate("tile_product", BODY)


def tile_product(
    x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat, launcher: Launcher
) -> mx.array:
    """Multiply x [..., K], up to 32 rows, by a matrix [N, K] -> [..., N] of x's dtype."""
    launch = _make_launch(form, x.shape, x.dtype, weights[0].shape[0])
    return launcher.run(launch, (x.reshape(-1, x.shape[-1]), *weights))[0]


@cache
def _make_launch(
    form: WeightFormat, shape: tuple[int, ...], dtype: mx.Dtype, outputs: int
) -> Launch:
    *lead, _ = shape
    rows = prod(lead)
    assert 1 <= rows <= MOST_ROWS, rows
    row_tiles = -(-rows // 8)
    tiles = TILES[row_tiles - 1]
    sizes = parameters(T=dtype, ROW_TILES=row_tiles, TILES=tiles, SHARES=SHARES)
    made = pipeline(kernel_source(KERNEL, form), (*sizes, *form.parameters))
    threads = 32 * SHARES
    grid = (threads * -(-outputs // (8 * tiles)), 1, 1)
    return Launch(made, ((*lead, outputs),), (dtype,), grid, (threads, 1, 1))
