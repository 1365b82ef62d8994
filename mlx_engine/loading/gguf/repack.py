"""Repack rows of GGUF blocks into MLX's quantised arrays, with MLX operations.

Block layouts as in gguf-py's quants.py and ggml-quants.c. With float32 scales every value stays
equal bit for bit, except in Q8_K, whose scales keep 24 bits.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.weight_formats.block_parts import BITS, FOURS, PAIRS, read_float16, unpack_planes
from metal_kernels.weight_formats.iq2_blocks import iq2_xxs_codes, with_parity_sign
from metal_kernels.weight_formats.iq4_blocks import TABLE, iq4_xs_scales
from metal_kernels.weight_formats.k_blocks import q3_k_codes
from mlx_engine.loading.gguf.header import BlockType
from mlx_engine.loading.gguf.part import BlockPlan

TILE_VALUES = 2**22
"""Values repacked at a time; temporary arrays take about twelve bytes a value."""
_E8M0_NAN, _UE4M3_ZERO, _UE4M3_SIGN = 255, 0x7F, 0x80
_LatticeType = Literal["IQ1_S", "IQ3_XXS", "IQ3_S"]


class NotFiniteError(ValueError):
    """Raised when a scale or value in a GGUF file is infinite or NaN."""


class PackedTensor(NamedTuple):
    """A tensor in MLX's quantised form.

    weight: uint32 [rows, words]. scales, biases: [rows, groups], float32 in affine form; scales are
    uint8 in mxfp4 and nvfp4, which have no biases.
    """

    weight: mx.array
    scales: mx.array
    biases: mx.array | None = None


class _DecodedBlocks(NamedTuple):
    """Decoded GGUF blocks: integer codes with values = scales * codes + biases.

    codes: uint8 [..., values]. scales, biases: [..., groups]. For mxfp4 and nvfp4 codes and scales
    are as in MLX, without biases.
    """

    codes: mx.array
    scales: mx.array
    biases: mx.array | None


def repack(
    rows: NDArray[np.uint8],
    block_type: BlockType,
    plan: BlockPlan,
    check_stop: Callable[[], None] = lambda: None,
) -> PackedTensor:
    """Repack rows of GGUF blocks, uint8 [rows, bytes of a row], to MLX's quantised form.

    check_stop: called before each tile of rows; may raise to stop. Raises NotFiniteError.
    """
    inputs = rows.shape[1] // block_type.nbytes * block_type.elements

    def repack_tile(tile: NDArray[np.uint8]) -> list[mx.array]:
        return _repack_blocks(tile, block_type, plan, inputs // plan.group_size)

    made = PackedTensor(*map_row_tiles(rows, inputs, repack_tile, check_stop))
    if made.biases is not None:
        is_sound = mx.isfinite(made.scales).all() & mx.isfinite(made.biases).all()
    else:
        is_sound = (made.scales < (_E8M0_NAN if block_type.name == "MXFP4" else _UE4M3_SIGN)).all()
    if not is_sound.item():
        raise NotFiniteError
    return made


def map_row_tiles(
    rows: NDArray[np.uint8],
    inputs: int,
    repack_tile: Callable[[NDArray[np.uint8]], list[mx.array]],
    check_stop: Callable[[], None] = lambda: None,
) -> list[mx.array]:
    """Apply `repack_tile` to tiles of rows of `inputs` values, and join the arrays it returns.

    Tiles are evaluated and written in place one by one. check_stop: called before each tile; may
    raise.
    """
    step = max(1, TILE_VALUES // inputs)
    joined: list[mx.array] = []
    for start in range(0, len(rows), step):
        check_stop()
        tile = repack_tile(rows[start : start + step])
        if len(rows) <= step:
            return tile
        joined = joined or [mx.zeros((len(rows), part.shape[1]), part.dtype) for part in tile]
        for whole, part in zip(joined, tile, strict=True):
            whole[start : start + step] = part
        mx.eval(joined)
    return joined


def _repack_blocks(
    rows: NDArray[np.uint8], block_type: BlockType, plan: BlockPlan, groups: int
) -> list[mx.array]:
    blocks = mx.array(np.ascontiguousarray(rows)).reshape(len(rows), -1, block_type.nbytes)
    made = _CODES[block_type.name](blocks)
    codes = made.codes.reshape(*blocks.shape[:2], -1)
    factors = [made.scales] if made.biases is None else [made.scales, made.biases]
    weight = _pack_codes(codes, plan.bits).reshape(len(rows), -1)
    return [weight, *(_scales_per_group(part, len(rows), groups) for part in factors)]


def _scales_per_group(scales: mx.array, rows: int, groups: int) -> mx.array:
    """Repeat scales that cover several of MLX's quantisation groups, to [rows, groups]."""
    flat = scales.reshape(rows, -1)
    return mx.repeat(flat, groups // flat.shape[1], axis=1)


def _pack_codes(codes: mx.array, bits: int) -> mx.array:
    """Pack codes of `bits` bits into uint32 words, lowest bits first."""
    count, dtype = (8 // bits, mx.uint8) if 8 % bits == 0 else (8, mx.uint64)
    groups = codes.reshape(*codes.shape[:-1], -1, count)
    stream = groups[..., 0].astype(dtype)
    for place in range(1, count):
        stream = stream | (groups[..., place].astype(dtype) << (bits * place))
    data = stream[..., None].view(mx.uint8)[..., : count * bits // 8]
    return mx.contiguous(data.reshape(*codes.shape[:-1], -1)).view(mx.uint32)


def _centred_codes(codes: mx.array, scales: mx.array, zero_code: int) -> _DecodedBlocks:
    """Make decoded blocks with values = scales * (code - middle)."""
    return _DecodedBlocks(codes, scales, scales * -zero_code)


def _unpack_nibbles(packed_bytes: mx.array, rows_per_value: int = 16) -> mx.array:
    """Unpack 4-bit codes: of each run of bytes the low nibbles, then the high ones."""
    return unpack_planes(packed_bytes, rows_per_value, FOURS, 15)


def _join_fifth_bits(packed_bytes: mx.array) -> mx.array:
    """Join 32 fifth bits (4 bytes) with the 16 bytes of nibbles that follow to 5-bit codes."""
    nibbles = _unpack_nibbles(packed_bytes[..., 4:])
    return nibbles | (unpack_planes(packed_bytes[..., :4], 1, BITS, 1).reshape(nibbles.shape) << 4)


def _q1_0(blocks: mx.array) -> _DecodedBlocks:
    """Decode Q1_0: 18 bytes for 128 values: half d, bits [16]; value = d (2 q - 1)."""
    d = read_float16(blocks, 0)
    return _DecodedBlocks(unpack_planes(blocks[..., 2:], 1, BITS, 1), d + d, -d)


def _q3_k(blocks: mx.array) -> _DecodedBlocks:
    """Decode Q3_K (k_blocks.py): d (scale - 32) (q - 4), products -124 to 128, one d per 256."""
    found = q3_k_codes(blocks)
    products = found.codes.astype(mx.int16) * found.steps[..., None].astype(mx.int16)
    return _centred_codes((products + 124).astype(mx.uint8), read_float16(blocks, 108), 124)


def _q5_k(blocks: mx.array) -> _DecodedBlocks:
    """Decode Q5_K: 176 bytes for 256 values: as Q4_K, with fifth bits [32] before the nibbles."""
    nibbles = _unpack_nibbles(blocks[..., 48:], 32)
    fifth = unpack_planes(blocks[..., 16:48], 32, BITS, 1).reshape(nibbles.shape)
    return _k_codes(blocks, nibbles | (fifth << 4))


def _k_codes(blocks: mx.array, codes: mx.array) -> _DecodedBlocks:
    """Decode 6-bit scales and minima of Q4_K and Q5_K: d scale q - dmin minimum for 32 values."""
    first, middle, last = (blocks[..., at : at + 4] for at in (4, 8, 12))
    scales = mx.concatenate([first & 63, (last & 15) | ((first >> 2) & 48)], axis=-1)
    minima = mx.concatenate([middle & 63, (last >> 4) | ((middle >> 2) & 48)], axis=-1)
    return _DecodedBlocks(
        codes,
        read_float16(blocks, 0) * scales.astype(mx.float32),
        -read_float16(blocks, 2) * minima.astype(mx.float32),
    )


def _iq4_table_codes(nibbles: mx.array) -> mx.array:
    """Decode runs of 16 bytes of nibbles to IQ4's table entries + 128, four nibbles at a time."""
    pairs = mx.contiguous(nibbles).view(mx.uint16).reshape(*nibbles.shape[:-1], -1, 1, 8)
    both = _iq4_pair_table()[pairs] >> mx.array([0, 16], mx.uint32)[:, None]
    return both.astype(mx.uint16).view(mx.uint8)


@cache
def _iq4_pair_table() -> mx.array:
    """uint32 [65536]: IQ4's table entries for two bytes, both low nibbles before the high ones."""
    entries, pairs = (np.array(TABLE) + 128).astype(np.uint32), np.arange(2**16)
    nibbles = (pairs & 15, pairs >> 8 & 15, pairs >> 4 & 15, pairs >> 12)
    words = sum(entries[nibble] << np.uint32(8 * place) for place, nibble in enumerate(nibbles))
    return mx.array(words)


def _nvfp4(blocks: mx.array) -> _DecodedBlocks:
    """Decode NVFP4: 36 bytes for 64 values: UE4M3 scales [4], nibbles [32]; scale 0x7F is 0."""
    scales = blocks[..., :4]
    scales = mx.where(scales == _UE4M3_ZERO, mx.array(0, mx.uint8), scales)
    return _DecodedBlocks(_unpack_nibbles(blocks[..., 4:], 8), scales, None)


def _tq1_0(blocks: mx.array) -> _DecodedBlocks:
    """Decode TQ1_0: 54 bytes for 256 values: base-3 digits in three runs, half d; d (q - 1)."""
    ends = ((0, 32, 5), (32, 48, 5), (48, 52, 4))
    runs = [_ternary_digits(blocks[..., start:end], count) for start, end, count in ends]
    return _centred_codes(mx.concatenate(runs, axis=-1), read_float16(blocks, 52), 1)


def _ternary_digits(packed_bytes: mx.array, count: int) -> mx.array:
    """Extract the first `count` base-3 digits of each byte, read as a fraction byte / 256."""
    powers = mx.array([3**place for place in range(count)], mx.uint16)[:, None]
    fractions = (packed_bytes[..., None, :].astype(mx.uint16) * powers) & 255
    return ((fractions * 3) >> 8).astype(mx.uint8).reshape(*packed_bytes.shape[:-1], -1)


def _iq1_s(blocks: mx.array) -> _DecodedBlocks:
    """Decode IQ1_S: 50 bytes for 256 values; value = d (2 s + 1) (lattice entry +- 1/8).

    half d; low bytes of 11-bit lattice indices [32]; uint16 [8], each with the high bits of four
    indices, a scale s of three bits and a sign.
    """
    words = _as_uint16(blocks[..., 34:])
    high = (words[..., None] >> mx.array([0, 3, 6, 9], mx.uint16)) & 7
    index = blocks[..., 2:34].astype(mx.uint16) | (high.reshape(*blocks.shape[:-1], 32) << 8)
    scales = read_float16(blocks, 0) * (((words >> 12) & 7) * 2 + 1).astype(mx.float32)
    shifts = mx.where(words >> 15 == 1, mx.array(-1.125), mx.array(-0.875))
    return _DecodedBlocks(
        (_read_lattice("IQ1_S") + 1)[index].astype(mx.uint8), scales, scales * shifts
    )


def _iq1_m(blocks: mx.array) -> _DecodedBlocks:
    """Decode IQ1_M: 56 bytes for 256 values; value = d (2 s + 1) (lattice entry +- 1/8).

    Low bytes of lattice indices [32]; nibbles [16] of three high bits and a sign for eight values;
    uint16 [4], each with four scales s of three bits and a quarter of half d. Values are d / 8
    times odd numbers from -135 to 135.
    """
    nibbles = _unpack_nibbles(blocks[..., 32:48], 1).reshape(*blocks.shape[:-1], 32)
    index = blocks[..., :32].astype(mx.uint16) | ((nibbles & 7).astype(mx.uint16) << 8)
    eighths = (
        8 * _read_lattice("IQ1_S")[index] + (1 - 2 * (nibbles >> 3).astype(mx.int8))[..., None]
    )
    words = _as_uint16(blocks[..., 48:])
    steps = (words[..., None] >> mx.array([0, 3, 6, 9], mx.uint16)) & 7
    factors = (steps.reshape(*blocks.shape[:-1], 16, 1) * 2 + 1).astype(mx.int16)
    products = eighths.reshape(*blocks.shape[:-1], 16, 16).astype(mx.int16) * factors
    quarters = ((words >> 12) << mx.array([0, 4, 8, 12], mx.uint16)).sum(axis=-1, keepdims=True)
    d = quarters.astype(mx.uint16).view(mx.float16).astype(mx.float32)
    return _DecodedBlocks(((products + 135) >> 1).astype(mx.uint8), d * 0.25, d * (-135 / 8))


def _iq2_xxs(blocks: mx.array) -> _DecodedBlocks:
    """Decode IQ2_XXS (iq2_blocks.py): lattice values from -43 to 43."""
    found = iq2_xxs_codes(blocks)
    return _centred_codes((found.values + 64).astype(mx.uint8), found.scales, 64)


def _iq3_xxs(blocks: mx.array) -> _DecodedBlocks:
    """Decode IQ3_XXS: 98 bytes for 256 values; value = d (s + 1/2) / 2 entry, even from -62 to 62.

    half d; lattice indices [64]; uint32 [8], each with four times seven signs and a scale s of four
    bits.
    """
    words = mx.contiguous(blocks[..., 66:]).view(mx.uint32)
    seven = ((words[..., None] >> mx.array([0, 7, 14, 21], mx.uint32)) & 127).astype(mx.uint16)
    values = _signed_lattice_values(
        "IQ3_XXS", blocks[..., 2:66], with_parity_sign(seven).astype(mx.uint8)
    )
    scales = read_float16(blocks, 0) * ((words >> 28).astype(mx.float32) + 0.5)
    return _centred_codes(((values + 64) >> 1).astype(mx.uint8), scales, 32)


def _iq3_s(blocks: mx.array) -> _DecodedBlocks:
    """Decode IQ3_S: 110 bytes for 256 values; value = d (2 s + 1) entry, odd from -15 to 15.

    half d; low bytes of 9-bit lattice indices [64]; their high bits [8]; signs [32]; scales s of
    four bits [4].
    """
    high = unpack_planes(blocks[..., 66:74], 1, BITS, 1).reshape(*blocks.shape[:-1], 64)
    index = blocks[..., 2:66].astype(mx.uint16) | (high.astype(mx.uint16) << 8)
    values = _signed_lattice_values("IQ3_S", index, blocks[..., 74:106])
    steps = _unpack_nibbles(blocks[..., 106:], 1).reshape(*blocks.shape[:-1], 8)
    scales = read_float16(blocks, 0) * (steps * 2 + 1).astype(mx.float32)
    return _DecodedBlocks(((values + 15) >> 1).astype(mx.uint8), scales * 2, scales * -15)


_CODES: dict[str, Callable[[mx.array], _DecodedBlocks]] = {
    # half d, codes: d (q - middle)
    "Q4_0": lambda b: _centred_codes(_unpack_nibbles(b[..., 2:]), read_float16(b, 0), 8),
    "Q5_0": lambda b: _centred_codes(_join_fifth_bits(b[..., 2:]), read_float16(b, 0), 16),
    "Q8_0": lambda b: _centred_codes(b[..., 2:] ^ 128, read_float16(b, 0), 128),
    "Q2_0": lambda b: _centred_codes(unpack_planes(b[..., 2:], 1, PAIRS, 3), read_float16(b, 0), 1),
    "IQ4_NL": lambda b: _centred_codes(_iq4_table_codes(b[..., 2:]), read_float16(b, 0), 128),
    # bit pairs [64], half d
    "TQ2_0": lambda b: _centred_codes(
        unpack_planes(b[..., :64], 32, PAIRS, 3), read_float16(b, 64), 1
    ),
    # float d, int8 [256], sums
    "Q8_K": lambda b: _centred_codes(
        b[..., 4:260] ^ 128, mx.contiguous(b[..., :4]).view(mx.float32), 128
    ),
    # halves d and m, codes: d q + m
    "Q4_1": lambda b: _DecodedBlocks(
        _unpack_nibbles(b[..., 4:]), read_float16(b, 0), read_float16(b, 2)
    ),
    "Q5_1": lambda b: _DecodedBlocks(
        _join_fifth_bits(b[..., 4:]), read_float16(b, 0), read_float16(b, 2)
    ),
    # E8M0 scale, nibbles [16]
    "MXFP4": lambda b: _DecodedBlocks(_unpack_nibbles(b[..., 1:]), b[..., :1], None),
    "IQ4_XS": lambda b: _centred_codes(_iq4_table_codes(b[..., 8:]), iq4_xs_scales(b), 128),
    "IQ2_XXS": _iq2_xxs,
    "Q4_K": lambda b: _k_codes(b, _unpack_nibbles(b[..., 16:], 32)),
    "Q5_K": _q5_k,
    "Q3_K": _q3_k,
    "NVFP4": _nvfp4,
    "Q1_0": _q1_0,
    "TQ1_0": _tq1_0,
    "IQ1_S": _iq1_s,
    "IQ1_M": _iq1_m,
    "IQ3_XXS": _iq3_xxs,
    "IQ3_S": _iq3_s,
}
"""Decoders of blocks uint8 [rows, blocks, bytes], by the name of an element type."""


def _as_uint16(packed_bytes: mx.array) -> mx.array:
    return mx.contiguous(packed_bytes).view(mx.uint16)


def _signed_lattice_values(name: _LatticeType, index: mx.array, sign_bits: mx.array) -> mx.array:
    """Look up lattice entries of four values, negated where a sign bit is set; int8 [..., 256]."""
    values = _read_lattice(name)[index].reshape(*index.shape[:-1], -1)
    minus = unpack_planes(sign_bits.reshape(*index.shape[:-1], -1), 1, BITS, 1).reshape(
        values.shape
    )
    return mx.where(minus == 1, -values, values)


@cache
def _read_lattice(name: _LatticeType) -> mx.array:
    """The lattice of an IQ type from the gguf package, int8 [entries, values]."""
    from gguf import quants

    kinds = {"IQ1_S": quants.IQ1_S, "IQ3_XXS": quants.IQ3_XXS, "IQ3_S": quants.IQ3_S}
    kind: Any = kinds[name]
    kind.init_grid()
    return mx.array(kind.grid.reshape(kind.grid_shape).astype(np.int8))
