"""The output head with the choice folded in: the best tokens of a row, its logits never written.

    value[m, n] = x[m] . W[n] / temperature + noise(key[m], token(n))      (no noise: greedy)
    picked[m]   = the `top` tokens of largest value, the lowest token id first among equals

The logits are those of few_row_matvec, bit for bit and rounded to x's dtype, so a row's choice does
not depend on the rows beside it. token(n) is n, or ids[n] where the head is cut to a reduced
vocabulary; a token whose mask byte is 0 is never picked.

First pass: a SIMD-group takes up to 32 weight rows, so that each lane ends with one value of each
row of x, and writes its best `top`. Second pass: a threadgroup a row of x picks among those. A
row with a NaN or an infinite logit picks token -1 throughout: the caller raises.
"""

from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.few_row_matvec import ACCUMULATE, SETUP, Cut, RowKernel, run_rows, weight_rows
from metal_kernels.few_row_matvec import reference as matvec_reference
from metal_kernels.kernel import Call, Launcher, Output, Parameter, Source
from metal_kernels.noise import HEADER as NOISE_HEADER
from metal_kernels.noise import reference as noise_reference
from metal_kernels.weight_formats.contract import WeightFormat

THREADS = 256
"""Of the second pass, a threadgroup for each row."""

HEADER = """
// Whether value, token come before value2, token2: larger first, then the lower id.
inline bool before(float value, int token, float value2, int token2) {
  return value > value2 || (value == value2 && token < token2);
}

struct Choice {
  float value;
  int token;
};

// The best of a SIMD-group's lanes among those after `last` in order; lanes hold one each.
inline Choice best_after(Choice mine, Choice last) {
  const bool open = mine.token >= 0 && before(last.value, last.token, mine.value, mine.token);
  const float value = simd_max(open ? mine.value : -INFINITY);
  const int token = simd_min(open && mine.value == value ? mine.token : 0x7fffffff);
  return Choice{value, token == 0x7fffffff ? -1 : token};
}
"""

BEGIN = """
Choice mine[M];
bool sound[M];
UNROLL for (int m = 0; m < M; m++) {
  mine[m] = Choice{-INFINITY, -1};
  sound[m] = true;
}
for (int tile = 0; tile < TILES; tile++) {
  const int first = (simd * TILES + tile) * R;
  if (first >= N) {
    break;
  }
"""

TAKE = """
  UNROLL for (int r = 0; r < R; r++) {
    const int n = first + r;
    UNROLL for (int m = 0; m < M; m++) {
      const float logit = float(T(simd_sum(total[r][m])));
      if (n < N) {
        sound[m] = sound[m] && isfinite(logit);
        const int token = MAPPED ? ids[n] : n;
        const bool allowed = !MASKED || mask[token] != 0;
        if (lane == tile * R + r && allowed) {
          float value = logit;
          if (NOISY) {
            value = logit * inverse_temperature + gumbel_of(keys[2 * m], keys[2 * m + 1], token);
          }
          mine[m] = Choice{value, token};
        }
      }
    }
  }
}
UNROLL for (int m = 0; m < M; m++) {
  Choice last = {INFINITY, -1};
  for (int k = 0; k < TOP; k++) {
    last = best_after(mine[m], last);
    if (last.token < 0) {
      last.value = -INFINITY;
    }
    if (lane == 0) {
      const size_t at = (size_t(m) * SIMD_COUNT + simd) * TOP + k;
      if (simd < SIMD_COUNT) {
        values[at] = last.value;
        tokens[at] = sound[m] ? last.token : -2;
      }
    }
  }
}
"""

