"""Storage formats of KV caches, with MSL that loads a lane's share of one row.

Buffers are [heads, capacity, size], perhaps with a leading axis of one. A lane loads EACH
neighbouring elements; lanes beyond a row's end load none. Rows may lie `*_strides` apart, so that a
view of a longer buffer is read without a copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.kernel import Parameter, parameters

MOST_EACH = 18
"""Elements of a lane: those of a latent of 512 and its rotated key of 64."""

LATENT = "latent"
"""What names of forms for latents begin with."""

FETCH = """
#define HEAD_STRIDE(buffer) buffer##_strides[buffer##_ndim - 3]
#define ROW_STRIDE(buffer) buffer##_strides[buffer##_ndim - 2]

template <int EACH, int SIZE, typename B>
void fetch_row(B buffer, size_t row_at, int lane, thread float* values) {
  const bool any = EACH * 32 == SIZE || lane * EACH < SIZE;
  load_values<EACH>(buffer + row_at + (any ? lane * EACH : 0), values);
  UNROLL for (int i = 0; i < EACH; i++) {
    values[i] = any ? values[i] : 0.0f;
  }
}
"""

DENSE = """
#define QUERY(row, lane, values) \\
  fetch_row<KEY_EACH, KEY_SIZE>(q, size_t(row) * KEY_SIZE, lane, values)
#define KEY(head, row, lane, values) \\
  fetch_row<KEY_EACH, KEY_SIZE>(k, head * HEAD_STRIDE(k) + (row) * ROW_STRIDE(k), lane, values)
#define VALUE(head, row, lane, its, values) \\
  fetch_row<VALUE_EACH, VALUE_SIZE>(v, head * HEAD_STRIDE(v) + (row) * ROW_STRIDE(v), lane, values)
"""

FETCH_PACKED = """
template <int BYTES> struct Word { typedef uchar type; };
template <> struct Word<2> { typedef ushort type; };
template <> struct Word<4> { typedef uint type; };

// q of BITS bits in a stream of bytes; a lane's share is a whole number of words.
template <int EACH, int SIZE, int BITS, int GROUP, typename B, typename S>
void fetch_packed(
    B packed, S scales, S biases, size_t row_at, size_t group_at, int lane, thread float* values) {
  constexpr int BYTES = EACH * BITS / 8;
  constexpr int WORD = BYTES % 4 == 0 ? 4 : BYTES % 2 == 0 ? 2 : 1;
  const bool any = EACH * 32 == SIZE || lane * EACH < SIZE;
  const int share = any ? lane : 0;
  const device typename Word<WORD>::type* words =
      (const device typename Word<WORD>::type*)(packed + row_at) + share * (BYTES / WORD);
  UNROLL for (int i = 0; i < EACH; i++) {
    const uint word = words[i * BITS / (8 * WORD)];
    const uint q = (word >> (i * BITS % (8 * WORD))) & ((1 << BITS) - 1);
    const int first = GROUP % EACH == 0 ? share * EACH : share * EACH + i;
    const size_t group = group_at + (SIZE <= GROUP ? 0 : first / GROUP);
    values[i] = any ? fma(float(scales[group]), float(q), float(biases[group])) : 0.0f;
  }
}
"""

AFFINE = """
#define QUERY(row, lane, values) \\
  fetch_row<KEY_EACH, KEY_SIZE>(q, size_t(row) * KEY_SIZE, lane, values)
#define KEY(head, row, lane, values) \\
  fetch_packed<KEY_EACH, KEY_SIZE, BITS, GROUP>( \\
      k, k_scales, k_biases, head * HEAD_STRIDE(k) + (row) * ROW_STRIDE(k), \\
      head * HEAD_STRIDE(k_scales) + (row) * ROW_STRIDE(k_scales), lane, values)
#define VALUE(head, row, lane, its, values) \\
  fetch_packed<VALUE_EACH, VALUE_SIZE, BITS, GROUP>( \\
      v, v_scales, v_biases, head * HEAD_STRIDE(v) + (row) * ROW_STRIDE(v), \\
      head * HEAD_STRIDE(v_scales) + (row) * ROW_STRIDE(v_scales), lane, values)
"""

JOINED = """
#define QUERY(row, lane, values) \\
  fetch_row<VALUE_EACH, VALUE_SIZE>(q_latent, size_t(row) * VALUE_SIZE, lane, values); \\
  fetch_row<KEY_EACH - VALUE_EACH, KEY_SIZE>( \\
      q, size_t(row) * KEY_SIZE, lane, values + VALUE_EACH)
#define VALUE(head, row, lane, its, values) \\
  UNROLL for (int i = 0; i < VALUE_EACH; i++) { \\
    values[i] = its[i]; \\
  }
"""

LATENTS = """
#define KEY(head, row, lane, values) \\
  fetch_row<VALUE_EACH, VALUE_SIZE>(v, (row) * ROW_STRIDE(v), lane, values); \\
  fetch_row<KEY_EACH - VALUE_EACH, KEY_SIZE>( \\
      k, (row) * ROW_STRIDE(k), lane, values + VALUE_EACH)
"""

PACKED_LATENTS = """
#define KEY(head, row, lane, values) \\
  fetch_packed<KEY_EACH - VALUE_EACH, KEY_SIZE, BITS, GROUP>( \\
      k, k_scales, k_biases, (row) * ROW_STRIDE(k), (row) * ROW_STRIDE(k_scales), lane, \\
      values + VALUE_EACH); \\
  fetch_packed<VALUE_EACH, VALUE_SIZE, BITS, GROUP>( \\
      v, v_scales, v_biases, (row) * ROW_STRIDE(v), (row) * ROW_STRIDE(v_scales), lane, values)
