"""Inputs of the gated delta rule from a layer's projections, in one launch.

For row t and channel c of the projected rows p, with K taps and r the rows before the block:

    s = silu(sum_j taps[c, j] * (r ; p)[t + j, c])          s cut into heads: queries, keys, values
    queries, keys = s / sqrt(sum s^2 + eps),  values = s
    decay = exp(rate * log(1 + exp(a + bias))),  beta = 1 / (1 + exp(-b))

(Gated DeltaNet, arXiv 2412.06464; rate = -exp(A_log). Its queries are divided by sqrt(Dk) too,
which the RMS norm of the outputs undoes if its eps is times Dk.) Plain ops take a dozen launches
for this, each of a few kilobytes. Convolution and s are rounded to p's dtype as those would.

The window is deferred as in gated_delta_block: `before` holds the K - 1 rows before the last block
and that block's own, `kept` says how many of the latter stand, and the rows that come out in
`after` are this block's `before`. A SIMD-group makes one head of one row, so no row depends on how
many there are.

Cost of T rows of C channels: the window (K - 1 + T) C, the taps and the gates read; as large a
window in p's dtype and T (C + 2 Hv) floats written; T C (2 K + 16) flops.
"""

from functools import cache
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.kernel import KernelSource, Launch, Launcher, parameters, pipeline

L2_EPS = 1e-6
"""Added to the squared length of queries and keys."""

BODY = """
constexpr int SIZE = DK > DV ? DK : DV;
constexpr int EACH = (SIZE + 31) / 32;
constexpr int CHANNELS = 2 * HK * DK + HV * DV;
const int lane = thread_index_in_simdgroup;
const int t = threadgroup_position_in_grid.y;
const int head = threadgroup_position_in_grid.z;
const bool is_value = head >= 2 * HK;
const int size = is_value ? DV : DK;
const int from = is_value ? 2 * HK * DK + (head - 2 * HK) * DV : head * DK;
const int stood = kept[0];
const int pitch = projected_shape[projected_ndim - 1];

float mine[EACH];
float squares = 0;
UNROLL for (int i = 0; i < EACH; i++) {
  mine[i] = 0;
  const int within = i * 32 + lane;
  if (within < size) {
    const int channel = from + within;
    float convolved = 0;
    for (int j = 0; j < TAPS; j++) {
      const int row = t + j - (TAPS - 1);  // of the block; negative: before it
      const float value = row < 0
          ? float(before[size_t(stood + TAPS - 1 + row) * CHANNELS + channel])
          : float(projected[size_t(row) * pitch + channel]);
      convolved = fma(float(taps[channel * TAPS + j]), value, convolved);
    }
    convolved = float(T(convolved));
    mine[i] = float(T(convolved / (1.0f + exp(-convolved))));
    squares = fma(mine[i], mine[i], squares);
    after[size_t(t + TAPS - 1) * CHANNELS + channel] = projected[size_t(t) * pitch + channel];
    if (t == 0) {
      for (int row = 0; row < TAPS - 1; row++) {
        after[size_t(row) * CHANNELS + channel] = before[size_t(stood + row) * CHANNELS + channel];
      }
    }
  }
}

const float length = precise::rsqrt(simd_sum(squares) + EPS);
UNROLL for (int i = 0; i < EACH; i++) {
  const int within = i * 32 + lane;
  if (within < size) {
    if (is_value) {
      values[(t * HV + head - 2 * HK) * DV + within] = mine[i];
    } else if (head >= HK) {
      keys[(t * HK + head - HK) * DK + within] = mine[i] * length;
    } else {
      queries[(t * HK + head) * DK + within] = mine[i] * length;
    }
  }
}

if (is_value && lane == 0) {
  const int its = head - 2 * HK;
  const float step = float(a[t * a_shape[a_ndim - 1] + columns[0] + its]) + decay_bias[its];
  const float softplus = max(step, 0.0f) + log1p(exp(-abs(step)));
  decay[t * HV + its] = exp(decay_rate[its] * softplus);
  beta[t * HV + its] = 1.0f / (1.0f + exp(-float(b[t * b_shape[b_ndim - 1] + columns[1] + its])));
}
"""

HEADER = f"""
constant constexpr float EPS = {L2_EPS}f;
"""

SOURCE = KernelSource(
    name="gated_delta_inputs",
    inputs=("projected", "a", "b", "columns", "before", "kept", "taps", "decay_bias", "decay_rate"),
    outputs=("queries", "keys", "values", "decay", "beta", "after"),
    body=BODY,
    header=HEADER,
)


class ProjectedInputs(NamedTuple):
    """Outputs of a Gated DeltaNet layer's projections: channels [T, C], a and b [T, Hv].

    All have one dtype. Rows may be wider than that; the columns used start at 0, a_at and b_at, and
    all three may be one array. Leading axes of one are allowed; results have them too.
    """

    channels: mx.array
    a: mx.array
    b: mx.array
    a_at: int = 0
    b_at: int = 0


