"""Prints the model's tables: `python -m speed.round_model` in tests/.

First the check of its stock column against published measurements, then T(M)/T(1) of whole passes
and the milliseconds of a round, for stock MLX and for our kernels. Nothing here was measured.
"""

import sys

from speed.round_model.chip_figures import ChipFigures, chip_named
from speed.round_model.passes import Ours, Place, Stock, draft, verify
from speed.round_model.products import Product
from speed.round_model.published import compared
from speed.round_model.shapes import SHAPES, Shape

CHIPS = ("M1", "M1 Max", "M2 Ultra", "M3 Max", "M4 Pro", "M5 Max")
ROWS = range(1, 9)
DRAFTS = (1, 2, 3)


def print_check() -> None:
    """Predicted over measured, figure by figure."""
    print("stock MLX, T(M)/T(1), at M = 1 ms: measured, predicted, predicted/measured")
    for one in compared():
        piece = one.entry.piece
        size = f"{piece.inputs:.0f}x{piece.outputs:.0f}" if isinstance(piece, Product) else ""
        size = piece.name if isinstance(piece, Shape) else size
        words = f"{one.entry.source:<26}{one.entry.chip:<10}{size:<13}M={one.rows:<3}"
        print(f"{words}{one.measured:>7.3f}{one.predicted:>8.3f}{one.error:>7.2f}")


def print_passes(shape: Shape, chip: ChipFigures, keys: int, bits: float) -> None:
    """One model on one chip: two lines."""
    for name, kernels in (("stock", Stock(chip)), ("ours", Ours())):
        passes = [verify(shape, kernels, chip, Place(rows, keys, bits)) for rows in ROWS]
        one, cost = passes[0].seconds, passes[0].cost
        ratios = " ".join(f"{each.seconds / one:>5.2f}" for each in passes)
        once = draft(shape, kernels, chip, Place(1, keys, bits)).seconds
        rounds = " ".join(
            f"{1e3 * (passes[depth].seconds + depth * once):>6.1f}" for depth in DRAFTS
        )
        print(
            f"{shape.name:<17}{chip.name:<10}{name:<6}{1e3 * one:>7.1f} {ratios}  {rounds}"
            f"{cost.read / 1e9:>7.2f}{cost.flops / 1e9:>7.1f}{cost.dispatches:>6.0f}"
        )


def main(keys: int, bits: float) -> None:
    """All tables, for a chat of `keys` tokens and weights of `bits`."""
    print_check()
    print(f"\n{keys} tokens in the cache, {bits:g}-bit weights; one row: GB read, GFLOP, launches")
    print(
        f"{'model':<17}{'chip':<10}{'':<6}{'T(1)ms':>7} "
        + " ".join(f"{f'M={rows}':>5}" for rows in ROWS)
        + "  "
        + " ".join(f"{f'd={depth}':>6}" for depth in DRAFTS)
        + f"{'GB':>7}{'GF':>7}{'n':>6}"
    )
    for shape in SHAPES:
        for chip in CHIPS:
            print_passes(shape, chip_named(chip), keys, bits)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 4096, float(sys.argv[2]) if sys.argv[2:] else 4)