"""

# MLX passes a buffer's strides and axes only where the body itself names them
DENSE_STRIDES = "// k_strides k_ndim v_strides v_ndim"
AFFINE_STRIDES = f"{DENSE_STRIDES} k_scales_strides k_scales_ndim v_scales_strides v_scales_ndim"


@dataclass(frozen=True, slots=True, eq=False)
class KeyValueFormat:
    """Storage format of a KV cache, in MSL and in plain MLX operations.

    element_bytes: bytes of an element, with its share of scales and biases. queries, buffers: names
    of kernel inputs; the first half of buffers are keys. size: elements per
    row, from the stored width of the first buffer. share: a lane's elements are a multiple of it,
    to start at a whole byte. group: row sizes are multiples of it. is_joined: a key is its value's
    row followed by its own. header: defines the macros QUERY, KEY and VALUE. mention: comment that
    names the strides. store: keys or values -> arrays of one side. dequantise: these -> float32
    [heads, capacity, size].
    """

    name: str
    element_bytes: float
    queries: tuple[str, ...]
    buffers: tuple[str, ...]
    header: str
    mention: str
    parameters: tuple[Parameter, ...]
    size: Callable[[int], int]
    share: int
    group: int
    is_joined: bool
    store: Callable[[mx.array], tuple[mx.array, ...]]
    dequantise: Callable[[tuple[mx.array, ...]], mx.array]

    def lane_shares(self, size: int, value_size: int) -> "LaneShares | None":
        """Elements of a key and a value that each lane loads; None where sizes do not divide."""
        key, value = self._elements_per_lane(size), self._elements_per_lane(value_size)
        whole = key + value if self.is_joined else key
        return LaneShares(whole, value) if key and value and whole <= MOST_EACH else None

    def _elements_per_lane(self, size: int) -> int:
        counts = range(-(-size // 32), MOST_EACH + 1) if size % self.group == 0 else ()
        return next((n for n in counts if size % n == 0 and n % self.share == 0), 0)


class LaneShares(NamedTuple):
    """Numbers of elements of a key and of a value that one lane of a SIMD-group holds."""

    key: int
    value: int


@cache
def cache_format(bits: int = 16, group: int = 64, *, is_latent: bool = False) -> KeyValueFormat:
    """Format of a KV cache in 16 bits, or in 8 or 4 as `mx.quantize` packs it.

    Keys are [Hkv, capacity, D], values [Hkv, capacity, DV]; packed ones have weight, scales and
    biases each. is_latent: for latent attention, v [1, capacity, DV] are latents, which are values
    and the larger part of keys, and k are the rotated parts; queries are q_latent and q.
    """
    name = cache_format_name(bits, is_latent=is_latent) or "dense"
    queries = ("q", "q_latent") if is_latent else ("q",)
    if bits == 16:
        return KeyValueFormat(
            name=name,
            element_bytes=2,
            queries=queries,
            buffers=("k", "v"),
            header=FETCH + (JOINED + LATENTS if is_latent else DENSE),
            mention=DENSE_STRIDES,
            parameters=(),
            size=lambda width: width,
            share=1,
            group=1,
            is_joined=is_latent,
            store=lambda rows: (rows,),
            dequantise=lambda arrays: arrays[0].astype(mx.float32),
        )
    assert bits in (4, 8), bits

    def dequantise(arrays: tuple[mx.array, ...]) -> mx.array:
        words, scales, biases = arrays
        exact = (scales.astype(mx.float32), biases.astype(mx.float32))
        return mx.dequantize(words, *exact, group_size=group, bits=bits)

    return KeyValueFormat(
        name=name,
        element_bytes=bits / 8 + 4 / group,
        queries=queries,
        buffers=("k", "k_scales", "k_biases", "v", "v_scales", "v_biases"),
        header=FETCH + FETCH_PACKED + (JOINED + PACKED_LATENTS if is_latent else AFFINE),
        mention=AFFINE_STRIDES,
        parameters=parameters(BITS=bits, GROUP=group),
        size=lambda width: width * 32 // bits,
        share=8 // bits,
        group=group,
        is_joined=is_latent,
        store=lambda rows: tuple(mx.quantize(rows, group, bits)),
        dequantise=dequantise,
    )


def cache_format_name(bits: int, *, is_latent: bool = False) -> str:
    """Name of a KV cache's format: "", "affine8", "affine4", "latent", "latent8" or "latent4"."""
    packed = "" if bits == 16 else str(bits)
    return f"{LATENT}{packed}" if is_latent else packed and f"affine{packed}"


def named_cache_format(name: str, size: int, value_size: int) -> KeyValueFormat:
    """Storage format of a KV cache by its name, for keys and values of these sizes."""
    bits = int(name.removeprefix(LATENT).removeprefix("affine") or 16)
    group = 64 if bits == 16 else cache_group_size(size, value_size)
    return cache_format(bits, group, is_latent=name.startswith(LATENT))


def cache_group_size(size: int, value_size: int) -> int:
    """Quantisation group size of a KV cache: 64, or 32 where row sizes are no multiples of 64."""
    return 64 if size % 64 == value_size % 64 == 0 else 32
