"""Gated delta rule for a block of rows: replay accepted steps of the last block, then run new rows.

For each value head, with state S [Dv, Dk] (arXiv 2412.06464, eq. 10):

    S <- g S;  d = beta (v - S k);  S <- S + d k^T;  y = S q

The decay g is a number, or one for each of the Dk columns (Kimi Delta Attention, arXiv 2510.26692).
A recurrent state cannot be rolled back, so a block does not write the state after its rows: it
writes the state before them and, for each row, the small vector d. When the next block knows how
many rows were accepted, it repeats their S <- g S + d k^T in registers (no reductions, bit for bit
the same steps), writes that state, and continues with its own rows. The state is read once and
written once per round, and `kept`, the number of accepted rows, may stay on the device. Rows are
processed one after the other, so none depends on how many there are.

A SIMD-group holds eight rows of S: four lanes a row, Dk / 4 values each, in pieces of four that
neighbouring lanes read side by side. A sum over Dk is a lane's own fma chain and two shuffles.

Cost: the state read once and written once in float32, the rows and the last block's steps read, y
and d written; 7 flops an element of the state and new row, 3 a replayed one.
"""

from functools import cache
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.kernel import KernelSource, Launch, Launcher, parameters, pipeline

ROWS_TOGETHER = 8
SIMDS = 4
"""SIMD-groups of a threadgroup, all of one head."""

BODY = """
constexpr int EACH = DK / 4;
const int lane = thread_index_in_simdgroup;
const int quarter = lane % 4;
const int head = threadgroup_position_in_grid.y;
const int key_head = head / (HV / HK);
const int simd = threadgroup_position_in_grid.x * SIMDS + simdgroup_index_in_threadgroup;
const int row = simd * 8 + lane / 4;
const bool real = row < DV;
const int its = min(row, DV - 1);
const size_t state_at = (size_t(head) * DV + its) * DK;
constexpr int DECAYS = BY_CHANNEL ? DK : 1;

float S[EACH];
UNROLL for (int i = 0; i < EACH; i++) {
  S[i] = state[state_at + (i / 4) * 16 + quarter * 4 + i % 4];
}

for (int t = 0; t < kept[0]; t++) {
  const size_t decay_at = size_t(t * HV + head) * DECAYS;
  float g = BY_CHANNEL ? 0.0f : old_decay[decay_at];
  const float d = old_delta[(t * HV + head) * DV + its];
  UNROLL for (int i = 0; i < EACH; i++) {
    const int column = (i / 4) * 16 + quarter * 4 + i % 4;
    const float k = old_keys[(t * HK + key_head) * DK + column];
    g = BY_CHANNEL ? old_decay[decay_at + column] : g;
    S[i] = fma(d, k, g * S[i]);
  }
}
if (real) {
  UNROLL for (int i = 0; i < EACH; i++) {
    settled[state_at + (i / 4) * 16 + quarter * 4 + i % 4] = S[i];
  }
}

const int rows = queries_shape[queries_ndim - 3];
for (int t = 0; t < rows; t++) {
  const size_t decay_at = size_t(t * HV + head) * DECAYS;
  float g = BY_CHANNEL ? 0.0f : decay[decay_at];
  const size_t key_at = (t * HK + key_head) * DK + quarter * 4;
  const size_t value_at = (t * HV + head) * DV + its;
  float k[EACH];
  float known = 0;
  UNROLL for (int i = 0; i < EACH; i++) {
    k[i] = keys[key_at + (i / 4) * 16 + i % 4];
    g = BY_CHANNEL ? decay[decay_at + (i / 4) * 16 + quarter * 4 + i % 4] : g;
    S[i] = g * S[i];
    known = fma(S[i], k[i], known);
  }
  known += simd_shuffle_xor(known, 1);
  known += simd_shuffle_xor(known, 2);
  const float d = beta[t * HV + head] * (values[value_at] - known);
  float out = 0;
  UNROLL for (int i = 0; i < EACH; i++) {
    S[i] = fma(d, k[i], S[i]);
    out = fma(S[i], queries[key_at + (i / 4) * 16 + i % 4], out);
  }
  out += simd_shuffle_xor(out, 1);
  out += simd_shuffle_xor(out, 2);
  if (real && quarter == 0) {
    delta[value_at] = d;
    y[value_at] = out;
  }
}
"""

SOURCE = KernelSource(
    name="gated_delta_block",
    inputs=(
        *("state", "kept", "old_keys", "old_delta", "old_decay"),
        *("queries", "keys", "values", "decay", "beta"),
    ),
    outputs=("y", "delta", "settled"),
    body=BODY,
)