SECOND = """
threadgroup float best_values[32];
threadgroup int best_tokens[32];
threadgroup int unsound;
const int thread_id = thread_index_in_threadgroup;
const int row = threadgroup_position_in_grid.x;
const int count = values_shape[1];
if (thread_id == 0) {
  unsound = 0;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
Choice last = {INFINITY, -1};
for (int k = 0; k < TOP; k++) {
  Choice mine = {-INFINITY, -1};
  bool bad = false;
  for (int i = thread_id; i < count; i += THREADS) {
    const float value = values[row * count + i];
    const int token = tokens[row * count + i];
    bad = bad || token == -2;
    if (token >= 0 && before(last.value, last.token, value, token)) {
      if (mine.token < 0 || before(value, token, mine.value, mine.token)) {
        mine = Choice{value, token};
      }
    }
  }
  const bool any_bad = simd_any(bad);
  const Choice top = best_after(mine, Choice{INFINITY, -1});
  if (thread_index_in_simdgroup == 0) {
    best_values[simdgroup_index_in_threadgroup] = top.value;
    best_tokens[simdgroup_index_in_threadgroup] = any_bad ? -2 : top.token;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (thread_id == 0) {
    Choice winner = {-INFINITY, -1};
    for (int s = 0; s < THREADS / 32; s++) {
      if (best_tokens[s] == -2) {
        unsound = 1;
      } else if (best_tokens[s] >= 0) {
        if (winner.token < 0 ||
            before(best_values[s], best_tokens[s], winner.value, winner.token)) {
          winner = Choice{best_values[s], best_tokens[s]};
        }
      }
    }
    best_values[0] = winner.value;
    best_tokens[0] = winner.token;
    picked[row * TOP + k] = unsound ? -1 : winner.token;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  last = Choice{best_values[0], best_tokens[0]};
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
"""


CANDIDATES = RowKernel(
    "vocabulary_candidates",
    SETUP + BEGIN + ACCUMULATE + TAKE,
    after=("keys", "ids", "mask", "inverse_temperature"),
    outputs=("values", "tokens"),
    header=NOISE_HEADER + HEADER,
)
PICK = Source("vocabulary_pick", ("values", "tokens"), ("picked",), SECOND, HEADER)


class Choosing(NamedTuple):
    """How tokens are chosen.

    top: how many a row. keys: uint32 [M, 2] of the rows' noise, None for none. temperature: above
    0, used with keys only. ids: int32 [N] of a reduced vocabulary. mask: uint8 [V], 0 forbids.
    """

    top: int = 1
    keys: mx.array | None = None
    temperature: float = 1.0
    ids: mx.array | None = None
    mask: mx.array | None = None


def vocabulary_pick(
    x: mx.array,
    weights: tuple[mx.array, ...],
    form: WeightFormat,
    how: Choosing,
    launcher: Launcher,
) -> mx.array:
    """x [M, K] -> tokens int32 [M, top]; -1 where there are no more, or a logit is not finite."""
    count, outputs = x.shape[0], weights[0].shape[0]
    together = weight_rows(count)
    tiles = 32 // together
    cut = Cut(count, together, -(-outputs // (together * tiles)))
    inputs = (
        x,
        *weights,
        _unused(mx.uint32) if how.keys is None else how.keys,
        _unused(mx.int32) if how.ids is None else how.ids,
        _unused(mx.uint8) if how.mask is None else how.mask,
        mx.array(1 / how.temperature, dtype=mx.float32),
    )
    extra = (
        Parameter("TILES", tiles),
        Parameter("SIMD_COUNT", cut.simds),
        Parameter("TOP", how.top),
        Parameter("NOISY", how.keys is not None),
        Parameter("MAPPED", how.ids is not None),
        Parameter("MASKED", how.mask is not None),
    )
    found = (count, cut.simds * how.top)
    outs = (Output(found, mx.float32), Output(found, mx.int32))
    second = Call(
        inputs=run_rows(CANDIDATES, form, inputs, outs, cut, launcher, extra),
        outputs=(Output((count, how.top), mx.int32),),
        grid=(THREADS * count, 1, 1),
        threadgroup=(THREADS, 1, 1),
        parameters=(Parameter("TOP", how.top), Parameter("THREADS", THREADS)),
    )
    return launcher.run(PICK, second)[0]


def _unused(dtype: mx.Dtype) -> mx.array:
    """What is passed for a buffer that the kernel will not read."""
    return mx.zeros((8,), dtype=dtype)


def reference(
    x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat, how: Choosing
) -> mx.array:
    """The same by plain ops, for finite logits: all values, sorted."""
    values = matvec_reference(x, weights, form).astype(mx.float32)
    rows, outputs = values.shape
    ids = mx.arange(outputs) if how.ids is None else how.ids
    if how.keys is not None:
        highest = np.array(ids).max()
        noise = noise_reference(how.keys, int(highest) + 1)[:, ids]
        values = values * mx.array(1 / how.temperature, dtype=mx.float32) + noise
    if how.mask is not None:
        values = mx.where(how.mask[ids] != 0, values, -mx.inf)
    by_id = mx.argsort(ids)
    order = mx.argsort(-values[:, by_id], axis=-1)[:, : how.top]  # stable: lowest id first
    return ids[by_id][order].astype(mx.int32).reshape(rows, how.top)
