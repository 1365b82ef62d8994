"""Attention of 1 to 16 newest positions over a long cache, bit-equal for any number of rows.

    q [Hq, M, D], keys and values of Hkv heads, Hq = gqa * Hkv; row m stands at absolute position
    p = end - M + m and sees keys p - window + 1 .. p (window 0: all up to p)
    y[h, m] = sum_j exp(scale * q . k_j - max) v_j / (sum_j exp(scale * q . k_j - max) [+ sink])

Two passes. First, the SIMD-groups of a threadgroup take one block of keys of one key head, each for
R of its gqa * M rows, held in registers. They walk the block four keys at a time with a running
maximum (online softmax: Milakov & Gimelshein, arXiv 1805.02867): four products are summed over the
lanes together, so that each lane of a quad has the score of one key and takes one exponential for
it. So keys and values cross the bus once for all rows of a threadgroup; where a block needs several
(8 R rows each), they run side by side and the cache of the chip has what the first of them read.
Second, a SIMD-group merges 32 columns of a row: lanes weigh 32 blocks at once, then all walk them.

Where blocks and steps begin depends on the absolute key index and on what is constant in a model:
blocks of 128 keys up to 4,096, for enough threads in short chats, then of 256, 512 and 1,024, for
fewer partial results in long ones, all times a factor F that grows with the rows of a key head and
falls with the bytes of a key (`key_blocks`). A row walks steps and blocks that it sees a key of,
and a key it does not see changes nothing of it; rows and window are numbers, not another text of
the kernel. So neither M nor what follows can change a row's bits, and nothing is a mask array: a
row knows where it ends.

Cost, with L keys and B blocks: Hkv L (D + DV) elements of the cache, once for every 8 R rows of a
head, and Hq M D of q read once, Hq M (DV + 2) B floats written and read again between the passes,
2 Hq M L (D + DV) flops, two launches. For four keys of one row a lane exchanges 12 numbers and
takes two exponentials.
"""

from functools import cache, lru_cache
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.kernel import KernelSource, Launch, Launcher, parameters, pipeline
from metal_kernels.key_value_formats import KeyValueFormat

SIZES = ((0, 128), (4096, 256), (16384, 512), (65536, 1024))
"""Absolute index of a key, and keys of a block from there on, for a factor of 1."""

MOST_FACTOR = 16
"""With it each of the first three sizes still has whole blocks."""

DRAFT_ROWS, MOST_SHARE = 4, 0.15
"""Partial results of DRAFT_ROWS rows take at most this share of the cache's bytes in blocks of the
second size times the factor, unless MOST_FACTOR is reached."""

BLOCKS = """
template <int F>
inline int block_start(int block) {
  const int second = 32 / F;  // first block from 4,096 on, then from 16,384 and 65,536 on
  const int third = second + 48 / F;
  const int fourth = third + 96 / F;
  return block <= second ? block * 128 * F
       : block <= third  ? 4096 + (block - second) * 256 * F
       : block <= fourth ? 16384 + (block - third) * 512 * F
                         : 65536 + (block - fourth) * 1024 * F;
}

template <int F>
inline int block_of(int key) {
  return key < 4096  ? key / (128 * F)
       : key < 16384 ? 32 / F + (key - 4096) / (256 * F)
       : key < 65536 ? 80 / F + (key - 16384) / (512 * F)
                     : 176 / F + (key - 65536) / (1024 * F);
}
"""


MOST_ROWS = 16
MOST_SIMDS = 8
"""SIMD-groups of a threadgroup. They share nothing, so fewer change no bit; chips before M3 cannot
hold more of this many registers (a pipeline may take 896 or fewer of 1,024 threads at size 256).
"""

STEPS = """
template <int EACH>
void add_weighed(float weight, thread const float* values, thread float* out) {
  UNROLL for (int i = 0; i < EACH; i++) {
    out[i] = fma(weight, values[i], out[i]);
  }
}
"""

