"""Values of GGUF's own blocks by plain operations, bit for bit those of the gguf package.

Each takes uint8 [..., blocks * bytes of a block], rows of whole blocks, and gives float32 [..., K].
The layouts are told in k_quants.py and iq4.py; products are rounded in the order given there.
"""

import mlx.core as mx

IQ4_TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
FOURS, PAIRS, BITS = (0, 4), (0, 2, 4, 6), (0, 1, 2, 3, 4, 5, 6, 7)
"""Shifts that bring what shares a byte to its low end."""


def q6_k(rows: mx.array) -> mx.array:
    """Values of Q6_K."""
    blocks = _blocks(rows, 210)
    low = _planes(blocks[..., :128], 64, FOURS, 15)
    high = _planes(blocks[..., 128:192], 32, PAIRS, 3)
    codes = _signed(low.reshape(high.shape) | (high << 4)) - 32
    scales = _half(blocks, 208) * blocks[..., 192:208].view(mx.int8).astype(mx.float32)
    return _scaled(scales, codes, rows)


def q3_k(rows: mx.array) -> mx.array:
    """Values of Q3_K."""
    blocks = _blocks(rows, 110)
    low = _planes(blocks[..., 32:96], 32, PAIRS, 3)
    high = _planes(blocks[..., :32], 32, BITS, 1)
    codes = _signed(low.reshape(high.shape) | (high << 2)) - 4
    low_scales = _planes(blocks[..., 96:104], 8, FOURS, 15).reshape(*blocks.shape[:-1], 16)
    high_scales = _planes(blocks[..., 104:108], 4, PAIRS, 3).reshape(low_scales.shape)
    steps = _signed(low_scales | (high_scales << 4)) - 32
    return _scaled(_half(blocks, 108) * steps.astype(mx.float32), codes, rows)


def q2_k(rows: mx.array) -> mx.array:
    """Values of Q2_K."""
    blocks = _blocks(rows, 84)
    codes = _planes(blocks[..., 16:80], 32, PAIRS, 3)
    both = blocks[..., :16]
    scales = _half(blocks, 80) * (both & 15).astype(mx.float32)
    minima = _half(blocks, 82) * (both >> 4).astype(mx.float32)
    runs = codes.reshape(*both.shape, 16).astype(mx.float32)
    values = scales[..., None] * runs - minima[..., None]
    return values.reshape(*rows.shape[:-1], -1)


def iq4_nl(rows: mx.array) -> mx.array:
    """Values of IQ4_NL."""
    blocks = _blocks(rows, 18)
    codes = _planes(blocks[..., 2:], 16, FOURS, 15)
    return _scaled(_half(blocks, 0), _looked_up(codes), rows)


def iq4_xs(rows: mx.array) -> mx.array:
    """Values of IQ4_XS."""
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
