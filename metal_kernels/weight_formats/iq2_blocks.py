"""GGUF's IQ2 blocks: eight values at a time from a lattice, signs and scales beside.

An entry of the lattice is eight values, each 8, 25 or 43; a block has an index and eight signs for
every eight of its 256 values, and a scale of four bits for every 16, of IQ2_XXS for every 32:

    w = d * (scale + 1/2) / 4 * sign * value

    IQ2_XXS, 66 bytes: half d, [8] of four bytes of indices and a word, which has seven signs for
        each index and the scale above them
    IQ2_XS, 74 bytes: half d, [32] of 9 bits of index and 7 of signs, scales [8]
    IQ2_S, 82 bytes: half d, low bytes of the indices [32], signs [32], their two high bits [8],
        scales [8]

The eighth of seven signs makes the number of minuses even. The lattices are the gguf package's,
256, 512 and 1024 entries of two bits a value, and reach the kernels as constants. A unit is 32
values: four entries.
"""

from functools import cache
from typing import Literal, NamedTuple

import mlx.core as mx

from metal_kernels.weight_formats.block_parts import apply_run_scales, read_float16, split_blocks

Lattice = Literal["iq2_xxs", "iq2_xs", "iq2_s"]
VALUES = (8, 25, 43)

SHARED = """
constant constexpr int RUN_STEP = 8;

struct Iq2Unit {
  uint entries[2];  // 16 bits a run
  uint signs;       // a byte a run
  uint scales;      // a byte a run
  float d;
};

METAL_FUNC int run_start(int unit, int run) {
  return (unit * 4 + run) * 8;
}

METAL_FUNC float decode(thread Iq2Unit& it, thread float* q) {
  UNROLL for (int i = 0; i < 8; i++) {
    const int code = (it.entries[0] >> (2 * i)) & 3;
    const int value = 8 + 17 * code + (code >> 1);  // 8, 25, 43
    q[i] = float((it.signs >> i) & 1 ? -value : value);
  }
  const float scale = it.d * (float(it.scales & 15) + 0.5f) * 0.25f;
  it.entries[0] = (it.entries[0] >> 16) | (it.entries[1] << 16);
  it.entries[1] >>= 16;
  it.signs >>= 8;
  it.scales >>= 8;
  return scale;
}

// Seven signs, and the eighth that makes the number of minuses even.
METAL_FUNC uint eight_signs(uint seven) {
  return seven | ((popcount(seven) & 1) << 7);
}

// The nibble of each half of a unit, for its two runs.
METAL_FUNC uint iq2_scales(uint both) {
  return (both & 15) * 0x0101 | (both >> 4) * 0x01010000;
}

#define FETCH(row, unit, K) fetch_iq2(w, row, unit, K)
"""


def _unit_fetch_msl(nbytes: int, scales: str, run: str, all_signs: str = "0") -> str:
    """MSL that fetches a unit; run: of entry `run`, its lattice index and eight signs."""
    return f"""
template <typename W>
METAL_FUNC Iq2Unit fetch_iq2(W w, int row, int unit, int K) {{
  W block = w + (size_t(row) * (K / 256) + unit / 8) * {nbytes};
  const int which = unit % 8;
  const ushort4 pairs = *(const device packed_ushort4*)(block + 2 + 8 * which);
  const uint both = {all_signs};
  Iq2Unit it;
  it.d = half_at(block);
  it.scales = {scales};
  it.entries[0] = it.entries[1] = it.signs = 0;
  UNROLL for (int run = 0; run < 4; run++) {{
    {run}
    it.entries[run / 2] |= uint(IQ2_LATTICE[index]) << (16 * (run % 2));
    it.signs |= signs << (8 * run);
  }}
  return it;
}}
"""


IQ2_XXS = _unit_fetch_msl(
    66,
    "(both >> 28) * 0x01010101",
    """
    const uint index = (pairs[run / 2] >> (8 * (run % 2))) & 255;
    const uint signs = eight_signs((both >> (7 * run)) & 127);""",
    all_signs="pairs[2] | uint(pairs[3]) << 16",
)
IQ2_XS = _unit_fetch_msl(
    74,
    "iq2_scales(block[66 + which])",
    """
    const uint pair = pairs[run];
    const uint index = pair & 511;
    const uint signs = eight_signs(pair >> 9);""",
)
IQ2_S = _unit_fetch_msl(
    82,
    "iq2_scales(block[74 + which])",
    """
    const uint high = (uint(block[66 + which]) >> (2 * run)) & 3;
    const uint index = block[2 + 4 * which + run] | (high << 8);
    const uint signs = block[34 + 4 * which + run];""",
)