class ConvolutionRows(NamedTuple):
    """Earlier input rows of a causal convolution with K taps over C channels, [K - 1 + P, C].

    kept: int32 [1], how many of the last P rows, those of the last verify pass, were accepted.
    """

    before: mx.array
    kept: mx.array


class DeltaConstants(NamedTuple):
    """Constants of a Gated DeltaNet layer: convolution taps [C, K] and the sizes of heads.

    decay_bias, decay_rate: float32 [Hv].
    """

    taps: mx.array
    decay_bias: mx.array
    decay_rate: mx.array
    key_heads: int
    key_size: int
    value_size: int


class DeltaBlockInputs(NamedTuple):
    """Rows for gated_delta_block, and convolution rows [K - 1 + T, C] for the next block."""

    rows: DeltaRows
    after: mx.array


def gated_delta_inputs(
    projected_inputs: ProjectedInputs,
    window: ConvolutionRows,
    fixed: DeltaConstants,
    launcher: Launcher,
) -> DeltaBlockInputs:
    """Compute the gated delta rule's inputs of T rows: convolution, norms, decay and beta.

    The convolution has C = 2 * Hk * Dk + Hv * Dv channels.
    """
    its, columns = (
        projected_inputs.channels,
        _gate_columns(projected_inputs.a_at, projected_inputs.b_at),
    )
    launch = _make_launch(its.shape[:-1], its.dtype, *fixed.taps.shape, *fixed[3:])
    *rows, after = launcher.run(launch, (*projected_inputs[:3], columns, *window, *fixed[:3]))
    return DeltaBlockInputs(DeltaRows(*rows), after)


@cache
def _gate_columns(a_at: int, b_at: int) -> mx.array:
    return mx.array([a_at, b_at], dtype=mx.int32)


@cache
def _make_launch(
    rows: tuple[int, ...],
    dtype: mx.Dtype,
    channels: int,
    taps: int,
    key_heads: int,
    key_size: int,
    value_size: int,
) -> Launch:
    *lead, count = rows
    heads = (channels - 2 * key_heads * key_size) // value_size
    sizes = parameters(T=dtype, TAPS=taps, HK=key_heads, HV=heads, DK=key_size, DV=value_size)
    both, gates = (*rows, key_heads, key_size), (*rows, heads)
    values, after = (*rows, heads, value_size), (*lead, taps - 1 + count, channels)
    return Launch(
        pipeline(SOURCE, sizes),
        shapes=(both, both, values, gates, gates, after),
        dtypes=(*(mx.float32,) * 5, dtype),
        grid=(32, count, 2 * key_heads + heads),
        threadgroup=(32, 1, 1),
    )


def reference(
    projected_inputs: ProjectedInputs, before: mx.array, kept: int, fixed: DeltaConstants
) -> DeltaBlockInputs:
    """Inputs of the gated delta rule in plain MLX operations, to check the kernel against."""
    (channels, kernel), heads = fixed.taps.shape, fixed.decay_bias.size
    rows, count = projected_inputs.channels[:, :channels], len(projected_inputs.channels)
    a = projected_inputs.a[:, projected_inputs.a_at : projected_inputs.a_at + heads]
    b = projected_inputs.b[:, projected_inputs.b_at : projected_inputs.b_at + heads]
    dtype = projected_inputs.channels.dtype
    after = mx.concatenate([before[kept : kept + kernel - 1], rows])
    convolved = mx.zeros((count, channels))
    for j in range(kernel):
        taps = fixed.taps[:, j].astype(mx.float32)
        convolved = convolved + taps * after[j : j + count].astype(mx.float32)
    convolved = convolved.astype(dtype).astype(mx.float32)
    made = (convolved / (1 + mx.exp(-convolved))).astype(dtype).astype(mx.float32)
    side = fixed.key_heads * fixed.key_size
    queries, keys, values = mx.split(made, [side, 2 * side], axis=-1)
    queries, keys = (
        part.reshape(count, fixed.key_heads, fixed.key_size) for part in (queries, keys)
    )
    softplus = mx.logaddexp(a.astype(mx.float32) + fixed.decay_bias, mx.array(0.0))
    made_rows = DeltaRows(
        queries=_l2_normalised(queries),
        keys=_l2_normalised(keys),
        values=values.reshape(count, -1, fixed.value_size),
        decay=mx.exp(fixed.decay_rate * softplus),
        beta=mx.sigmoid(b.astype(mx.float32)),
    )
    return DeltaBlockInputs(made_rows, after)


def _l2_normalised(heads: mx.array) -> mx.array:
    return heads * mx.rsqrt((heads * heads).sum(axis=-1, keepdims=True) + L2_EPS)
