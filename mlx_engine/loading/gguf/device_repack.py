"""The most usual GGUF blocks -> MLX's packed arrays by MLX's own operations, for a GPU.

The same bits that weights.repack makes with NumPy, which is faster on a CPU. Layouts: blocks.py.
"""

from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.weight_formats.block_parts import half_at

TILE_VALUES = 2**23
"""At a time: what is made on the way takes about twelve bytes a value."""


class DeviceTensor(NamedTuple):
    """weight uint32 [rows, words], scales and biases float32 [rows, groups of 32]."""

    weight: mx.array
    scales: mx.array
    biases: mx.array


def repack_on_device(rows: mx.array, name: str, nbytes: int, elements: int) -> DeviceTensor:
    """Rows of blocks uint8 [rows, bytes] of a type in ON_DEVICE, of so many bytes and elements."""
    made: list[DeviceTensor] = []
    step = max(1, TILE_VALUES // (rows.shape[1] // nbytes * elements))
    for start in range(0, len(rows), step):
        tile = rows[start : start + step]
        parts = ON_DEVICE[name](tile.reshape(len(tile), -1, nbytes))
        made.append(DeviceTensor(*(part.reshape(len(tile), -1) for part in parts)))
        mx.eval(made[-1])
    if len(made) == 1:
        return made[0]
    return DeviceTensor(*(mx.concatenate(list(parts)) for parts in zip(*made, strict=True)))


def _q4_0(blocks: mx.array) -> DeviceTensor:
    return _centred(_packed(_nibbles(blocks[..., 2:], 16), 4), half_at(blocks, 0), 8)


def _q4_1(blocks: mx.array) -> DeviceTensor:
    codes = _packed(_nibbles(blocks[..., 4:], 16), 4)
    return DeviceTensor(codes, half_at(blocks, 0), half_at(blocks, 2))


def _q5_0(blocks: mx.array) -> DeviceTensor:
    return _centred(_packed(_five_bits(blocks, 2), 5), half_at(blocks, 0), 16)


def _q5_1(blocks: mx.array) -> DeviceTensor:
    return DeviceTensor(_packed(_five_bits(blocks, 4), 5), half_at(blocks, 0), half_at(blocks, 2))


def _q8_0(blocks: mx.array) -> DeviceTensor:
    codes = mx.contiguous(blocks[..., 2:] ^ 128).view(mx.uint32)
    return _centred(codes, half_at(blocks, 0), 128)


def _q4_k(blocks: mx.array) -> DeviceTensor:
    return DeviceTensor(_packed(_nibbles(blocks[..., 16:], 32), 4), *_k_rule(blocks))


def _q5_k(blocks: mx.array) -> DeviceTensor:
    shifts = mx.arange(8, dtype=mx.uint8)[:, None]
    fifth = (blocks[..., None, 16:48] >> shifts) & 1
    codes = _nibbles(blocks[..., 48:], 32)
    return DeviceTensor(_packed(codes | (fifth.reshape(codes.shape) << 4), 5), *_k_rule(blocks))


ON_DEVICE: dict[str, Callable[[mx.array], DeviceTensor]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
}
"""By the name of a type: blocks uint8 [rows, blocks, bytes] -> their part of a tensor."""


def _centred(codes: mx.array, scales: mx.array, middle: int) -> DeviceTensor:
    return DeviceTensor(codes, scales, scales * -middle)


def _nibbles(data: mx.array, run: int) -> mx.array:
    """Low halves of every `run` bytes, then the high ones, [rows, blocks, codes]."""
    runs = data.reshape(*data.shape[:-1], -1, run)
    both = mx.concatenate([runs & 15, runs >> 4], axis=-1)
    return both.reshape(*data.shape[:-1], -1)


def _five_bits(blocks: mx.array, at: int) -> mx.array:
    """32 fifth bits from byte `at` on, then 16 bytes of halves."""
    fifth = (blocks[..., at : at + 4, None] >> mx.arange(8, dtype=mx.uint8)) & 1
    codes = _nibbles(blocks[..., at + 4 :], 16)
    return codes | (fifth.reshape(codes.shape) << 4)


def _packed(codes: mx.array, bits: int) -> mx.array:
    """Codes as one stream of bits, the lowest first, in words; eight at a time are whole bytes."""
    eights = codes.reshape(*codes.shape[:-1], -1, 8)
    stream = eights[..., 0].astype(mx.uint64)
    for place in range(1, 8):
        stream = stream | (eights[..., place].astype(mx.uint64) << (bits * place))
    as_bytes = stream.view(mx.uint8).reshape(*stream.shape, 8)[..., :bits]
    return mx.contiguous(as_bytes.reshape(*codes.shape[:-1], -1)).view(mx.uint32)


def _k_rule(blocks: mx.array) -> tuple[mx.array, mx.array]:
    """Scales d sc and biases -dmin m of eight runs of 32; sc and m have six bits."""
    first, middle, last = (blocks[..., at : at + 4] for at in (4, 8, 12))
    scales = mx.concatenate([first & 63, (last & 15) | ((first >> 2) & 48)], axis=-1)
    minima = mx.concatenate([middle & 63, (last >> 4) | ((middle >> 2) & 48)], axis=-1)
    return (
        half_at(blocks, 0) * scales.astype(mx.float32),
        -half_at(blocks, 2) * minima.astype(mx.float32),
    )
