"""Input of an MTP head: two norms, concatenation, projection.

    u = W [rms(e) * a ; rms(h) * b],   rms(v) = v / sqrt(mean(v^2) + eps)

for 1 to 9 rows of embeddings e and hidden states h [M, H], W [H, 2H], a and b float32 [H]
(DeepSeek-V3, arXiv 2412.19437, eq. 21; families that put the hidden state first swap the inputs).
One launch norms both halves of every row and lays them side by side, rounded to the dtype of e, as
the separate norms would; a threadgroup has a half of a row. few_row_matvec multiplies. Norming
while it multiplies would save that launch, but every four rows of W would norm all of e and h anew.

Cost: e, h and the norms' weights read, 2 M H values written and read again, W [H, 2H] read once, u
written; 4 M H H flops.
"""

from typing import NamedTuple

import mlx.core as mx

from metal_kernels import few_row_matvec, wide_norm
from metal_kernels.kernel import KernelSource, Launcher
from metal_kernels.weight_formats.contract import WeightFormat

BODY = """
const int H = e_shape[e_ndim - 1];
const int simd = simdgroup_index_in_threadgroup;
const int lane = thread_index_in_simdgroup;
const size_t row = threadgroup_position_in_grid.x;
threadgroup float sums[SIMDS];
if (threadgroup_position_in_grid.y == 0) {
  norm_row<T, SIMDS>(e + row * H, e_norm, joined + row * 2 * H, H, EPS, sums, simd, lane);
} else {
  norm_row<T, SIMDS>(h + row * H, h_norm, joined + row * 2 * H + H, H, EPS, sums, simd, lane);
}
"""

SOURCE = KernelSource(
    "mtp_input", ("e", "h", "e_norm", "h_norm"), ("joined",), BODY, wide_norm.HEADER
)


class MtpInputNorms(NamedTuple):
    """RMS norm weights for an MTP head's embedding and hidden state, float32 [H] each, and eps."""

    embedding: mx.array
    hidden: mx.array
    eps: float


def mtp_input(
    embedded: mx.array,
    hidden: mx.array,
    norms: MtpInputNorms,
    weights: tuple[mx.array, ...],
    form: WeightFormat,
    launcher: Launcher,
) -> mx.array:
    """Input of an MTP head: norm, concatenate and project two arrays [..., H] -> [..., N].

    They are the token embeddings and the hidden states.
    """
    *lead, size = rows = embedded.shape
    both = (*lead, 2 * size)
    launch = wide_norm.norm_launch(SOURCE, rows, both, embedded.dtype, norms.eps, parts=2)
    joined = launcher.run(launch, (embedded, hidden, norms.embedding, norms.hidden))[0]
    return few_row_matvec.few_row_matvec(joined, weights, form, launcher)


def reference(
    embedded: mx.array,
    hidden: mx.array,
    norms: MtpInputNorms,
    weights: tuple[mx.array, ...],
    form: WeightFormat,
) -> mx.array:
    """Input of an MTP head in plain MLX operations, to check the kernel mtp_input against."""
    parts = [
        wide_norm.reference(rows, weight, norms.eps)
        for rows, weight in ((embedded, norms.embedding), (hidden, norms.hidden))
    ]
    return few_row_matvec.reference(mx.concatenate(parts, axis=-1), weights, form)
