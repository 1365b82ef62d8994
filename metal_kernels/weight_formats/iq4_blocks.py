"""GGUF's IQ4 blocks as they lie in the file: four bits into a table of 16 values.

The low nibbles of 16 bytes are the first 16 values, the high ones the next: a unit is four runs of
eight. The table is a threadgroup's: lanes look up what they like in one step there, while in
constant memory each would wait for its own line.

    IQ4_NL, 32 values in 18 bytes: half d, nibbles [16]
        w = d * table[q]
    IQ4_XS, 256 values in 136 bytes: half d, ushort high scales, low scales [4], nibbles [128]
        w = d * (scale - 32) * table[q], one 6-bit scale for 32 values
"""

import mlx.core as mx

from metal_kernels.weight_formats.block_parts import (
    FOURS,
    PAIRS,
    apply_run_scales,
    read_float16,
    split_blocks,
    unpack_planes,
)

SETUP = """
threadgroup float iq4_table[16];
if (thread_index_in_threadgroup < 16) {
  iq4_table[thread_index_in_threadgroup] = IQ4_VALUES[thread_index_in_threadgroup];
}
threadgroup_barrier(mem_flags::mem_threadgroup);
"""

IQ4_SHARED = """
constant constexpr int RUN_STEP = 8;

constant float IQ4_VALUES[16] = {
    -127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f,
    1.0f, 13.0f, 25.0f, 38.0f, 53.0f, 69.0f, 89.0f, 113.0f};

struct Iq4Unit {
  Nibbles codes;
  float scale;
  const threadgroup float* table;
};

template <typename P>
METAL_FUNC Iq4Unit nibbles_at(P from, float scale, const threadgroup float* table) {
  return Iq4Unit{{eight(from), eight(from + 8)}, scale, table};
}

METAL_FUNC int run_start(int unit, int run) {
  return (unit * 4 + run) * 8;
}

METAL_FUNC float decode(thread Iq4Unit& it, thread float* q) {
  const Eight codes = take(it.codes);
  UNROLL for (int i = 0; i < 8; i++) {
    q[i] = it.table[byte_of(codes, i) & 15];
  }
  return it.scale;
}
"""

IQ4_NL = """
template <typename W>
METAL_FUNC Iq4Unit fetch_iq4(W w, const threadgroup float* table, int row, int unit, int K) {
  W block = w + (size_t(row) * (K / 32) + unit) * 18;
  return nibbles_at(block + 2, half_at(block), table);
}

#define FETCH(row, unit, K) fetch_iq4(w, iq4_table, row, unit, K)
"""

IQ4_XS = """
template <typename W>
METAL_FUNC Iq4Unit fetch_iq4(W w, const threadgroup float* table, int row, int unit, int K) {
  W block = w + (size_t(row) * (K / 256) + unit / 8) * 136;
  const int which = unit % 8;
  const uint highs = *(const device ushort*)(block + 2);
  const uint low = (uint(block[4 + which / 2]) >> (4 * (which % 2))) & 15;
  const uint high = (highs >> (2 * which)) & 3;
  const float scale = half_at(block) * float(int(low | (high << 4)) - 32);
  return nibbles_at(block + 8 + 16 * which, scale, table);
}

#define FETCH(row, unit, K) fetch_iq4(w, iq4_table, row, unit, K)
"""

TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def iq4_nl(rows: mx.array) -> mx.array:
    """Dequantise IQ4_NL rows, uint8 [..., bytes] -> float32 [..., K]."""
    blocks = split_blocks(rows, 18)
    codes = unpack_planes(blocks[..., 2:], 16, FOURS, 15)
    return apply_run_scales(read_float16(blocks, 0), _table_values(codes))


def iq4_xs(rows: mx.array) -> mx.array:
    """Dequantise IQ4_XS rows, uint8 [..., bytes] -> float32 [..., K]."""
    blocks = split_blocks(rows, 136)
    codes = unpack_planes(blocks[..., 8:], 16, FOURS, 15)
    return apply_run_scales(iq4_xs_scales(blocks), _table_values(codes))


def iq4_xs_scales(blocks: mx.array) -> mx.array:
    """Scales d * (scale - 32) of IQ4_XS blocks, float32 [..., blocks, 8].

    blocks: uint8 [..., blocks, 136].
    """
    lead = (*blocks.shape[:-1], 8)
    low = ((blocks[..., 4:8, None] >> mx.array(FOURS, mx.uint8)) & 15).reshape(lead)
    high = ((blocks[..., 2:4, None] >> mx.array(PAIRS, mx.uint8)) & 3).reshape(lead)
    steps = (low | (high << 4)).astype(mx.int8) - 32
    return read_float16(blocks, 0) * steps.astype(mx.float32)


def _table_values(codes: mx.array) -> mx.array:
    return mx.array(TABLE, mx.int8)[codes]
