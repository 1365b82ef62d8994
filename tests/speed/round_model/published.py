"""Times of stock MLX that others have measured and published, and what the model says to them.

4-bit weights in groups of 64 unless the entry says otherwise, float16 or bfloat16 rows, MLX 0.31
and 0.32. Left out is MLX issue 4265 (M3 Ultra): its weights came faster than memory gives them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from speed.round_model.chip_figures import chip_named
from speed.round_model.mixers import stock_attention
from speed.round_model.passes import Place, Stock, verify
from speed.round_model.products import Product, stock_product
from speed.round_model.shapes import LLAMA_70B, Heads, Shape, shape_named


class Published(NamedTuple):
    """One product, attention over KEYS keys, or a whole model of `bits`, 512 tokens into a chat.

    base: milliseconds at one row, None where only ratios were given. ratios: rows -> T(M) / T(1).
    """

    source: str
    chip: str
    piece: Product | Heads | Shape
    base: float | None
    ratios: dict[int, float]
    bits: float = 4


_27B, _9B = shape_named("Qwen3.6-27B"), shape_named("Qwen3.5-9B")

PUBLISHED = (
    Published(
        *("MLX issue 3839", "M4 Pro", Product(24576, 4096), None),
        {2: 1.03, 3: 1.22, 4: 1.47, 6: 2.07, 8: 2.69},
    ),
    Published(
        *("MLX issue 3839", "M4 Pro", Product(4096, 12288), None),
        {2: 1.18, 3: 1.40, 4: 1.52, 6: 2.05, 8: 2.46},
    ),
    Published(
        *("MLX issue 3839", "M4 Pro", Product(4096, 4096), None),
        {2: 1.20, 3: 1.35, 4: 1.57, 6: 1.99, 8: 2.01},
    ),
    Published(
        *("MLX PR 3863", "M3 Max", Product(17408, 5120), 0.129),
        {2: 1.0, 4: 1.28, 6: 2.04, 8: 2.50, 16: 3.94},
    ),
    Published(
        *("MLX issue 3852", "M4 Pro", Product(17408, 5120), None),
        {2: 0.99, 3: 1.13, 4: 1.43, 5: 1.75, 8: 2.84},
    ),
    Published(
        *("MLX issue 3852, 2 bits", "M4 Pro", Product(17408, 5120, 2), None),
        {2: 1.30, 3: 1.82, 4: 2.34, 5: 2.86, 8: 4.53, 16: 7.3},
    ),
    Published(
        *("MLX PR 3791", "M5 Max", LLAMA_70B, 76.0),
        {3: 1.12, 5: 1.42, 8: 2.21, 12: 3.18},
    ),
    Published(*("mlxcel PR 1182", "M5 Max", _27B, 30.7), {4: 1.28, 8: 2.47}),
    Published(*("mlx-serve", "M5 Max", _27B, 33.8), {3: 1.14, 6: 1.68}),
    Published(*("mlxcel PR 1182", "M1 Ultra", _27B, 43.6), {2: 1.74, 3: 2.44, 4: 3.11, 8: 5.60}),
    Published(*("MTPLX, beside mlx-lm", "M1 Max", _27B, 49.0), {}),
    Published(*("Rapid-MLX issue 3140", "M2 Max", _27B, 46.1), {}),
    Published(*("mlx-lm PR 990", "M2 Max", _27B, None), {2: 1.725}),
    Published(*("MTPLX issue 170", "M2 Ultra", _27B, 48.5), {}, 8),
    Published(*("Rapid-MLX issue 567", "M3 Ultra", _9B, 9.9), {}),
    Published(*("Rapid-MLX issue 567", "M4 Pro", _9B, 23.0), {}),
    Published(
        *("MLX issue 3837, attention", "M1 Ultra", Heads(32, 4, 256, is_gated=False), 2.3),
        {2: 2.34},
    ),
)

KEYS = 100_000
"""Of the attention that was measured."""


class Compared(NamedTuple):
    """What was measured and what the model says; both T(M) / T(1), or milliseconds at one row."""

    entry: Published
    rows: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


def predicted(entry: Published, rows: int) -> float:
    """Seconds of the entry's piece or model with so many rows."""
    chip = chip_named(entry.chip)
    if isinstance(entry.piece, Shape):
        return verify(entry.piece, Stock(chip), chip, Place(rows, 512, entry.bits)).seconds
    if isinstance(entry.piece, Heads):
        return stock_attention(entry.piece, rows, KEYS).seconds(chip)
    return stock_product(entry.piece, rows, chip).seconds(chip)


def compared() -> Iterator[Compared]:
    """Every figure; those of one row first in each entry."""
    for entry in PUBLISHED:
        one = predicted(entry, 1)
        if entry.base is not None:
            yield Compared(entry, 1, entry.base, one * 1000)
        for rows, ratio in entry.ratios.items():
            yield Compared(entry, rows, ratio, predicted(entry, rows) / one)
