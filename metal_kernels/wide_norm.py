"""RMS norm of 16-bit rows by float32 weights, in one launch.

    y = rms(x) * w,   rms(v) = v / sqrt(mean(v^2) + eps)     (arXiv 1910.07467)

Files keep such weights in float32: GGUF all of them, and families whose norms are 1 + w, which 16
bits would round by up to 0.4 %. Stock MLX casts the row up, norms it, and casts it down: three
launches for a row of a few kilobytes, a quarter of all launches of a small model's pass.

x [R, N] of any floating dtype T, w float32 [N], or [W, N] where row r has weight r mod W, as heads
have -> y [R, N] of T. A threadgroup of SIMDS SIMD-groups has a row, so that a row's bits do not
depend on the rows beside it.

Cost: x read twice (the second time from cache), y written, w read once a row; 4 R N flops.
"""

from functools import lru_cache
from math import prod

import mlx.core as mx

from metal_kernels.kernel import KernelSource, Launch, Launcher, parameters, pipeline

HEADER = """
// One row of N, by a threadgroup of SIMDS SIMD-groups that share `sums`.
template <typename T, int SIMDS, typename X, typename W, typename Y>
METAL_FUNC void norm_row(
    X x, W w, Y y, int N, float eps, threadgroup float* sums, int simd, int lane) {
  float sum = 0.0f;
  for (int i = 32 * simd + lane; i < N; i += 32 * SIMDS) {
    const float value = float(x[i]);
    sum = fma(value, value, sum);
  }
  sum = simd_sum(sum);
  if (lane == 0) {
    sums[simd] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float total = 0.0f;
  for (int s = 0; s < SIMDS; s++) {
    total += sums[s];
  }
  const float scale = precise::rsqrt(total / float(N) + eps);
  for (int i = 32 * simd + lane; i < N; i += 32 * SIMDS) {
    y[i] = T(float(x[i]) * scale * w[i]);
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
SHORT, SIMDS = 512, 8
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
