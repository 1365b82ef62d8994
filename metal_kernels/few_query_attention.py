"""Attention of 1 to 16 newest positions over a long cache, each row's bits its own.

    q [Hq, M, D], keys and values of Hkv heads, Hq = gqa * Hkv; row m stands at absolute position
    p = end - M + m and sees keys p - window + 1 .. p (window 0: all up to p)
    y[h, m] = sum_j exp(scale * q . k_j - max) v_j / (sum_j exp(scale * q . k_j - max) [+ sink])

Two passes. First, the SIMD-groups of a threadgroup take one block of keys of one key head, each for
R of its gqa * M rows, held in registers; they walk the keys in order with a running maximum (online
softmax: Milakov & Gimelshein, arXiv 1805.02867). So keys and values cross the bus once for all rows
of a threadgroup; where a block needs several (8 R rows each), they run side by side and the cache
of the chip has what the first of them read. Second, a SIMD-group merges the blocks of one row, in
order.

Where blocks begin depends on the absolute key index alone: 128 keys each up to 4096, for enough
threads in short chats, then 1024, for few partial results in long ones. A key a row does not see
changes nothing of it, so neither M nor what follows can change its bits. Nothing is a mask array: a
row knows where it ends.

Cost, with L keys and B blocks: Hkv L (D + DV) elements of the cache, once for every 8 R rows of a
head, and Hq M D of q read once, Hq M
(DV + 2) B floats written and read again between the passes, 2 Hq M L (D + DV) flops, two launches.
"""

from functools import cache, lru_cache
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.kernel import Launch, Launcher, Parameter, Source, pipeline
from metal_kernels.key_value_formats import KeyValueFormat

MOST_ROWS = 16
SIZES = (64, 96, 128, 192, 256, 512)
MOST_SIMDS = 8
"""SIMD-groups of a threadgroup. They share nothing, so fewer change no bit; chips before M3 cannot
hold more of this many registers (a pipeline may take 896 or fewer of 1,024 threads at size 256).
"""

SHORT, LONG, CHANGE = 128, 1024, 4096
"""Keys of a block below and above the absolute index CHANGE."""

BLOCK_START = """
inline int block_start(int block) {
  return block <= 32 ? block * 128 : 4096 + (block - 32) * 1024;
}
"""

PARTS = """
const int lane = thread_index_in_simdgroup;
const int from = places[0];   // absolute position of the buffers' first row
const int end = places[1];    // one past the newest position
const int block = places[2] + int(threadgroup_position_in_grid.y);
const int blocks = places[3];
const int head = threadgroup_position_in_grid.z;
const int first = int(thread_position_in_grid.x / 32) * R;

float mine[R][KEY_EACH];
float out[R][VALUE_EACH];
float top[R];
float sum[R];
int seen_from[R];
int seen_to[R];
UNROLL for (int r = 0; r < R; r++) {
  const int row = min(first + r, ROWS - 1);
  UNROLL for (int i = 0; i < KEY_EACH; i++) {
    mine[r][i] = SCALE * float(
        q[(size_t(head) * ROWS + row) * KEY_EACH * 32 + lane * KEY_EACH + i]);
  }
  UNROLL for (int i = 0; i < VALUE_EACH; i++) {
    out[r][i] = 0;
  }
  top[r] = -INFINITY;
  sum[r] = 0;
  seen_to[r] = end - M + row % M + 1;
  seen_from[r] = WINDOW > 0 ? max(0, seen_to[r] - WINDOW) : 0;
}

const int last = min(block_start(block + 1), end);
for (int key = max(block_start(block), from); key < last; key++) {
  float its[KEY_EACH];
  float values[VALUE_EACH];
  KEYS(head, (key - from), lane, its);
  VALUES(head, (key - from), lane, values);
  UNROLL for (int r = 0; r < R; r++) {
    if (key >= seen_from[r] && key < seen_to[r]) {
      float dot = mine[r][0] * its[0];
      UNROLL for (int i = 1; i < KEY_EACH; i++) {
        dot = fma(mine[r][i], its[i], dot);
      }
      const float score = simd_sum(dot);
      const float higher = max(top[r], score);
      const float keep = exp(top[r] - higher);
      const float weight = exp(score - higher);
      top[r] = higher;
      sum[r] = fma(sum[r], keep, weight);
      UNROLL for (int i = 0; i < VALUE_EACH; i++) {
        out[r][i] = fma(out[r][i], keep, weight * values[i]);
      }
    }
  }
}

UNROLL for (int r = 0; r < R; r++) {
  const int row = first + r;
  if (row < ROWS) {
    const size_t at = (size_t(head) * ROWS + row) * blocks + (block - places[2]);
    UNROLL for (int i = 0; i < VALUE_EACH; i++) {
      part[at * VALUE_EACH * 32 + lane * VALUE_EACH + i] = out[r][i];
    }
    if (lane == 0) {
      tops[at] = top[r];
      sums[at] = sum[r];
    }
  }
}
"""

