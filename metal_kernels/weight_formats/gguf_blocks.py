"""GGUF's own blocks read as they lie in the file: Q6_K, Q3_K, Q2_K, IQ4_NL, IQ4_XS and IQ2.

K-quants: 16 groups of 16 values a block of 256. A block's values come as two halves of 128, a half
as four quarters of 32 whose bits share bytes. A unit is therefore four runs of eight, one of each
quarter: it needs eight bytes of each plane and uses every bit of them. Blocks start at even
addresses, so everything is read as ushort.

    Q6_K, 210 bytes: low nibbles [128], high bit pairs [64], int8 scales [16], half d
        w = d * scale * (q - 32)
    Q3_K, 110 bytes: high bits [32], low bit pairs [64], 6-bit scales [12], half d
        w = d * (scale - 32) * (q - 4)
    Q2_K, 84 bytes: nibbles of scale and minimum [16], bit pairs [64], half d, half dmin
        w = d * scale * q - dmin * minimum

IQ4: four bits into a table of 16 values. The low nibbles of 16 bytes are the first 16 values, the
high ones the next: a unit is four runs of eight. The table is a threadgroup's: lanes look up what
they like in one step there, while in constant memory each would wait for its own line.

    IQ4_NL, 32 values in 18 bytes: half d, nibbles [16]
        w = d * table[q]
    IQ4_XS, 256 values in 136 bytes: half d, ushort high scales, low scales [4], nibbles [128]
        w = d * (scale - 32) * table[q], one 6-bit scale for 32 values

IQ2_XXS, IQ2_XS and IQ2_S, with values from a lattice, are in iq2_blocks.py.

Layouts: ggml-common.h and the gguf package, whose bits the plain ops have too.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

import mlx.core as mx

from metal_kernels.weight_formats import iq2_blocks
from metal_kernels.weight_formats.contract import WeightFormat

BlockName = Literal["q6_k", "q3_k", "q2_k", "iq4_nl", "iq4_xs", "iq2_xxs", "iq2_xs", "iq2_s"]

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
  const device ushort* pairs = (const device ushort*)from;
  return Eight{{pairs[0] | uint(pairs[1]) << 16, pairs[2] | uint(pairs[3]) << 16}};
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

K_SHARED = (
    SHARED
    + """
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
)

Q6_K = (
    K_SHARED
    + """
constant constexpr bool OFFSET = false;

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

METAL_FUNC float2 decode(thread Q6Unit& it, thread float* q) {
  const Eight low = take(it.low);
  UNROLL for (int i = 0; i < 8; i++) {
    q[i] = float(int((byte_of(low, i) & 15) | ((byte_of(it.high, i) & 3) << 4)) - 32);
  }
  const float scale = it.d * float(char(it.scales));
  it.high = moved(it.high, 2);
  it.scales >>= 8;
  return float2(scale, 0.0f);
}

#define FETCH(row, unit, K) fetch_q6(w, row, unit, K)
"""
)

Q3_K = (
    K_SHARED
    + """
constant constexpr bool OFFSET = false;

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

METAL_FUNC float2 decode(thread Q3Unit& it, thread float* q) {
  UNROLL for (int i = 0; i < 8; i++) {
    q[i] = float(int((byte_of(it.low, i) & 3) | ((byte_of(it.high, i) & 1) << 2)) - 4);
  }
  const float scale = it.d * float(int(it.scales & 63) - 32);
  it.low = moved(it.low, 2);
  it.high = moved(it.high, 1);
  it.scales >>= 8;
  return float2(scale, 0.0f);
}

#define FETCH(row, unit, K) fetch_q3(w, row, unit, K)
"""
)

Q2_K = (
    K_SHARED
    + """
constant constexpr bool OFFSET = true;

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

METAL_FUNC float2 decode(thread Q2Unit& it, thread float* q) {
  UNROLL for (int i = 0; i < 8; i++) {
    q[i] = float(byte_of(it.bits, i) & 3);
  }
  const float scale = it.d * float(it.scales & 15);
  const float minimum = -it.dmin * float((it.scales >> 4) & 15);
  it.bits = moved(it.bits, 2);
  it.scales >>= 8;
  return float2(scale, minimum);
}

#define FETCH(row, unit, K) fetch_q2(w, row, unit, K)
"""
)