PARTS = """
const int lane = thread_index_in_simdgroup;
const int from = places[0];     // absolute position of the buffers' first row
const int end = places[1];      // one past the newest position
const int window = places[2];
const int M = places[3];
const int rows = places[4];     // that share a key head
const int block = places[5] + int(threadgroup_position_in_grid.y);
const int blocks = places[6];
const int head = threadgroup_position_in_grid.z;
const int first = int(thread_position_in_grid.x / 32) * R;

float mine[R][KEY_EACH];
float out[R][VALUE_EACH];
float top[R];
float sum[R];  // of this lane's keys
float score[R];
int seen_from[R];
int seen_to[R];
UNROLL for (int r = 0; r < R; r++) {
  const int row = min(first + r, rows - 1);
  QUERY(head * rows + row, lane, mine[r]);
  UNROLL for (int i = 0; i < KEY_EACH; i++) {
    mine[r][i] *= SCALE;
  }
  UNROLL for (int i = 0; i < VALUE_EACH; i++) {
    out[r][i] = 0;
  }
  top[r] = -INFINITY;
  sum[r] = 0;
  seen_to[r] = end - M + row % M + 1;
  seen_from[r] = max(from, seen_to[r] - window);
}

const int oldest = max(from, end - M + 1 - window);
const int last = min(block_start<F>(block + 1), end);
for (int key = max(block_start<F>(block), oldest) / 4 * 4; key < last; key += 4) {
  float its[4][KEY_EACH];
  float values[4][VALUE_EACH];
  UNROLL for (int j = 0; j < 4; j++) {
    KEY(head, min(max(key + j, from), end - 1) - from, lane, its[j]);
  }
  UNROLL for (int r = 0; r < R; r++) {
    float dots[4];
    UNROLL for (int j = 0; j < 4; j++) {
      float dot = mine[r][0] * its[j][0];
      UNROLL for (int i = 1; i < KEY_EACH; i++) {
        dot = fma(mine[r][i], its[j][i], dot);
      }
      dots[j] = dot;
    }
    score[r] = sum_of_each<4>(dots, lane);
  }
  UNROLL for (int j = 0; j < 4; j++) {
    VALUE(head, min(max(key + j, from), end - 1) - from, lane, its[j], values[j]);
  }
  UNROLL for (int r = 0; r < R; r++) {
    if (key < seen_to[r] && key + 4 > seen_from[r]) {
      const int mine_of_four = key + lane % 4;
      const bool seen = mine_of_four >= seen_from[r] && mine_of_four < seen_to[r];
      const float its_score = seen ? score[r] : -INFINITY;
      const float higher = max(top[r], quad_max(its_score));
      const float keep = exp(top[r] - higher);
      const float weight = exp(its_score - higher);
      top[r] = higher;
      sum[r] = fma(sum[r], keep, weight);
      UNROLL for (int i = 0; i < VALUE_EACH; i++) {
        out[r][i] *= keep;
      }
      if (key >= seen_from[r] && key + 4 <= seen_to[r]) {
        UNROLL for (int j = 0; j < 4; j++) {
          add_weighed<VALUE_EACH>(quad_broadcast(weight, j), values[j], out[r]);
        }
      } else {
        UNROLL for (int j = 0; j < 4; j++) {
          const float its_weight = quad_broadcast(weight, j);
          if (its_weight != 0) {  // 0 times what is no number would be seen
            add_weighed<VALUE_EACH>(its_weight, values[j], out[r]);
          }
        }
      }
    }
  }
}

UNROLL for (int r = 0; r < R; r++) {
  const int row = first + r;
  const float total = quad_sum(sum[r]);
  if (row < rows) {
    const size_t at = (size_t(head) * rows + row) * blocks + (block - places[5]);
    if (lane * VALUE_EACH < VALUE_SIZE) {
      UNROLL for (int i = 0; i < VALUE_EACH; i++) {
        part[at * VALUE_SIZE + lane * VALUE_EACH + i] = out[r][i];
      }
    }
    if (lane == 0) {
      tops[at] = top[r];
      sums[at] = total;
    }
  }
}
"""

MERGE = """
const int lane = thread_index_in_simdgroup;
const int column = min(int(thread_position_in_grid.x), VALUE_SIZE - 1);
const int row = threadgroup_position_in_grid.y;
const int M = places[3];
const int newest = places[1] - M + row % M;
const int first = block_of<F>(max(places[0], newest + 1 - places[2]));
const int count = block_of<F>(newest) + 1 - first;  // blocks that the row sees
const size_t at = size_t(row) * places[6] + (first - places[5]);

float top = sinks[row / M];
float out = 0;
float sum = 0;
for (int block = lane; block < count; block += 32) {
  top = max(top, tops[at + block]);
}
top = simd_max(top);
for (int begin = 0; begin < count; begin += 32) {
  const int mine = min(begin + lane, count - 1);
  const float weight = begin + lane < count ? exp(tops[at + mine] - top) : 0.0f;
  sum = fma(sums[at + mine], weight, sum);
  for (int block = begin; block < min(begin + 32, count); block += 8) {
    float its[8];
    UNROLL for (int j = 0; j < 8; j++) {
      its[j] = part[(at + min(block + j, count - 1)) * VALUE_SIZE + column];
    }
    UNROLL for (int j = 0; j < 8; j++) {
      out = fma(its[j], simd_shuffle(weight, block - begin + j), out);
    }
  }
}
sum = simd_sum(sum) + exp(sinks[row / M] - top);
if (thread_position_in_grid.x < VALUE_SIZE) {
  y[size_t(row) * VALUE_SIZE + column] = T(out / sum);
}
"""