class ReplaySteps(NamedTuple):
    """Delta-rule steps to replay: keys [T, Hk, Dk], delta [T, Hv, Dv], decay [T, Hv]; float32.

    decay by channel is [T, Hv, Dk]. Leading axes of length one are allowed in all arguments;
    results have them too.
    """

    keys: mx.array
    delta: mx.array
    decay: mx.array


class DeltaRows(NamedTuple):
    """Inputs of the gated delta rule for T new rows, all float32.

    queries, keys [T, Hk, Dk], values [T, Hv, Dv], decay [T, Hv] or [T, Hv, Dk], beta [T, Hv].
    """

    queries: mx.array
    keys: mx.array
    values: mx.array
    decay: mx.array
    beta: mx.array

    @property
    def decays_by_channel(self) -> bool:
        """Whether each of the Dk columns of a state has its own decay."""
        return self.decay.ndim > self.beta.ndim


class DeltaBlockResult(NamedTuple):
    """Result of the gated delta rule over new rows: outputs y and deltas [T, Hv, Dv].

    settled: the recurrent state before these rows.
    """

    y: mx.array
    delta: mx.array
    settled: mx.array


def gated_delta_block(
    state: mx.array, kept: mx.array, last: ReplaySteps, rows: DeltaRows, launcher: Launcher
) -> DeltaBlockResult:
    """Run the gated delta rule: replay `kept` (int32 [1]) steps, then take the new rows.

    state: float32 [Hv, Dv, Dk]. last: steps of the block before, of which the first `kept` count.
    """
    shapes = state.shape, rows.values.shape, rows.keys.shape[-2]
    launch = _make_launch(*shapes, by_channel=rows.decays_by_channel)
    return DeltaBlockResult(*launcher.run(launch, (state, kept, *last, *rows)))


@cache
def _make_launch(
    state: tuple[int, ...], values: tuple[int, ...], key_heads: int, *, by_channel: bool
) -> Launch:
    *_, value_heads, value_size, size = state
    assert size % 16 == 0, size
    groups = -(-value_size // (ROWS_TOGETHER * SIMDS))
    sizes = {"DK": size, "DV": value_size, "HK": key_heads, "HV": value_heads, "SIMDS": SIMDS}
    return Launch(
        pipeline(SOURCE, parameters(**sizes, BY_CHANNEL=by_channel)),
        shapes=(values, values, state),
        dtypes=(mx.float32,) * 3,
        grid=(32 * SIMDS * groups, value_heads, 1),
        threadgroup=(32 * SIMDS, 1, 1),
    )


def reference(state: mx.array, kept: int, last: ReplaySteps, rows: DeltaRows) -> DeltaBlockResult:
    """Gated delta rule in plain MLX operations, to check the kernel gated_delta_block against.

    float32, step by step; sums over Dk are in MLX's order.
    """
    group = state.shape[0] // rows.keys.shape[1]
    settled = state = replayed_state(state, kept, last)
    outputs, deltas = [], []
    for t in range(rows.values.shape[0]):
        key, query = (mx.repeat(part[t], group, axis=0)[:, None] for part in rows[1::-1])
        state = _broadcast_decay(rows.decay[t]) * state
        known = (state * key).sum(axis=-1)
        deltas.append(rows.beta[t][:, None] * (rows.values[t] - known))
        state = state + deltas[-1][..., None] * key
        outputs.append((state * query).sum(axis=-1))
    return DeltaBlockResult(mx.stack(outputs), mx.stack(deltas), settled)


def replayed_state(state: mx.array, kept: int | mx.array, last: ReplaySteps) -> mx.array:
    """Recurrent state after `kept` delta-rule steps of the last block, in plain MLX operations."""
    group = state.shape[0] // last.keys.shape[1]
    for t in range(kept if isinstance(kept, int) else len(last.keys)):
        key = mx.repeat(last.keys[t], group, axis=0)[:, None]
        after = _broadcast_decay(last.decay[t]) * state + last.delta[t][..., None] * key
        state = after if isinstance(kept, int) else mx.where(t < kept, after, state)
    return state


def _broadcast_decay(decay: mx.array) -> mx.array:
    """Reshape decays [Hv], or by channel [Hv, Dk], to multiply a state [Hv, Dv, Dk]."""
    return decay[:, None, None] if decay.ndim == 1 else decay[:, None]
