"""Rows times their selected experts; weights of each distinct expert are read once.

    y[p] = x[row(p)] W[expert(p)]^T    for pairs p = (row, choice), W [E, N, K]

A pass of a few rows with `top` experts each has rows * top pairs, and rows of one text often select
the same experts. The threadgroups of a pair look up the pairs with the same expert: the first of
each M of them computes all M, reading the weights once, and the others end. So the grouping happens
on the device, without another launch or a wait for the host. M is 4: seldom do more rows of a pass
select one expert, and each takes registers. A pair's sum has the bits of few_row_matvec, whatever
other pairs there are. A pair may have no expert, -1: it is 0, and reads no weights.

Cost: the weights of each distinct expert read once for four rows, x once a pair, y written; 2 N K
flops a pair.
"""

from functools import cache

import mlx.core as mx
import numpy as np

from metal_kernels import few_row_matvec
from metal_kernels.few_row_matvec import (
    ACCUMULATE,
    SUM,
    LaunchShape,
    MatvecTemplate,
    few_row_launch,
    weight_rows,
)
from metal_kernels.kernel import Launch, Launcher, parameters
from metal_kernels.weight_formats.contract import WeightFormat

SETUP = """
const int N = w_shape[1];
const int lane = thread_index_in_simdgroup;
const int simd = threadgroup_position_in_grid.x * SIMDS + simdgroup_index_in_threadgroup;
const int first = simd * R;
const int leader = threadgroup_position_in_grid.y;
const int expert = experts[leader];
const int K = expert < 0 ? 0 : x_shape[1];  // of no expert nothing is read
int before = 0;  // earlier pairs of this expert
int taken = 0;
int pairs[M];    // this pair and those after it, -1 for none
UNROLL for (int m = 0; m < M; m++) {
  pairs[m] = -1;
}
for (int row = 0; row < ROWS; row++) {
  const bool is_its = lane < TOP && experts[row * TOP + lane] == expert;
  for (uint found = uint(ulong(simd_ballot(is_its))); found != 0; found &= found - 1) {
    const int pair = row * TOP + int(ctz(found));  // a row may have an expert twice
    if (pair < leader) {
      before++;
    } else {
      UNROLL for (int m = 0; m < M; m++) {
        pairs[m] = m == taken ? pair : pairs[m];
      }
      taken++;
    }
  }
}
if (before % M != 0) {
  return;
}
#define W_ROW(r) (expert * N + min(first + r, N - 1))
#define X_ROW(m) (x + size_t(pairs[m] / PAIRS_PER_X) * K)
#define HAS_ROW(m) (pairs[m] >= 0)
"""

STORE = f"""{SUM}
int pair = -1;
UNROLL for (int its = 0; its < M; its++) {{
  pair = m == its ? pairs[its] : pair;
}}
if (pair >= 0 && first + r < N) {{
  y[size_t(pair) * N + first + r] = T(sum);
}}
"""

LANES = 32
"""Of a SIMD-group: as many choices of a row are looked at together."""

MOST_SHARED = 4
"""Rows of a pass that weights are read once for."""

KERNEL = MatvecTemplate("expert_union_matvec", SETUP + ACCUMULATE + STORE, before=("x", "experts"))


def expert_union_matvec(
    x: mx.array,
    experts: mx.array,
    weights: tuple[mx.array, ...],
    form: WeightFormat,
    launcher: Launcher,
) -> mx.array:
    """Multiply rows by the experts selected for them -> [M * top, N].

    x [M, K], or [M * top, K] with a row for each pair of row and expert; experts int32 [M, top],
    -1 for none, which gives zeros.
    """
    launch = _make_launch(form, experts.shape, x.shape[0], x.dtype, weights[0].shape[1])
    return launcher.run(launch, (x, experts, *weights))[0]


@cache
def _make_launch(
    form: WeightFormat, chosen: tuple[int, ...], rows: int, dtype: mx.Dtype, outputs: int
) -> Launch:
    count, top = chosen
    assert top <= LANES, top
    pairs, shared = count * top, min(count, MOST_SHARED)
    together = weight_rows(shared)
    cut = LaunchShape(shared, together, -(-outputs // together), deep=pairs)
    extra = parameters(ROWS=count, TOP=top, PAIRS_PER_X=pairs // rows)
    return few_row_launch(KERNEL, form, dtype, (((pairs, outputs), dtype),), cut, extra)


def reference(
    x: mx.array, experts: mx.array, weights: tuple[mx.array, ...], form: WeightFormat
) -> mx.array:
    """Rows times their selected experts in plain MLX operations, to check the kernel against."""
    chosen = [int(expert) for expert in np.array(experts).reshape(-1)]
    share = len(chosen) // x.shape[0]
    rows = [
        few_row_matvec.reference(
            x[pair // share][None] * int(expert >= 0), tuple(part[expert] for part in weights), form
        )
        for pair, expert in enumerate(chosen)
    ]
    return mx.concatenate(rows)