class KeyBlocks(NamedTuple):
    """How the attention kernel cuts the keys of a layer into blocks.

    heads_per_key: query heads per key head. factor: of the blocks' sizes.
    """

    heads_per_key: int
    factor: int

    def block_of_key(self, key: int) -> int:
        """Number of the block that contains the key at an absolute position."""
        block, (at, size) = 0, SIZES[0]
        for following, larger in SIZES[1:]:
            if key < following:
                break
            block += (following - at) // (size * self.factor)
            at, size = following, larger
        return block + (key - at) // (size * self.factor)

    def first_key_of_block(self, block: int) -> int:
        """Absolute position of the first key in a block."""
        at, size = SIZES[0]
        for following, larger in SIZES[1:]:
            count = (following - at) // (size * self.factor)
            if block < count:
                break
            block, at, size = block - count, following, larger
        return at + block * size * self.factor


@lru_cache(maxsize=32)
def key_blocks(form: KeyValueFormat, size: int, value_size: int, heads_per_key: int) -> KeyBlocks:
    """Choose blocks of keys for a layer: large ones where few bytes of cache serve many rows.

    size, value_size: elements of a key (without its latent) and of a value.
    """
    partial_bytes = heads_per_key * DRAFT_ROWS * (value_size + 2) * 8  # written and read again
    key_bytes = (size + value_size) * form.element_bytes
    wanted = partial_bytes / (MOST_SHARE * key_bytes * SIZES[1][1])
    factor = 1
    while factor < wanted and factor < MOST_FACTOR:
        factor *= 2
    return KeyBlocks(heads_per_key, factor)


class KeyExtent(NamedTuple):
    """Positions of the keys in a KV cache's buffers.

    end: one past the newest position. start: position of the buffers' first row, so that `end -
    start` rows are valid. window: sliding window, 0 for none. spare: where only the device knows
    the end, `end` is its maximum and the true end is at most `spare` less.
    """

    end: int
    start: int = 0
    window: int = 0
    spare: int = 0


class KeyBlockSpan(NamedTuple):
    """Blocks of keys that a pass attends to: how many, and the factor of their sizes."""

    blocks: int
    factor: int
    places: mx.array

    def with_lazy_end(self, end: mx.array) -> "KeyBlockSpan":
        """Replace the end of the keys by one that only the device knows, int32 [1]."""
        return self._replace(places=mx.where(_IS_END, end, self.places))


_IS_END = mx.array([False, True, False, False, False, False, False])


@lru_cache(maxsize=32)
def key_block_span(extent: KeyExtent, rows: int, block_choice: KeyBlocks) -> KeyBlockSpan:
    """Blocks of keys that the newest `rows` rows attend to."""
    window = extent.window or 2**30  # one that nothing has left yet
    first = block_choice.block_of_key(
        max(extent.start, extent.end - extent.spare - rows + 1 - window)
    )
    blocks = block_choice.block_of_key(extent.end - 1) + 1 - first
    numbers = [
        extent.start,
        extent.end,
        window,
        rows,
        block_choice.heads_per_key * rows,
        first,
        blocks,
    ]
    return KeyBlockSpan(blocks, block_choice.factor, mx.array(numbers, dtype=mx.int32))


PARTIAL = ("part", "tops", "sums")
MERGED = KernelSource("attention_merge", (*PARTIAL, "places", "sinks"), ("y",), MERGE, BLOCKS)