MERGE = """
const int lane = thread_index_in_simdgroup;
const size_t row = threadgroup_position_in_grid.x;
const int blocks = tops_shape[1];
float out[VALUE_EACH];
UNROLL for (int i = 0; i < VALUE_EACH; i++) {
  out[i] = 0;
}
"""

WITHOUT_SINKS = """
float top = -INFINITY;
float sum = 0;
"""

WITH_SINKS = """
float top = sinks[row / M];
float sum = 1;
"""

MERGE_BLOCKS = """
for (int block = 0; block < blocks; block++) {
  const size_t at = row * blocks + block;
  if (tops[at] > -INFINITY) {
    const float higher = max(top, tops[at]);
    const float keep = exp(top - higher);
    const float weight = exp(tops[at] - higher);
    top = higher;
    sum = fma(sum, keep, sums[at] * weight);
    UNROLL for (int i = 0; i < VALUE_EACH; i++) {
      const float its = part[at * VALUE_EACH * 32 + lane * VALUE_EACH + i];
      out[i] = fma(out[i], keep, its * weight);
    }
  }
}
UNROLL for (int i = 0; i < VALUE_EACH; i++) {
  y[row * VALUE_EACH * 32 + lane * VALUE_EACH + i] = T(out[i] / sum);
}
"""


PARTIAL = ("part", "tops", "sums")
MERGE_PLAIN = Source("attention_merge", PARTIAL, ("y",), MERGE + WITHOUT_SINKS + MERGE_BLOCKS)
SUNK = MERGE + WITH_SINKS + MERGE_BLOCKS
MERGE_WITH_SINKS = Source("attention_merge_with_sinks", (*PARTIAL, "sinks"), ("y",), SUNK)


def block_of(key: int) -> int:
    """The block an absolute key index lies in."""
    return key // SHORT if key < CHANGE else CHANGE // SHORT + (key - CHANGE) // LONG


def block_start(block: int) -> int:
    """The first absolute key index of a block."""
    return SHORT * block if block <= CHANGE // SHORT else CHANGE + (block - CHANGE // SHORT) * LONG


class Place(NamedTuple):
    """Where a pass stands. start: absolute position of the buffers' first row. end: one past the
    newest position, so the buffers hold `end - start` rows that count. window: 0 for none.
    """

    end: int
    start: int = 0
    window: int = 0