def lattice_constant(name: Lattice) -> str:
    """MSL constant of an IQ2 lattice: its entries with two bits a value, the first lowest."""
    words = [str(word) for word in _lattice_entries(name)]
    return f"\nconstant ushort IQ2_LATTICE[{len(words)}] = {{{', '.join(words)}}};\n"


class Iq2Codes(NamedTuple):
    """Unpacked IQ2 blocks: signed lattice values int8 [..., blocks, 32, 8] and their scales.

    scales: float32 [..., blocks, groups].
    """

    values: mx.array
    scales: mx.array


def iq2_xxs(rows: mx.array) -> mx.array:
    """Dequantise IQ2_XXS rows, uint8 [..., bytes] -> float32 [..., K]."""
    return _dequantise_codes(iq2_xxs_codes(split_blocks(rows, 66)))


def iq2_xs(rows: mx.array) -> mx.array:
    """Dequantise IQ2_XS rows, uint8 [..., bytes] -> float32 [..., K]."""
    blocks = split_blocks(rows, 74)
    both = mx.contiguous(blocks[..., 2:66]).view(mx.uint16)
    signs, steps = with_parity_sign(both >> 9), _unpack_nibbles(blocks[..., 66:])
    return _dequantise_codes(_lattice_codes("iq2_xs", blocks, both & 511, signs, steps))


def iq2_s(rows: mx.array) -> mx.array:
    """Dequantise IQ2_S rows, uint8 [..., bytes] -> float32 [..., K]."""
    blocks = split_blocks(rows, 82)
    low = blocks[..., 2:34].astype(mx.uint16)
    highs = (blocks[..., 66:74, None] >> mx.array([0, 2, 4, 6], mx.uint8)) & 3
    index = low | (highs.reshape(low.shape).astype(mx.uint16) << 8)
    signs = blocks[..., 34:66].astype(mx.uint16)
    return _dequantise_codes(
        _lattice_codes("iq2_s", blocks, index, signs, _unpack_nibbles(blocks[..., 74:]))
    )


def iq2_xxs_codes(blocks: mx.array) -> Iq2Codes:
    """Unpack IQ2_XXS blocks, uint8 [..., blocks, 66], to lattice values and scales."""
    groups = mx.contiguous(blocks[..., 2:]).reshape(*blocks.shape[:-1], 8, 8)
    both = mx.contiguous(groups[..., 4:]).view(mx.uint32)
    signs = ((both >> mx.array([0, 7, 14, 21], mx.uint32)) & 127).astype(mx.uint16)
    every = (*blocks.shape[:-1], 32)
    index, steps = groups[..., :4].reshape(every), both[..., 0] >> 28
    return _lattice_codes("iq2_xxs", blocks, index, with_parity_sign(signs.reshape(every)), steps)


def with_parity_sign(signs: mx.array) -> mx.array:
    """Add the eighth sign bit to seven, uint16, so that the number of minus signs is even."""
    parity = signs ^ (signs >> 4)
    parity = parity ^ (parity >> 2)
    return signs | (((parity ^ (parity >> 1)) & 1) << 7)


def _unpack_nibbles(data: mx.array) -> mx.array:
    both = (data[..., None] >> mx.array([0, 4], mx.uint8)) & 15
    return both.reshape(*data.shape[:-1], -1)


def _lattice_codes(
    name: Lattice, blocks: mx.array, index: mx.array, signs: mx.array, steps: mx.array
) -> Iq2Codes:
    values = _read_lattice(name)[index]
    minus = (signs[..., None] >> mx.arange(8, dtype=mx.uint16)) & 1
    scales = read_float16(blocks, 0) * (steps.astype(mx.float32) + 0.5) * 0.25
    return Iq2Codes(mx.where(minus == 1, -values, values), scales)


def _dequantise_codes(found: Iq2Codes) -> mx.array:
    return apply_run_scales(found.scales, found.values)


def _read_lattice(name: Lattice) -> mx.array:
    codes = mx.array(_lattice_entries(name), mx.uint16)[:, None] >> (
        2 * mx.arange(8, dtype=mx.uint16)
    )
    return mx.array(VALUES, mx.int8)[codes & 3]


@cache
def _lattice_entries(name: Lattice) -> tuple[int, ...]:
    from gguf.quants import IQ2_S, IQ2_XS, IQ2_XXS

    grids = {"iq2_xxs": IQ2_XXS.grid_hex, "iq2_xs": IQ2_XS.grid_hex, "iq2_s": IQ2_S.grid_hex}
    data = bytes.fromhex((grids[name] or b"").decode())
    return tuple(low | high << 8 for low, high in zip(data[::2], data[1::2], strict=True))
