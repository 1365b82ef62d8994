"""Product of many rows, as prompts have, with a matrix in GGUF blocks: y = x W^T.

MLX cannot read such blocks; it can only be given dequantised values, which writes and reads every
weight once more, rounded. Here weights are unpacked where they are multiplied:

    x [M, K] float, W [N, K] in a WeightFormat of units of 32
    y[m, n] = sum over k of x[m, k] W[n, k]         in float32, from the first k to the last

A threadgroup of four SIMD-groups computes 64 rows by 64 outputs. In steps of 32 values of K it
copies x and the unpacked weights into threadgroup memory as float32, so that no weight is rounded;
each SIMD-group multiplies 32 rows by 32 outputs in 8 x 8 tiles (simdgroup_matrix), skipping tiles
without rows. A row's bits do not depend on the rows beside it.

A step covers values that are neighbours in x. Where the runs of a unit are neighbours too, a step
is one unit, of which two SIMD-groups unpack two runs each; in K-quants runs are 32 apart, and four
steps are four neighbouring units, two of which a lane keeps in registers and takes a run from at
each step.

Experts: rows sorted by expert, W [E, N, K]. A threadgroup computes 64 outputs of one expert, finds
its rows by bisection and processes them 64 at a time; it ends at once where there are none.

Cost: weights read and unpacked once for 64 rows, x read once for 64 outputs (neighbours share both
in caches), y written; 2 M N K flops; 18 KB of threadgroup memory, 32 floats of sums a lane.
"""

import mlx.core as mx

from metal_kernels.few_row_matvec import MatvecTemplate, kernel_source
from metal_kernels.kernel import Launch, Launcher, Size, parameters, pipeline
from metal_kernels.weight_formats.contract import WeightFormat

TILE = 64
"""Rows, and outputs, of a threadgroup."""

THREADS = 128

ALL_ROWS = """
const int K = x_shape[1];
const int N = w_shape[0];
const int from = threadgroup_position_in_grid.x * TILE;
const int to = min(from + TILE, int(x_shape[0]));
const int first = threadgroup_position_in_grid.y * TILE;
const int w_start = 0;
"""

EXPERT_ROWS = """
const int K = x_shape[1];
const int N = w_shape[1];
const int expert = threadgroup_position_in_grid.y;
// Even lanes find where this expert's rows begin, odd ones where the next one's do.
const int sought = expert + thread_index_in_simdgroup % 2;
int begin = 0;
int end = x_shape[0];
while (begin < end) {
  const int middle = (begin + end) / 2;
  if (int(experts[middle]) < sought) {
    begin = middle + 1;
  } else {
    end = middle;
  }
}
const int from = simd_shuffle(begin, 0);
const int to = simd_shuffle(begin, 1);
const int first = threadgroup_position_in_grid.x * TILE;
const int w_start = expert * N;
"""

