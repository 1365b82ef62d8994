"""GGUF's K-quants as they lie in the file: Q6_K, Q3_K and Q2_K.

16 groups of 16 values a block of 256. A block's values come as two halves of 128, a half as four
quarters of 32 whose bits share bytes. A unit is therefore four runs of eight, one of each quarter:
it needs eight bytes of each plane and uses every bit of them. Blocks start at even addresses, so
everything is read as ushort.

    Q6_K, 210 bytes: low nibbles [128], high bit pairs [64], int8 scales [16], half d
        w = d * scale * (q - 32)
    Q3_K, 110 bytes: high bits [32], low bit pairs [64], 6-bit scales [12], half d
        w = d * (scale - 32) * (q - 4)
    Q2_K, 84 bytes: nibbles of scale and minimum [16], bit pairs [64], half d, half dmin
        w = d * scale * q - dmin * minimum
"""

from typing import NamedTuple

import mlx.core as mx

from metal_kernels.weight_formats.block_parts import (
    BITS,
    FOURS,
    PAIRS,
    apply_run_scales,
    read_float16,
    split_blocks,
    unpack_planes,
)

K_SHARED = """
constant constexpr int RUN_STEP = 32;

// Where a unit lies: its block, which half of it, and its first byte in a plane.
template <typename W>
struct Place {
  W block;
  int half_of;
  int l;
};

template <int NBYTES, typename W>
METAL_FUNC Place<W> place_of(W w, int row, int unit, int K) {
  Place<W> it;
  it.block = w + (size_t(row) * (K / 256) + unit / 8) * NBYTES;
  it.half_of = (unit / 4) % 2;
  it.l = (unit % 4) * 8;
  return it;
}

// Which of the block's 16 groups a run of the unit lies in.
template <typename W>
METAL_FUNC int group_of(thread const Place<W>& at, int run) {
  return 8 * at.half_of + 2 * run + at.l / 16;
}

METAL_FUNC int run_start(int unit, int run) {
  return (unit / 4) * 128 + run * 32 + (unit % 4) * 8;
}
"""

Q6_K = """

struct Q6Unit {
  Nibbles low;
  Eight high;
  uint scales;  // a byte a run, as in all that follow
  float d;
};

template <typename W>
METAL_FUNC Q6Unit fetch_q6(W w, int row, int unit, int K) {
  Q6Unit it;
  const Place<W> at = place_of<210>(w, row, unit, K);
  it.low.now = eight(at.block + 64 * at.half_of + at.l);
  it.low.next = eight(at.block + 64 * at.half_of + 32 + at.l);
  it.high = eight(at.block + 128 + 32 * at.half_of + at.l);
  it.scales = 0;
  UNROLL for (int run = 0; run < 4; run++) {
    it.scales |= uint(at.block[192 + group_of(at, run)]) << (8 * run);
  }
  it.d = half_at(at.block + 208);
  return it;
}

METAL_FUNC float decode(thread Q6Unit& it, thread float* q) {
  const Eight low = take(it.low);
  bytes_of(joined(low, 0x0f0f0f0f, it.high, 0x03030303, 16), 32.0f, q);
  const float scale = it.d * float(char(it.scales));
  it.high = moved(it.high, 2);
  it.scales >>= 8;
  return scale;
}

#define FETCH(row, unit, K) fetch_q6(w, row, unit, K)
"""

Q3_K = """

struct Q3Unit {
  Eight low;
  Eight high;
  uint scales;
  float d;
};

template <typename W>
METAL_FUNC Q3Unit fetch_q3(W w, int row, int unit, int K) {
  Q3Unit it;
  const Place<W> at = place_of<110>(w, row, unit, K);
  it.high = moved(eight(at.block + at.l), 4 * at.half_of);
  it.low = eight(at.block + 32 + 32 * at.half_of + at.l);
  it.d = half_at(at.block + 108);
  it.scales = 0;
  UNROLL for (int run = 0; run < 4; run++) {
    const int group = group_of(at, run);
    const uint low = (uint(at.block[96 + group % 8]) >> (4 * (group / 8))) & 15;
    const uint high = (uint(at.block[104 + group % 4]) >> (2 * (group / 4))) & 3;
    it.scales |= (low | (high << 4)) << (8 * run);
  }
  return it;
}

METAL_FUNC float decode(thread Q3Unit& it, thread float* q) {
  bytes_of(joined(it.low, 0x03030303, it.high, 0x01010101, 4), 4.0f, q);
  const float scale = it.d * float(int(it.scales & 63) - 32);
  it.low = moved(it.low, 2);
  it.high = moved(it.high, 1);
  it.scales >>= 8;
  return scale;
}

#define FETCH(row, unit, K) fetch_q3(w, row, unit, K)
"""

