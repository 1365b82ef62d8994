"""Output head with sampling folded in: the best token of each row, without writing logits.

    value[m, n] = x[m] . W[n] / temperature + noise(key[m], n)      (no noise: greedy)
    picked[m]   = the n of largest value, the lowest among equals

The logits are those of few_row_matvec, bit for bit and rounded to x's dtype, so a row's choice does
not depend on the rows beside it.

First pass: a SIMD-group takes up to 32 weight rows, a few at a time: a lane has the product of one
with one row of x, and keeps the best; of each row the best of all lanes is written. Second pass: a
threadgroup per row of x picks among those. A row with a NaN or an infinite logit picks token -1:
the caller raises.

Cost: weights and x read once, 8 bytes a row of x and 32 weight rows written and read again,
M N (2 K + 30) flops, two launches.
"""

from functools import cache
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.few_row_matvec import (
    ACCUMULATE,
    SETUP,
    SUM,
    LaunchShape,
    MatvecTemplate,
    few_row_launch,
    weight_rows,
)
from metal_kernels.few_row_matvec import reference as matvec_reference
from metal_kernels.kernel import KernelSource, Launch, Launcher, parameters, pipeline
from metal_kernels.noise import HEADER as NOISE_HEADER
from metal_kernels.noise import reference as noise_reference
from metal_kernels.weight_formats.contract import WeightFormat

THREADS = 256
"""Of the second pass, a threadgroup for each row."""

HEADER = """
struct Choice {
  float value;
  int token;
};

// Whether one comes before the other: larger first, then the lower id. A token below 0 is none.
inline bool before(Choice one, Choice other) {
  const bool wins = other.token < 0 || one.value > other.value ||
      (one.value == other.value && one.token < other.token);
  return one.token >= 0 && wins;
}

// The best of a SIMD-group's lanes, which hold one each.
inline Choice best_of(Choice mine) {
  const float value = simd_max(mine.token >= 0 ? mine.value : -INFINITY);
  const bool among = mine.token >= 0 && mine.value == value;
  const int token = simd_min(among ? mine.token : 0x7fffffff);
  return Choice{value, token == 0x7fffffff ? -1 : token};
}

// The best token of up to 32 SIMD-groups of a threadgroup, -1 if any thread saw a bad logit.
inline int best_token(
    Choice mine, bool bad, threadgroup float* values, threadgroup int* tokens, int simds,
    int simd, int lane) {
  const bool any_bad = simd_any(bad);
  const Choice top = best_of(mine);
  if (lane == 0) {
    values[simd] = top.value;
    tokens[simd] = any_bad ? -2 : top.token;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const Choice its = lane < simds ? Choice{values[lane], tokens[lane]} : Choice{-INFINITY, -1};
  return simd_any(its.token == -2) ? -1 : best_of(its).token;
}
"""

BEGIN = """
Choice mine = {-INFINITY, -1};  // of the row whose products this lane has
bool sound = true;
for (int tile = 0; tile < TILES; tile++) {
  const int first = (simd * TILES + tile) * R;
  if (first >= N) {
    break;
  }
"""

TAKE = f"""{SUM}
  const int n = first + r;
  if (m < M && n < N) {{
    sound = sound && isfinite(sum);
    float value = sum;
    if (NOISY) {{
      const float noise = gumbel_of(keys[2 * m], keys[2 * m + 1], n);
      value = fma(sum, inverse_temperature, noise);
    }}
    const Choice its = {{value, n}};
    if (before(its, mine)) {{
      mine = its;
    }}
  }}
}}
UNROLL for (int m = 0; m < M; m++) {{
  const bool is_its = lane / R == m;
  const Choice best = best_of(is_its ? mine : Choice{{-INFINITY, -1}});
  const bool all_sound = simd_all(sound || !is_its);
  if (lane == 0 && simd < SIMD_COUNT) {{
    values[size_t(m) * SIMD_COUNT + simd] = best.value;
    tokens[size_t(m) * SIMD_COUNT + simd] = all_sound ? best.token : -2;
  }}
}}
"""

SECOND = """
threadgroup float best_values[THREADS / 32];
threadgroup int best_tokens[THREADS / 32];
const int thread_id = thread_index_in_threadgroup;
const int row = threadgroup_position_in_grid.x;
const int count = values_shape[1];
Choice mine = {-INFINITY, -1};
bool bad = false;
for (int i = thread_id; i < count; i += THREADS) {
  const Choice its = {values[row * count + i], tokens[row * count + i]};
  bad = bad || its.token == -2;
  if (before(its, mine)) {
    mine = its;
  }
}
const int token = best_token(mine, bad, best_values, best_tokens, THREADS / 32,
                             simdgroup_index_in_threadgroup, thread_index_in_simdgroup);
if (thread_id == 0) {
  picked[row] = token;
}
"""


CANDIDATES = MatvecTemplate(
    "vocabulary_candidates",
    SETUP + BEGIN + ACCUMULATE + TAKE,
    after=("keys", "inverse_temperature"),
    outputs=("values", "tokens"),
    header=NOISE_HEADER + HEADER,
)
PICK = KernelSource("vocabulary_pick", ("values", "tokens"), ("picked",), SECOND, HEADER)


class PickOptions(NamedTuple):
    """How tokens are picked from the output head's logits: with noise keys and a temperature.

    keys: uint32 [M, 2], None for greedy. temperature: above 0.
    """

    keys: mx.array | None = None
    temperature: float = 1.0


def vocabulary_pick(
    x: mx.array,
    weights: tuple[mx.array, ...],
    form: WeightFormat,
    options: PickOptions,
    launcher: Launcher,
) -> mx.array:
    """Multiply hidden states x [M, K] by the output head and pick tokens -> int32 [M].

    A row with a logit that is not finite gets -1.
    """
    noisy = options.keys is not None
    first, second = _make_launches(form, x.shape[0], x.dtype, weights[0].shape[0], noisy)
    # a greedy pick reads no keys; data from the host are no launch, as zeros would be
    keys = mx.array([[0, 0]], dtype=mx.uint32) if options.keys is None else options.keys
    inverse = mx.array(1 / options.temperature, dtype=mx.float32)
    found = launcher.run(first, (x, *weights, keys, inverse))
    return launcher.run(second, found)[0]


class _KernelLaunches(NamedTuple):
    first: Launch
    second: Launch


@cache
def _make_launches(
    form: WeightFormat, count: int, dtype: mx.Dtype, outputs: int, has_noise: bool
) -> _KernelLaunches:
    together = weight_rows(count)
    tiles = 32 // together
    cut = LaunchShape(count, together, -(-outputs // (together * tiles)))
    extra = parameters(TILES=tiles, SIMD_COUNT=cut.simds, NOISY=has_noise)
    found = (count, cut.simds)
    outs = ((found, mx.float32), (found, mx.int32))
    return _KernelLaunches(
        few_row_launch(CANDIDATES, form, dtype, outs, cut, extra),
        Launch(
            pipeline(PICK, parameters(THREADS=THREADS)),
            ((count,),),
            (mx.int32,),
            grid=(THREADS * count, 1, 1),
            threadgroup=(THREADS, 1, 1),
        ),
    )


def reference(
    x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat, options: PickOptions
) -> mx.array:
    """Product and pick in plain MLX operations, for finite logits, to check the kernel against."""
    values = matvec_reference(x, weights, form).astype(mx.float32)
    if options.keys is not None:
        noise = noise_reference(options.keys, values.shape[1])
        values = values * mx.array(1 / options.temperature, dtype=mx.float32) + noise
    return mx.argmax(values, axis=-1).astype(mx.int32)  # the first among equals
