"""What an MTP head begins with, in one pass: two norms, the join and the projection.

    u = W [rms(e) * a ; rms(h) * b],   rms(v) = v / sqrt(mean(v^2) + eps)

for 1 to 8 rows of embeddings e and hidden states h [M, H], W [H, 2H], a and b float32 [H]
(DeepSeek-V3, arXiv 2412.19437, eq. 21; families that put the hidden state first swap the inputs).
Nothing between is written: a SIMD-group finds the two means itself, which costs it M rows that are
in cache anyway, and normalises as it multiplies. Normalised values are rounded to the dtype of e,
as the separate norms would. The product is that of few_row_matvec.

Cost: W [H, 2H], e, h and the norms' weights read once, u written; 4 M H H flops.
"""

from typing import NamedTuple

import mlx.core as mx

from metal_kernels import few_row_matvec
from metal_kernels.few_row_matvec import (
    ACCUMULATE,
    FIRST,
    STORE,
    RowKernel,
    product_launch,
)
from metal_kernels.kernel import Launcher, Parameter
from metal_kernels.weight_formats.contract import WeightFormat

SETUP = """
const int H = e_shape[e_ndim - 1];
const int K = 2 * H;
const int N = w_shape[0];
const int lane = thread_index_in_simdgroup;
const int simd = threadgroup_position_in_grid.x * SIMDS + simdgroup_index_in_threadgroup;
float e_size[M];
float h_size[M];
UNROLL for (int m = 0; m < M; m++) {
  float e_sum = 0;
  float h_sum = 0;
  for (int k = lane; k < H; k += 32) {
    const float e_value = float(e[size_t(m) * H + k]);
    const float h_value = float(h[size_t(m) * H + k]);
    e_sum = fma(e_value, e_value, e_sum);
    h_sum = fma(h_value, h_value, h_sum);
  }
  e_size[m] = precise::rsqrt(simd_sum(e_sum) / float(H) + EPS);
  h_size[m] = precise::rsqrt(simd_sum(h_sum) / float(H) + EPS);
}
#define W_ROW(r) min(first + r, N - 1)
#define NORMAL(v, size, weight, m, k) float(T(float(v[size_t(m) * H + (k)]) * size[m] * weight[k]))
#define X_VALUE(m, k) \\
  ((k) < H ? NORMAL(e, e_size, e_norm, m, k) : NORMAL(h, h_size, h_norm, m, (k) - H))
#define ROWS_HERE M
"""


class Norms(NamedTuple):
    """Weights float32 [H] of the embedding's and the hidden state's norm, and their eps."""

    embedding: mx.array
    hidden: mx.array
    eps: float


KERNEL = RowKernel(
    "mtp_input",
    SETUP + FIRST + ACCUMULATE + STORE,
    before=("e", "h", "e_norm", "h_norm"),
)


def mtp_input(
    e: mx.array,
    h: mx.array,
    norms: Norms,
    weights: tuple[mx.array, ...],
    form: WeightFormat,
    launcher: Launcher,
) -> mx.array:
    """e, h [..., H] of one dtype, weights [N, 2H] -> [..., N]."""
    eps = Parameter("EPS", norms.eps)
    launch = product_launch(KERNEL, form, e.shape, e.dtype, weights[0].shape[0], eps)
    return launcher.run(launch, (e, h, norms.embedding, norms.hidden, *weights))[0]


def reference(
    e: mx.array, h: mx.array, norms: Norms, weights: tuple[mx.array, ...], form: WeightFormat
) -> mx.array:
    """The same by plain ops."""
    parts = []
    for rows, weight in ((e, norms.embedding), (h, norms.hidden)):
        wide = rows.astype(mx.float32)
        size = mx.rsqrt(mx.mean(wide * wide, axis=-1, keepdims=True) + norms.eps)
        parts.append((wide * size * weight).astype(e.dtype))
    return few_row_matvec.reference(mx.concatenate(parts, axis=-1), weights, form)