Q2_K = """

struct Q2Unit {
  Eight bits;
  uint scales;
  float d;
  float dmin;
};

template <typename W>
METAL_FUNC Q2Unit fetch_q2(W w, int row, int unit, int K) {
  Q2Unit it;
  const Place<W> at = place_of<84>(w, row, unit, K);
  it.bits = eight(at.block + 16 + 32 * at.half_of + at.l);
  it.d = half_at(at.block + 80);
  it.dmin = half_at(at.block + 82);
  it.scales = 0;
  UNROLL for (int run = 0; run < 4; run++) {
    it.scales |= uint(at.block[group_of(at, run)]) << (8 * run);
  }
  return it;
}

METAL_FUNC float decode(thread Q2Unit& it, thread float* q) {
  const float scale = it.d * float(it.scales & 15);
  const float minimum = -it.dmin * float((it.scales >> 4) & 15);
  bytes_of(joined(it.bits, 0x03030303, it.bits, 0, 0), 0.0f, q);
  UNROLL for (int i = 0; i < 8; i++) {
    q[i] = fma(scale, q[i], minimum);
  }
  it.bits = moved(it.bits, 2);
  it.scales >>= 8;
  return 1.0f;
}

#define FETCH(row, unit, K) fetch_q2(w, row, unit, K)
"""


def q6_k(rows: mx.array) -> mx.array:
    """Dequantise Q6_K rows, uint8 [..., bytes] -> float32 [..., K]."""
    blocks = split_blocks(rows, 210)
    low = unpack_planes(blocks[..., :128], 64, FOURS, 15)
    high = unpack_planes(blocks[..., 128:192], 32, PAIRS, 3)
    codes = (low.reshape(high.shape) | (high << 4)).astype(mx.int8) - 32
    scales = read_float16(blocks, 208) * blocks[..., 192:208].view(mx.int8).astype(mx.float32)
    return apply_run_scales(scales, codes)


class Q3Codes(NamedTuple):
    """Unpacked Q3_K blocks: codes int8 [..., blocks, 16, 16], -4 to 3, and their scale steps.

    steps: int8 [..., blocks, 16].
    """

    codes: mx.array
    steps: mx.array


def q3_k_codes(blocks: mx.array) -> Q3Codes:
    """Unpack Q3_K blocks, uint8 [..., blocks, 110], to codes and scale steps."""
    low = unpack_planes(blocks[..., 32:96], 32, PAIRS, 3)
    high = unpack_planes(blocks[..., :32], 32, BITS, 1)
    codes = (low.reshape(high.shape) | (high << 2)).astype(mx.int8) - 4
    low_scales = unpack_planes(blocks[..., 96:104], 8, FOURS, 15).reshape(*blocks.shape[:-1], 16)
    high_scales = unpack_planes(blocks[..., 104:108], 4, PAIRS, 3).reshape(low_scales.shape)
    steps = (low_scales | (high_scales << 4)).astype(mx.int8) - 32
    return Q3Codes(codes.reshape(*steps.shape, 16), steps)


def q3_k(rows: mx.array) -> mx.array:
    """Dequantise Q3_K rows, uint8 [..., bytes] -> float32 [..., K]."""
    blocks = split_blocks(rows, 110)
    found = q3_k_codes(blocks)
    return apply_run_scales(read_float16(blocks, 108) * found.steps.astype(mx.float32), found.codes)


def q2_k(rows: mx.array) -> mx.array:
    """Dequantise Q2_K rows, uint8 [..., bytes] -> float32 [..., K]."""
    blocks = split_blocks(rows, 84)
    codes = unpack_planes(blocks[..., 16:80], 32, PAIRS, 3)
    both = blocks[..., :16]
    scales = read_float16(blocks, 80) * (both & 15).astype(mx.float32)
    minima = read_float16(blocks, 82) * (both >> 4).astype(mx.float32)
    runs = codes.reshape(*both.shape, 16).astype(mx.float32)
    values = scales[..., None] * runs - minima[..., None]
    return values.reshape(*rows.shape[:-1], -1)
