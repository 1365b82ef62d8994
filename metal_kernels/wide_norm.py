"""RMS norm of 16-bit rows by float32 weights, in one launch.

    y = rms(x) * w,   rms(v) = v / sqrt(mean(v^2) + eps)     (arXiv 1910.07467)

Files keep such weights in float32: GGUF all of them, and families whose norms are 1 + w, which 16
bits would round by up to 0.4 %. Stock MLX casts the row up, norms it, and casts it down: three
launches for a row of a few kilobytes, a quarter of all launches of a small model's pass.

x [R, N] of any floating dtype T, w float32 [N] -> y [R, N] of T. A threadgroup of SIMDS SIMD-groups
has a row, so that a row's bits do not depend on the rows beside it.

Cost: x read twice (the second time from cache), y written, w read once a row; 4 R N flops.
"""

import mlx.core as mx

from metal_kernels.kernel import Call, Launcher, Output, Parameter, Source

BODY = """
const int N = x_shape[1];
const int lane = thread_index_in_simdgroup;
const int simd = simdgroup_index_in_threadgroup;
const size_t first = size_t(threadgroup_position_in_grid.x) * N;
threadgroup float sums[SIMDS];

float sum = 0.0f;
for (int i = 32 * simd + lane; i < N; i += 32 * SIMDS) {
  const float value = float(x[first + i]);
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
  y[first + i] = T(float(x[first + i]) * scale * w[i]);
}
"""

SOURCE = Source("wide_norm", ("x", "w", "eps"), ("y",), BODY)
SHORT, SIMDS = 512, 8
"""Rows up to SHORT are for one SIMD-group, longer ones for so many."""


def wide_norm(x: mx.array, weight: mx.array, eps: float, launcher: Launcher) -> mx.array:
    """x [..., N], weight float32 [N] -> x's shape and dtype."""
    size = x.shape[-1]
    rows = x.reshape(-1, size)
    simds = 1 if size <= SHORT else SIMDS
    call = Call(
        inputs=(rows, weight, mx.array(eps, dtype=mx.float32)),
        outputs=(Output(rows.shape, x.dtype),),
        grid=(32 * simds * len(rows), 1, 1),
        threadgroup=(32 * simds, 1, 1),
        parameters=(Parameter("T", x.dtype), Parameter("SIMDS", simds)),
    )
    return launcher.run(SOURCE, call)[0].reshape(x.shape)


def reference(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """The same by plain ops."""
    wide = x.astype(mx.float32)
    scale = mx.rsqrt((wide * wide).mean(axis=-1, keepdims=True) + eps)
    return (wide * scale * weight).astype(x.dtype)