def takes(size: int, value_size: int, form: KeyValueFormat) -> bool:
    """Whether heads of these sizes can be cut among 32 lanes; 80, say, cannot."""
    wholes = (size // 32 % form.share, value_size // 32 % form.share)
    return size in SIZES and value_size in SIZES and wholes == (0, 0)


def few_query_attention(
    q: mx.array,
    cache: tuple[mx.array, ...],
    form: KeyValueFormat,
    place: Place,
    scale: float,
    launcher: Launcher,
    sinks: mx.array | None = None,
) -> mx.array:
    """q [Hq, M, D] row-contiguous, cache as `form` says, sinks float32 [Hq] -> [Hq, M, DV] of q."""
    _, rows, size = q.shape
    half = len(form.buffers) // 2
    key_heads, value_size = cache[0].shape[0], form.size(cache[half].shape[2])
    assert takes(size, value_size, form) and rows <= MOST_ROWS
    span = _span(place, rows)
    work = _Work(key_heads, value_size, span.blocks, place.window, float(scale), sinks is not None)
    first, second = _launches(form, q.shape, q.dtype, work)
    parts = launcher.run(first, (q, *cache, span.places))
    return launcher.run(second, parts if sinks is None else (*parts, sinks))[0]


class _Span(NamedTuple):
    """Blocks that a pass sees, and where they are, as the kernel reads it."""

    blocks: int
    places: mx.array


@lru_cache(maxsize=8)
def _span(place: Place, rows: int) -> _Span:
    """Kept, because all layers of a pass that see alike ask for the same."""
    first = block_of(max(0, place.end - rows + 1 - place.window) if place.window else 0)
    blocks = block_of(place.end - 1) + 1 - first
    return _Span(blocks, mx.array([place.start, place.end, first, blocks], dtype=mx.int32))


class _Work(NamedTuple):
    key_heads: int
    value_size: int
    blocks: int
    window: int
    scale: float
    has_sinks: bool


class _Launches(NamedTuple):
    first: Launch
    second: Launch


@lru_cache(maxsize=256)
def _launches(
    form: KeyValueFormat, shape: tuple[int, ...], dtype: mx.Dtype, work: _Work
) -> _Launches:
    """Both passes for q of this shape; not kept for ever, because chats grow block by block."""
    heads, rows, size = shape
    key_heads, value_size, blocks, *_ = work
    assert heads % key_heads == 0
    shared = heads // key_heads * rows
    each = 4 if max(size, value_size) <= 128 else 2 if max(size, value_size) <= 256 else 1
    simds = -(-shared // each)
    value_each = Parameter("VALUE_EACH", value_size // 32)
    parameters = (
        Parameter("M", rows),
        Parameter("ROWS", shared),
        Parameter("R", each),
        Parameter("WINDOW", work.window),
        Parameter("SCALE", work.scale),
        Parameter("KEY_EACH", size // 32),
        value_each,
        *form.parameters,
    )
    each_row = (heads * rows, blocks)
    first = Launch(
        pipeline(_parts_source(form), parameters),
        shapes=((*each_row, value_size), each_row, each_row),
        dtypes=(mx.float32,) * 3,
        grid=(32 * simds, blocks, key_heads),
        threadgroup=(32 * min(MOST_SIMDS, simds), 1, 1),
    )
    source = MERGE_WITH_SINKS if work.has_sinks else MERGE_PLAIN
    second = Launch(
        pipeline(source, (Parameter("T", dtype), Parameter("M", rows), value_each)),
        shapes=((heads, rows, value_size),),
        dtypes=(dtype,),
        grid=(32 * heads * rows, 1, 1),
        threadgroup=(32, 1, 1),
    )
    return _Launches(first, second)


@cache
def _parts_source(form: KeyValueFormat) -> Source:
    return Source(
        name=f"attention_parts_{form.name}",
        inputs=("q", *form.buffers, "places"),
        outputs=PARTIAL,
        body=form.mention + PARTS,
        header=BLOCK_START + form.header,
        row_contiguous=False,
    )


def reference(
    q: mx.array,
    cache: tuple[mx.array, ...],
    form: KeyValueFormat,
    place: Place,
    scale: float,
    sinks: mx.array | None = None,
) -> mx.array:
    """The same by plain ops in float32, block by block in the kernel's order."""
    heads, rows, _ = q.shape
    half = len(form.buffers) // 2
    keys, values = (form.dequantise(side) for side in (cache[:half], cache[half:]))
    shared = heads // keys.shape[0]
    keys, values = (mx.repeat(side, shared, axis=0) for side in (keys, values))
    newest = mx.arange(place.end - rows, place.end)[:, None]
    top = mx.full((heads, rows, 1), -mx.inf) if sinks is None else _column(sinks, rows)
    total = mx.zeros((heads, rows, 1)) if sinks is None else mx.ones((heads, rows, 1))
    out = mx.zeros((heads, rows, values.shape[2]))
    for block in range(block_of(place.start), block_of(place.end - 1) + 1):
        span = slice(max(block_start(block), place.start), min(block_start(block + 1), place.end))
        index = mx.arange(span.start, span.stop)[None]
        seen = index <= newest
        if place.window:
            seen = seen & (index > newest - place.window)
        here = slice(span.start - place.start, span.stop - place.start)
        scores = scale * q.astype(mx.float32) @ keys[:, here].swapaxes(1, 2)
        scores = mx.where(seen, scores, -mx.inf)
        higher = mx.maximum(top, scores.max(axis=-1, keepdims=True))
        safe = mx.maximum(higher, -3e38)  # nothing seen yet
        keep, weights = mx.exp(top - safe), mx.exp(scores - safe)
        top, total = higher, total * keep + weights.sum(axis=-1, keepdims=True)
        out = out * keep + weights @ values[:, here]
    return (out / total).astype(q.dtype)


def _column(sinks: mx.array, rows: int) -> mx.array:
    return mx.broadcast_to(sinks[:, None, None], (sinks.shape[0], rows, 1))
