"""Blocks of every GGUF type, random, at the edges or of values, and what the gguf package reads."""

from collections.abc import Mapping

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize
from gguf_files import RawTensor
from numpy.typing import NDArray

from mlx_engine.loading.gguf.header import block_types

Blocks = NDArray[np.uint8]
HALVES = dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)) | {
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q6_K": (208,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
}
"""Byte places of float16 numbers in a block, where they are not (0,)."""

_OTHERWISE = ("Q8_K", "MXFP4", "NVFP4", "IQ1_M")
"""Their scales are no float16 numbers, or are spread over several places."""


def nbytes_of(name: str) -> int:
    """Of a block."""
    return next(kind.nbytes for kind in block_types().values() if kind.name == name)


def put_halves(
    blocks: Blocks, name: str, values: float | Mapping[int, NDArray[np.floating]]
) -> None:
    """The float16 numbers of blocks [..., bytes]; values: one, or by place an array of them."""
    for place in HALVES.get(name, (0,)):
        given = values[place] if isinstance(values, Mapping) else np.array([values])
        blocks[..., place : place + 2] = given.astype("<f2")[..., None].view(np.uint8)


def random_blocks(
    name: str, rows: int, blocks: int, seed: int, highest: int = 256, scale: float = 1
) -> Blocks:
    """Rows of blocks [rows, bytes]: random bytes below `highest`; scales of a normal distribution,
    as wide as `scale` where they are float16.
    """
    draw = np.random.default_rng(seed)
    data = draw.integers(0, highest, (rows * blocks, nbytes_of(name)), dtype=np.uint8)
    if name == "Q8_K":
        data[:, :4] = draw.normal(0, 1, (len(data), 1)).astype("<f4").view(np.uint8)
    elif name == "MXFP4":
        data[:, 0] = draw.integers(100, 140, len(data))
    elif name == "NVFP4":
        data[:, :4] &= 0x7F
        data[:, 0] = 0x7F
    elif name == "IQ1_M":
        data[:, 55] &= 0x3F  # the highest bits of the scale: below 2
    else:
        places = HALVES.get(name, (0,))
        put_halves(data, name, {place: draw.normal(0, scale, len(data)) for place in places})
    return data.reshape(rows, -1)


def edge_blocks(name: str) -> Blocks:
    """One block a row, every byte the same: zeros, ones, halves; d zero, tiny, huge, negative."""
    rows = []
    for fill in (0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x7F):
        for half in (0.0, -0.0, 6e-8, -6e-8, 6.1e-5, 1.0, -1.0, 500.0, -500.0):
            block = np.full((1, nbytes_of(name)), fill, np.uint8)
            if name not in _OTHERWISE:
                put_halves(block, name, half)
            elif name == "MXFP4":
                block[0, 0] = {0x00: 1, 0xFF: 253}.get(fill, fill)
            elif name == "NVFP4":
                block[0, :4] &= 0x7F
            elif name == "IQ1_M":  # four bits each in the highest of the last four words
                fours = np.array(half, "<f2").view("<u2") >> np.arange(0, 16, 4, dtype="<u2") & 15
                block[:, 49::2] = block[:, 49::2] & 15 | (fours << 4).astype(np.uint8)
            rows.append(block)
    return np.concatenate(rows)


def dequantised(blocks: Blocks, name: str) -> NDArray[np.float32]:
    """[rows, values] of blocks [rows, bytes]."""
    if name == "Q8_K":  # the package has no formula
        raw = blocks.reshape(-1, 292)
        scale = np.ascontiguousarray(raw[:, :4]).view("<f4")
        return (raw[:, 4:260].view(np.int8) * scale).reshape(len(blocks), -1)
    if name in ("Q1_0", "Q2_0"):  # as llama.cpp writes them, bits from the lowest on
        raw, bits = blocks.reshape(-1, 18), 1 if name == "Q1_0" else 2
        codes = raw[:, 2:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)
        signed = codes.reshape(len(raw), -1).astype(np.float32)
        signed = 2 * signed - 1 if name == "Q1_0" else signed - 1
        halves = np.ascontiguousarray(raw[:, :2]).view("<f2").astype(np.float32)
        return (signed * halves).reshape(len(blocks), -1)
    with np.errstate(all="ignore"):
        found: NDArray[np.float32] = dequantize(blocks, GGMLQuantizationType[name])
        return found


def packed(value: NDArray[np.float32], kind: GGMLQuantizationType) -> Blocks:
    """Packed values; types that the gguf package cannot pack get random bits, with a small d."""
    try:
        return quantize(value, kind)
    except NotImplementedError:
        elements, nbytes = GGML_QUANT_SIZES[kind]
        shape = (*value.shape[:-1], value.shape[-1] // elements, nbytes)
        blocks = np.random.default_rng(value.size).integers(0, 256, shape, np.uint8)
        put_halves(blocks, kind.name, 2e-4)
        return blocks.reshape(*value.shape[:-1], -1)


def tensor(
    name: str,
    value: NDArray[np.float32],
    kind: GGMLQuantizationType | None = None,
    *,
    blocks: Blocks | None = None,
    unpacked: bool = False,
) -> RawTensor:
    """In float32, or in blocks of a type: these, else those of the values. unpacked: in float32,
    with the values that such blocks have.
    """
    value = np.ascontiguousarray(value, np.float32)
    if kind is not None:
        made = packed(value, kind) if blocks is None else blocks
        if not unpacked:
            return RawTensor(name, kind.value, value.shape, made.tobytes())
        value = dequantize(made, kind)
    return RawTensor(name, 0, value.shape, value.tobytes())