IQ4_SETUP = """
threadgroup float iq4_table[16];
if (thread_index_in_threadgroup < 16) {
  iq4_table[thread_index_in_threadgroup] = IQ4_VALUES[thread_index_in_threadgroup];
}
threadgroup_barrier(mem_flags::mem_threadgroup);
"""

IQ4_SHARED = (
    SHARED
    + """
constant constexpr int RUN_STEP = 8;
constant constexpr bool OFFSET = false;

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

METAL_FUNC float2 decode(thread Iq4Unit& it, thread float* q) {
  const Eight codes = take(it.codes);
  UNROLL for (int i = 0; i < 8; i++) {
    q[i] = it.table[byte_of(codes, i) & 15];
  }
  return float2(it.scale, 0.0f);
}
"""
)

IQ4_NL = (
    IQ4_SHARED
    + """
template <typename W>
METAL_FUNC Iq4Unit fetch_iq4(W w, const threadgroup float* table, int row, int unit, int K) {
  W block = w + (size_t(row) * (K / 32) + unit) * 18;
  return nibbles_at(block + 2, half_at(block), table);
}

#define FETCH(row, unit, K) fetch_iq4(w, iq4_table, row, unit, K)
"""
)

IQ4_XS = (
    IQ4_SHARED
    + """
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
)

IQ4_TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
FOURS, PAIRS, BITS = (0, 4), (0, 2, 4, 6), (0, 1, 2, 3, 4, 5, 6, 7)
"""Shifts that bring what shares a byte to its low end."""


def _q6_k(rows: mx.array) -> mx.array:
    blocks = _blocks(rows, 210)
    low = _planes(blocks[..., :128], 64, FOURS, 15)
    high = _planes(blocks[..., 128:192], 32, PAIRS, 3)
    codes = _signed(low.reshape(high.shape) | (high << 4)) - 32
    scales = _half(blocks, 208) * blocks[..., 192:208].view(mx.int8).astype(mx.float32)
    return _scaled(scales, codes, rows)


def _q3_k(rows: mx.array) -> mx.array:
    blocks = _blocks(rows, 110)
    low = _planes(blocks[..., 32:96], 32, PAIRS, 3)
    high = _planes(blocks[..., :32], 32, BITS, 1)
    codes = _signed(low.reshape(high.shape) | (high << 2)) - 4
    low_scales = _planes(blocks[..., 96:104], 8, FOURS, 15).reshape(*blocks.shape[:-1], 16)
    high_scales = _planes(blocks[..., 104:108], 4, PAIRS, 3).reshape(low_scales.shape)
    steps = _signed(low_scales | (high_scales << 4)) - 32
    return _scaled(_half(blocks, 108) * steps.astype(mx.float32), codes, rows)


def _q2_k(rows: mx.array) -> mx.array:
    blocks = _blocks(rows, 84)
    codes = _planes(blocks[..., 16:80], 32, PAIRS, 3)
    both = blocks[..., :16]
    scales = _half(blocks, 80) * (both & 15).astype(mx.float32)
    minima = _half(blocks, 82) * (both >> 4).astype(mx.float32)
    runs = codes.reshape(*both.shape, 16).astype(mx.float32)
    values = scales[..., None] * runs - minima[..., None]
    return values.reshape(*rows.shape[:-1], -1)


def _iq4_nl(rows: mx.array) -> mx.array:
    blocks = _blocks(rows, 18)
    codes = _planes(blocks[..., 2:], 16, FOURS, 15)
    return _scaled(_half(blocks, 0), _looked_up(codes), rows)


def _iq4_xs(rows: mx.array) -> mx.array:
    blocks = _blocks(rows, 136)
    codes = _planes(blocks[..., 8:], 16, FOURS, 15)
    lead = (*blocks.shape[:-1], 8)
    low = ((blocks[..., 4:8, None] >> mx.array(FOURS, mx.uint8)) & 15).reshape(lead)
    high = ((blocks[..., 2:4, None] >> mx.array(PAIRS, mx.uint8)) & 3).reshape(lead)
    steps = _signed(low | (high << 4)) - 32
    return _scaled(_half(blocks, 0) * steps.astype(mx.float32), _looked_up(codes), rows)


def _blocks(rows: mx.array, nbytes: int) -> mx.array:
    return rows.reshape(*rows.shape[:-1], -1, nbytes)


def _half(blocks: mx.array, at: int) -> mx.array:
    """The float16 at this byte, [..., blocks, 1] in float32."""
    return mx.contiguous(blocks[..., at : at + 2]).view(mx.float16).astype(mx.float32)


def _planes(data: mx.array, width: int, shifts: tuple[int, ...], mask: int) -> mx.array:
    """Runs of `width` bytes, of each the bits at every shift one run below the other."""
    runs = data.reshape(*data.shape[:-1], -1, 1, width)
    return (runs >> mx.array(shifts, mx.uint8)[:, None]) & mask


def _signed(codes: mx.array) -> mx.array:
    return codes.astype(mx.int8)


def _looked_up(codes: mx.array) -> mx.array:
    return mx.array(IQ4_TABLE, mx.int8)[codes]


def _scaled(scales: mx.array, codes: mx.array, rows: mx.array) -> mx.array:
    """scales [..., blocks, runs] times codes in as many equal runs a block."""
    runs = codes.reshape(*scales.shape, -1).astype(mx.float32)
    return (scales[..., None] * runs).reshape(*rows.shape[:-1], -1)


class _Block(NamedTuple):
    """nbytes: of 256 values. values: whole blocks uint8 [..., bytes] -> float32 [..., K]."""

    nbytes: int
    header: Callable[[], str]
    values: Callable[[mx.array], mx.array]
    setup: str = ""


def _iq2(name: iq2_blocks.Lattice, fetch: str) -> Callable[[], str]:
    """What makes the header."""
    return lambda: SHARED + iq2_blocks.lattice_constant(name) + iq2_blocks.SHARED + fetch


_BLOCKS: Mapping[BlockName, _Block] = MappingProxyType(
    {
        "q6_k": _Block(210, lambda: Q6_K, _q6_k),
        "q3_k": _Block(110, lambda: Q3_K, _q3_k),
        "q2_k": _Block(84, lambda: Q2_K, _q2_k),
        "iq4_nl": _Block(144, lambda: IQ4_NL, _iq4_nl, IQ4_SETUP),
        "iq4_xs": _Block(136, lambda: IQ4_XS, _iq4_xs, IQ4_SETUP),
        "iq2_xxs": _Block(66, _iq2("IQ2_XXS", iq2_blocks.IQ2_XXS), iq2_blocks.iq2_xxs),
        "iq2_xs": _Block(74, _iq2("IQ2_XS", iq2_blocks.IQ2_XS), iq2_blocks.iq2_xs),
        "iq2_s": _Block(82, _iq2("IQ2_S", iq2_blocks.IQ2_S), iq2_blocks.iq2_s),
    }
)


@cache
def _form(name: BlockName) -> WeightFormat:
    block = _BLOCKS[name]
    return WeightFormat(
        name=name,
        buffers=("w",),
        unit=32,
        header=block.header(),
        parameters=(),
        dequantise=lambda arrays: block.values(arrays[0]),
        setup=block.setup,
    )


class _Forms(Mapping[str, WeightFormat]):
    """Made when first asked for: lattices come from the gguf package, which takes a while."""

    def __getitem__(self, name: str) -> WeightFormat:
        found = next((known for known in _BLOCKS if known == name), None)
        if found is None:
            raise KeyError(name)
        return _form(found)

    def __contains__(self, name: object) -> bool:
        return name in _BLOCKS

    def __iter__(self) -> Iterator[str]:
        return iter(_BLOCKS)

    def __len__(self) -> int:
        return len(_BLOCKS)


BLOCK_FORMS: Mapping[str, WeightFormat] = _Forms()
"""By name; each of one buffer, uint8 w [N, bytes of a row]."""

_NBYTES: Mapping[str, int] = {name: block.nbytes for name, block in _BLOCKS.items()}


def block_bytes(name: str, inputs: int) -> int:
    """Bytes of a row of so many values in these blocks. Raises KeyError."""
    return _NBYTES[name] * inputs // 256


def block_values(name: str, nbytes: int) -> int:
    """Values of a row of so many bytes of these blocks. Raises KeyError."""
    return nbytes * 256 // _NBYTES[name]


def blocks_in(nbytes: int, inputs: int) -> BlockName | None:
    """The blocks that keep a row of so many values in so many bytes; None: there are none such."""
    each, rest = divmod(nbytes * 256, max(1, inputs))
    names = {block.nbytes: name for name, block in _BLOCKS.items()}
    return None if rest else names.get(each)
