"""Shares by which residual streams are mixed, doubly stochastic (arXiv 2512.24880), in one launch.

    M = softmax of each row of (raw * scale + base) + eps
    columns and rows of M are divided by (their sum + eps) in turn, columns first and last

By MLX each of the 2 steps - 1 divisions is a launch or two, for a matrix of 16 numbers a token, and
there are two such matrices a layer: half of all launches of DeepSeek-V4-Flash.

raw [R, S * S], scale [1] and base [S, S], all float32 -> shares [R, S, S], S up to
MOST_STREAMS. A thread has a row's matrix in registers, so a row's bits do not depend on the rows
beside it.

Cost: 8 S^2 bytes a row; 2 S^2 flops and S^2 divisions a step.
"""

from functools import lru_cache

import mlx.core as mx

from metal_kernels.kernel import KernelSource, Launch, Launcher, parameters, pipeline

MOST_STREAMS = 8
"""Most residual streams: registers hold their matrix of 64 numbers."""

BODY = """
const int row = thread_position_in_grid.x;
const int first = row * S * S;
float m[S * S];
UNROLL for (int i = 0; i < S; i++) {
  float most = -INFINITY;
  UNROLL for (int j = 0; j < S; j++) {
    m[i * S + j] = fma(raw[first + i * S + j], scale[0], base[i * S + j]);
    most = max(most, m[i * S + j]);
  }
  float sum = 0.0f;
  UNROLL for (int j = 0; j < S; j++) {
    m[i * S + j] = precise::exp(m[i * S + j] - most);
    sum += m[i * S + j];
  }
  UNROLL for (int j = 0; j < S; j++) {
    m[i * S + j] = m[i * S + j] / sum + EPS;
  }
}
for (int step = 1; step < 2 * STEPS; step++) {
  const int along = step % 2 == 1 ? S : 1;
  const int across = step % 2 == 1 ? 1 : S;
  for (int a = 0; a < S; a++) {
    float sum = EPS;
    for (int b = 0; b < S; b++) {
      sum += m[a * across + b * along];
    }
    for (int b = 0; b < S; b++) {
      m[a * across + b * along] = m[a * across + b * along] / sum;
    }
  }
}
for (int i = 0; i < S * S; i++) {
  shares[first + i] = m[i];
}
"""

SOURCE = KernelSource("stream_exchange", ("raw", "scale", "base"), ("shares",), BODY)
THREADS = 32


def stream_exchange(
    raw: mx.array, scale: mx.array, base: mx.array, steps: int, eps: float, launcher: Launcher
) -> mx.array:
    """Make shares [R, S, S] of products [R, S * S]; steps: divisions of columns."""
    return launcher.run(_launch(raw.shape[0], base.shape[0], steps, eps), (raw, scale, base))[0]


@lru_cache(maxsize=256)  # prompts have rows in any number
def _launch(rows: int, streams: int, steps: int, eps: float) -> Launch:
    made = pipeline(SOURCE, parameters(S=streams, STEPS=steps, EPS=eps))
    shape = (rows, streams, streams)
    return Launch(made, (shape,), (mx.float32,), (rows, 1, 1), (min(rows, THREADS), 1, 1))


def reference(raw: mx.array, scale: mx.array, base: mx.array, steps: int, eps: float) -> mx.array:
    """Make the shares by plain MLX operations, to check stream_exchange against."""
    matrix = mx.softmax(raw.reshape(-1, *base.shape) * scale + base, axis=-1) + eps
    for step in range(1, 2 * steps):
        matrix = matrix / (matrix.sum(axis=-2 if step % 2 else -1, keepdims=True) + eps)
    return matrix