PRODUCT = """
constexpr int STEP = 32;
constexpr int PITCH = STEP + 4;       // rows of 16 bytes more fall on other banks
constexpr int STEPS = RUN_STEP / 8;   // that the runs of a unit are spread over
constexpr int UNITS = STEPS == 1 ? 1 : 2;  // that a lane keeps
threadgroup float4 staged[2 * TILE * PITCH / 4];
threadgroup float* const weights = (threadgroup float*)staged;
threadgroup float* const rows = weights + TILE * PITCH;

const int lane = thread_index_in_simdgroup;
const int simd = simdgroup_index_in_threadgroup;
const int output = (simd % 2) * 32 + lane;
const int w_row = w_start + min(first + output, N - 1);
const int my_part = (simd / 2) * 2;   // of the four runs of a step, and the one after it
const int column = (lane % 8) * 4;
const int my_rows = (simd / 2) * 32;
const int my_outputs = (simd % 2) * 32;

for (int top = from; top < to; top += TILE) {
  const int here = min(TILE, to - top);
  simdgroup_float8x8 total[4][4];
  UNROLL for (int m = 0; m < 4; m++) {
    UNROLL for (int n = 0; n < 4; n++) {
      total[m][n] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
  }
  for (int span = 0; span < K; span += STEP * STEPS) {
    float q[8];
    decltype(FETCH(0, 0, 0)) held[UNITS];
    UNROLL for (int i = 0; i < UNITS; i++) {
      held[i] = FETCH(w_row, span / 32 + (STEPS == 1 ? 0 : my_part + i), K);
    }
    if (STEPS == 1 && my_part > 0) {
      decode(held[0], q);
      decode(held[0], q);
    }
    for (int step = 0; step < STEPS; step++) {
      UNROLL for (int i = 0; i < 4; i++) {
        const int row = simd * 16 + i * 4 + lane / 8;
        if (row < (here + 7) / 8 * 8) {
          const uint at = min(top + row, to - 1) * uint(K) + uint(span + step * STEP + column);
          const vec<T, 4> four = *(const device vec<T, 4>*)(x + at);
          threadgroup float4* put = (threadgroup float4*)(rows + row * PITCH + column);
          put[0] = float4(float(four.x), float(four.y), float(four.z), float(four.w));
        }
      }
      UNROLL for (int i = 0; i < 2; i++) {
        const float scale = decode(held[i % UNITS], q);
        UNROLL for (int j = 0; j < 8; j++) {
          q[j] *= scale;
        }
        threadgroup float4* put = (threadgroup float4*)(weights + output * PITCH);
        put[2 * (my_part + i)] = float4(q[0], q[1], q[2], q[3]);
        put[2 * (my_part + i) + 1] = float4(q[4], q[5], q[6], q[7]);
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      UNROLL for (int part = 0; part < 4; part++) {
        simdgroup_float8x8 right[4];
        UNROLL for (int n = 0; n < 4; n++) {
          const threadgroup float* from_it = weights + (my_outputs + 8 * n) * PITCH + 8 * part;
          simdgroup_load(right[n], from_it, PITCH, ulong2(0, 0), true);
        }
        UNROLL for (int m = 0; m < 4; m++) {
          if (my_rows + 8 * m < here) {
            simdgroup_float8x8 left;
            simdgroup_load(left, rows + (my_rows + 8 * m) * PITCH + 8 * part, PITCH);
            UNROLL for (int n = 0; n < 4; n++) {
              simdgroup_multiply_accumulate(total[m][n], left, right[n], total[m][n]);
            }
          }
        }
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
  }
  UNROLL for (int m = 0; m < 4; m++) {
    UNROLL for (int n = 0; n < 4; n++) {
      if (my_rows + 8 * m < here) {
        simdgroup_store(
            total[m][n], weights + (my_rows + 8 * m) * 2 * PITCH + my_outputs + 8 * n, 2 * PITCH);
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int at = simd * 32 + lane; at < here * TILE; at += THREADS) {
    const int row = at / TILE;
    const int n = first + at % TILE;
    if (n < N) {
      y[size_t(top + row) * N + n] = T(weights[row * 2 * PITCH + at % TILE]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
"""

MANY_ROWS = MatvecTemplate("many_row_product", ALL_ROWS + PRODUCT)
MANY_EXPERTS = MatvecTemplate("many_row_experts", EXPERT_ROWS + PRODUCT, before=("x", "experts"))


def many_row_product(
    x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat, launcher: Launcher
) -> mx.array:
    """Multiply x [M, K], many rows, by a matrix in GGUF blocks -> [M, N] of x's dtype."""
    tiles = (_tiles(x.shape[0]), _tiles(weights[0].shape[0]), 1)
    return _run(MANY_ROWS, form, (x, *weights), tiles, launcher)


def reference(x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat) -> mx.array:
    """x W^T in plain MLX operations, float32, to check the kernel many_row_product against."""
    return (x.astype(mx.float32) @ form.dequantise(weights).T).astype(x.dtype)


def many_row_experts(
    x: mx.array,
    experts: mx.array,
    weights: tuple[mx.array, ...],
    form: WeightFormat,
    launcher: Launcher,
) -> mx.array:
    """Multiply rows x [M, K], sorted by their expert, by that expert's matrix -> [M, N].

    Expert ids are [M], the matrices stacks [E, N, ...] of GGUF blocks.
    """
    tiles = (_tiles(weights[0].shape[1]), weights[0].shape[0], 1)
    return _run(MANY_EXPERTS, form, (x, experts, *weights), tiles, launcher)


def experts_reference(
    x: mx.array, experts: mx.array, weights: tuple[mx.array, ...], form: WeightFormat
) -> mx.array:
    """Rows times their experts in plain MLX operations, to check many_row_experts against."""
    values = form.dequantise(weights).swapaxes(-1, -2)
    rows = x.astype(mx.float32)[:, None]
    made = mx.gather_mm(rows, values, rhs_indices=experts.astype(mx.uint32))
    return made.squeeze(1).astype(x.dtype)


def _tiles(count: int) -> int:
    return -(-count // TILE)


def _run(
    kernel: MatvecTemplate,
    form: WeightFormat,
    inputs: tuple[mx.array, ...],
    threadgroups: Size,
    launcher: Launcher,
) -> mx.array:
    assert form.unit == 32, form.name
    x, outputs = inputs[0], inputs[-1].shape[-2]
    sizes = parameters(T=x.dtype, TILE=TILE, THREADS=THREADS)
    grid = (threadgroups[0] * THREADS, threadgroups[1], threadgroups[2])
    made = pipeline(kernel_source(kernel, form), (*sizes, *form.parameters))
    launch = Launch(made, ((x.shape[0], outputs),), (x.dtype,), grid, (THREADS, 1, 1))
    return launcher.run(launch, inputs)[0]
