"""Tables that turn indices of GGUF's lattice blocks into codes, made from the gguf package's grids.

Each is made when first used. An entry holds several neighbouring values, the first lowest.
"""

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Words16 = NDArray[np.uint16]
Words32 = NDArray[np.uint32]
Words64 = NDArray[np.uint64]
GridName = Literal["IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]


@cache
def ternary_eights() -> Words16:
    """[2048]: eight values of IQ1's grid plus 1, of 2 bits each."""
    found: Words16 = _packed(_grid("IQ1_S") + 1, 2).astype(np.uint16)
    return found


@cache
def ternary_eights_with_shift() -> Words64:
    """[sign of the shift, 2048]: bytes 4 g + 5 for g + 1/8, and 4 g + 4 for g - 1/8."""
    grid = 4 * _grid("IQ1_S")
    return _packed(np.concatenate([grid + 5, grid + 4]), 8)


@cache
def eights(name: GridName) -> Words64:
    """[entries]: eight values of an IQ2 grid as bytes."""
    return _packed(_grid(name), 8)


@cache
def minus_eights() -> Words64:
    """[256]: byte i is 255 where bit i says minus, else 0."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return _packed(255 * bits.astype(np.int64), 8)


@cache
def minus_eights_by_parity() -> Words64:
    """[128]: the same for seven bits; the eighth makes the number of minuses even."""
    return minus_eights()[_even_parity()]


@cache
def minus_fours_by_parity() -> Words32:
    """[128]: of the eight signs the first four in bits 8 to 11, the others in bits 24 to 27."""
    signs = _even_parity().astype(np.uint32)
    found: Words32 = (signs & np.uint32(15)) << np.uint32(8) | signs >> np.uint32(4) << np.uint32(
        24
    )
    return found


@cache
def signed_fours_of_4_bits() -> Words16:
    """[sixteen signs, entries]: (value + 15) / 2 of four values of IQ3_S."""
    found: Words16 = _packed((_signed(_grid("IQ3_S")) + 15) // 2, 4).astype(np.uint16)
    return found


@cache
def signed_fours_of_6_bits() -> Words32:
    """[sixteen signs, entries]: value / 2 + 32 of four values of IQ3_XXS."""
    found: Words32 = _packed(_signed(_grid("IQ3_XXS")) // 2 + 32, 6).astype(np.uint32)
    return found


def _packed(codes: NDArray[np.int64], bits: int) -> Words64:
    """[entries, values] -> [entries]."""
    places = np.arange(0, bits * codes.shape[1], bits, dtype=np.uint64)
    found: Words64 = np.bitwise_or.reduce(codes.astype(np.uint64) << places, axis=1)
    return found


def _signed(grid: NDArray[np.int64]) -> NDArray[np.int64]:
    """All entries [n, 4] with all signs, bit i of their number for value i, [16 * n, 4]."""
    minus = np.arange(16)[:, None, None] >> np.arange(4) & 1
    return ((1 - 2 * minus) * grid).reshape(-1, 4)


def _even_parity() -> NDArray[np.int64]:
    signs = np.arange(128)
    odd = np.unpackbits(signs.astype(np.uint8)[:, None], axis=1).sum(axis=1) & 1
    found: NDArray[np.int64] = signs | odd.astype(np.int64) << 7
    return found


def _grid(name: GridName) -> NDArray[np.int64]:
    """[entries, values]; all are whole numbers."""
    from gguf import quants

    kinds: dict[GridName, Any] = {
        "IQ1_S": quants.IQ1_S,
        "IQ2_XXS": quants.IQ2_XXS,
        "IQ2_XS": quants.IQ2_XS,
        "IQ2_S": quants.IQ2_S,
        "IQ3_XXS": quants.IQ3_XXS,
        "IQ3_S": quants.IQ3_S,
    }
    kind = kinds[name]
    kind.init_grid()
    found: NDArray[np.int64] = kind.grid.reshape(kind.grid_shape).astype(np.int64)
    return found
