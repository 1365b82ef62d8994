"""Helpers for GGUF blocks: runs of bytes, and values whose bits lie in several planes."""

import mlx.core as mx

SHARED = """
constant constexpr int RUNS = 4;

template <typename P>
METAL_FUNC float half_at(P from) {
  return float(*(const device half*)from);
}

// Eight bytes, of which blocks leave no more sure than that their address is even.
struct Eight {
  uint words[2];
};

template <typename P>
METAL_FUNC Eight eight(P from) {
  const ushort4 pairs = *(const device packed_ushort4*)from;
  return Eight{{pairs.x | uint(pairs.y) << 16, pairs.z | uint(pairs.w) << 16}};
}

// Each byte less `zero`.
METAL_FUNC void bytes_of(thread const Eight& it, float zero, thread float* q) {
  UNROLL for (int i = 0; i < 2; i++) {
    const float2 even = integers(it.words[i] & 0x00ff00ff, zero);
    const float2 odd = integers((it.words[i] >> 8) & 0x00ff00ff, zero);
    q[4 * i] = even.x;
    q[4 * i + 1] = odd.x;
    q[4 * i + 2] = even.y;
    q[4 * i + 3] = odd.y;
  }
}

// The low bits of each byte, below `by` times those of another's.
METAL_FUNC Eight joined(
    thread const Eight& low, uint low_mask, thread const Eight& high, uint high_mask, uint by) {
  Eight it;
  UNROLL for (int i = 0; i < 2; i++) {
    it.words[i] = (low.words[i] & low_mask) | ((high.words[i] & high_mask) * by);
  }
  return it;
}

// Byte i at the low end, below what else there is.
METAL_FUNC uint byte_of(thread const Eight& it, int i) {
  return it.words[i / 4] >> (8 * (i % 4));
}

// The same with the bits of each byte moved down; what moves into the next byte is never looked at.
METAL_FUNC Eight moved(thread const Eight& it, int by) {
  return Eight{{it.words[0] >> by, it.words[1] >> by}};
}

// Four runs of eight nibbles: both low halves, then both high ones.
struct Nibbles {
  Eight now;
  Eight next;
};

METAL_FUNC Eight take(thread Nibbles& it) {
  const Eight now = it.now;
  it.now = it.next;
  it.next = moved(now, 4);
  return now;
}
"""

FOURS, PAIRS, BITS = (0, 4), (0, 2, 4, 6), (0, 1, 2, 3, 4, 5, 6, 7)
"""Shifts that bring what shares a byte to its low end."""


def split_blocks(rows: mx.array, nbytes: int) -> mx.array:
    """Split rows of GGUF data into blocks: uint8 [..., bytes] -> [..., blocks, nbytes]."""
    return rows.reshape(*rows.shape[:-1], -1, nbytes)


def read_float16(blocks: mx.array, byte: int) -> mx.array:
    """Read the float16 at a byte offset of each GGUF block -> float32 [..., blocks, 1]."""
    return mx.contiguous(blocks[..., byte : byte + 2]).view(mx.float16).astype(mx.float32)


def unpack_planes(data: mx.array, width: int, shifts: tuple[int, ...], mask: int) -> mx.array:
    """Unpack bit fields of bytes: from each `width` bytes, one run of fields for each shift.

    mask: the bits of a field once it is shifted down.
    """
    runs = data.reshape(*data.shape[:-1], -1, 1, width)
    return (runs >> mx.array(shifts, mx.uint8)[:, None]) & mask


def apply_run_scales(scales: mx.array, codes: mx.array) -> mx.array:
    """Multiply runs of codes in GGUF blocks by their scales [..., blocks, runs] -> [..., K]."""
    runs = codes.reshape(*scales.shape, -1).astype(mx.float32)
    return (scales[..., None] * runs).reshape(*scales.shape[:-2], -1)
