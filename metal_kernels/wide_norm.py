"""RMS norm of 16-bit rows by float32 weights, in one launch.

    y = rms(x) * w,   rms(v) = v / sqrt(mean(v^2) + eps)     (arXiv 1910.07467)

Files keep such weights in float32: GGUF all of them, and families whose norms are 1 + w, which 16
bits would round by up to 0.4 %. Stock MLX casts the row up, norms it, and casts it down: three
launches for a row of a few kilobytes, a quarter of all launches of a small model's pass.

x [R, N] of any floating dtype T, N at least 8; w float32 [N], or [W, N] where row r has weight r
mod W, as heads have -> y [R, N] of T. A threadgroup of SIMDS SIMD-groups has a row, so that a row's
bits do not depend on the rows beside it. A lane takes four neighbours at a time.

Cost: x read twice (the second time from cache), y written, w read once a row; 4 R N flops.
"""

from functools import lru_cache
from math import prod

import mlx.core as mx

from metal_kernels.kernel import KernelSource, Launch, Launcher, parameters, pipeline

HEADER = """
// Four neighbours of a row of N from i on, with zeros behind its end.
template <typename X>
METAL_FUNC void four_of_row(X x, int i, int N, thread float* values) {
  if (N % 4 == 0) {
    load_values<4>(x + i, values);
  } else {
    UNROLL for (int j = 0; j < 4; j++) {
      values[j] = i + j < N ? float(x[i + j]) : 0.0f;
    }
  }
}

// One row of N, by a threadgroup of SIMDS SIMD-groups that share `sums`.
template <typename T, int SIMDS, typename X, typename W, typename Y>
METAL_FUNC void norm_row(
    X x, W w, Y y, int N, float eps, threadgroup float* sums, int simd, int lane) {
  const int first = 4 * (32 * simd + lane);
  float sum = 0.0f;
  float values[4];
  for (int i = first; i < N; i += 128 * SIMDS) {
    four_of_row(x, i, N, values);
    UNROLL for (int j = 0; j < 4; j++) {
      sum = fma(values[j], values[j], sum);
    }
  }
  sum = simd_sum(sum);
  if (lane == 0) {
    sums[simd] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float total = simd_sum(lane < SIMDS ? sums[lane] : 0.0f);
  const float scale = precise::rsqrt(total / float(N) + eps);
  for (int i = first; i < N; i += 128 * SIMDS) {
    float weights[4];
    four_of_row(x, i, N, values);
    four_of_row(w, i, N, weights);
    UNROLL for (int j = 0; j < 4; j++) {
      if (i + j < N) {
        y[i + j] = T(values[j] * scale * weights[j]);
      }
    }
  }
}
"""

BODY = """
const int N = x_shape[x_ndim - 1];
const int row = threadgroup_position_in_grid.x;
const int weights = w_ndim > 1 ? w_shape[0] : 1;
const size_t first = size_t(row) * N;
threadgroup float sums[SIMDS];
norm_row<T, SIMDS>(x + first, w + row % weights * N, y + first, N, EPS, sums,
                   simdgroup_index_in_threadgroup, thread_index_in_simdgroup);
"""

SOURCE = KernelSource("wide_norm", ("x", "w"), ("y",), BODY, HEADER)
SHORT, SIMDS = 512, 16
"""Rows up to SHORT are for one SIMD-group, longer ones for so many."""


def wide_norm(x: mx.array, weight: mx.array, eps: float, launcher: Launcher) -> mx.array:
    """RMS-norm x [..., N] by a float32 weight [N], or x [..., W, N] by [W, N]; keeps x's dtype."""
    return launcher.run(norm_launch(SOURCE, x.shape, x.shape, x.dtype, eps), (x, weight))[0]


@lru_cache(maxsize=256)  # prompts have rows in any number
def norm_launch(
    source: KernelSource,
    rows: tuple[int, ...],
    output: tuple[int, ...],
    dtype: mx.Dtype,
    eps: float,
    parts: int = 1,
) -> Launch:
    """Make the launch of a kernel that norms rows [..., N]: a threadgroup for each row and part."""
    *lead, size = rows
    threads = 32 * (1 if size <= SHORT else SIMDS)
    made = pipeline(source, parameters(T=dtype, SIMDS=threads // 32, EPS=eps))
    grid = (threads * prod(lead), parts, 1)
    return Launch(made, (output,), (dtype,), grid, (threads, 1, 1))


def reference(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """RMS norm by float32 weights in plain MLX operations, to check wide_norm against."""
    wide = x.astype(mx.float32)
    scale = mx.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + eps)
    return (wide * scale * weight).astype(x.dtype)