def few_query_attention(
    q: mx.array,
    cache: tuple[mx.array, ...],
    form: KeyValueFormat,
    place: KeyExtent | KeyBlockSpan,
    scale: float,
    launcher: Launcher,
    sinks: mx.array | None = None,
    q_latent: mx.array | None = None,
) -> mx.array:
    """Attention of a few queries q [Hq, M, D] to a KV cache -> [Hq, M, DV] of q's dtype.

    q: row-contiguous. cache: buffers in the format `form`. sinks: float32 [Hq]. q_latent [Hq, M,
    DV]: queries of the latent part of keys, for latent formats. All may have a leading axis of one.
    """
    heads, rows = q.shape[-3:-1]
    half = len(form.buffers) // 2
    key_heads, value_size = cache[0].shape[-3], form.size(cache[half].shape[-1])
    assert rows <= MOST_ROWS and heads % key_heads == 0
    if isinstance(place, KeyBlockSpan):
        span = place
    else:
        cut = key_blocks(form, q.shape[-1], value_size, heads // key_heads)
        span = key_block_span(place, rows, cut)
    sizes = _AttentionSizes(key_heads, value_size, span.blocks, span.factor)
    made = _make_launches(form, q.shape, q.dtype, sizes, float(scale))
    queries = (q,) if q_latent is None else (q, q_latent)
    parts = launcher.run(made.first, (*queries, *cache, span.places))
    rows_of_sinks = _absent_sinks(heads) if sinks is None else sinks
    return launcher.run(made.second, (*parts, span.places, rows_of_sinks))[0]


@lru_cache(maxsize=32)
def _absent_sinks(heads: int) -> mx.array:
    return mx.array([-mx.inf] * heads, dtype=mx.float32)


class _AttentionSizes(NamedTuple):
    key_heads: int
    value_size: int
    blocks: int
    factor: int


class _KernelLaunches(NamedTuple):
    first: Launch
    second: Launch


@lru_cache(maxsize=256)
def _make_launches(
    form: KeyValueFormat,
    shape: tuple[int, ...],
    dtype: mx.Dtype,
    attention_sizes: _AttentionSizes,
    scale: float,
) -> _KernelLaunches:
    heads, rows, size = shape[-3:]
    key_heads, value_size, blocks, factor = attention_sizes
    shares = form.lane_shares(size, value_size)
    assert shares is not None
    group = heads // key_heads * rows
    simds = -(-group // (4 if shares.key <= 4 else 2 if shares.key <= 8 else 1))
    sizes = parameters(R=-(-group // simds), SCALE=scale, KEY_SIZE=size, KEY_EACH=shares.key)
    sizes += parameters(VALUE_SIZE=value_size, VALUE_EACH=shares.value, F=factor)
    each_row = (heads * rows, blocks)
    first = Launch(
        pipeline(_parts_msl_source(form), sizes + form.parameters),
        shapes=((*each_row, value_size), each_row, each_row),
        dtypes=(mx.float32,) * 3,
        grid=(32 * simds, blocks, key_heads),
        threadgroup=(32 * min(MOST_SIMDS, simds), 1, 1),
    )
    columns = -(-value_size // 32) * 32
    second = Launch(
        pipeline(MERGED, parameters(T=dtype, VALUE_SIZE=value_size, F=factor)),
        shapes=((*shape[:-1], value_size),),
        dtypes=(dtype,),
        grid=(columns, heads * rows, 1),
        threadgroup=(min(columns, 32 * MOST_SIMDS), 1, 1),
    )
    return _KernelLaunches(first, second)


@cache
def _parts_msl_source(form: KeyValueFormat) -> KernelSource:
    return KernelSource(
        name=f"attention_parts_{form.name}",
        inputs=(*form.queries, *form.buffers, "places"),
        outputs=PARTIAL,
        body=form.mention + PARTS,
        header=BLOCKS + STEPS + form.header,
        row_contiguous=False,
    )


def reference(
    q: mx.array,
    cache: tuple[mx.array, ...],
    form: KeyValueFormat,
    place: KeyExtent,
    scale: float,
    sinks: mx.array | None = None,
    q_latent: mx.array | None = None,
) -> mx.array:
    """Attention of few queries in plain MLX operations, float32, to check the kernel against.

    Blocks of keys are added in the kernel's order.
    """
    heads, rows, size = q.shape
    half = len(form.buffers) // 2
    keys, values = (form.dequantise(side) for side in (cache[:half], cache[half:]))
    if q_latent is not None:
        q, keys = mx.concatenate([q_latent, q], axis=2), mx.concatenate([values, keys], axis=2)
    shared = heads // keys.shape[0]
    cut = key_blocks(form, size, values.shape[2], shared)
    keys, values = (mx.repeat(side, shared, axis=0) for side in (keys, values))
    newest = mx.arange(place.end - rows, place.end)[:, None]
    top = mx.full((heads, rows, 1), -mx.inf) if sinks is None else _sink_column(sinks, rows)
    total = mx.zeros((heads, rows, 1)) if sinks is None else mx.ones((heads, rows, 1))
    out = mx.zeros((heads, rows, values.shape[2]))
    for block in range(cut.block_of_key(place.start), cut.block_of_key(place.end - 1) + 1):
        span = slice(
            max(cut.first_key_of_block(block), place.start),
            min(cut.first_key_of_block(block + 1), place.end),
        )
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


def _sink_column(sinks: mx.array, rows: int) -> mx.array:
    return mx.broadcast_to(sinks[:, None, None], (sinks.shape[0], rows, 1))
