"""What a product of packed weights and a few rows costs, in MLX's kernels and in ours.

MLX's choice among its kernels and their tiles are those of its backend/metal/quantized.cpp (0.32.4,
affine). A second tile of rows reads the weights again, but soon after the first: from the cache.
Slots a weight are counted, each multiply of MLX's joined with its addition, and one for what cuts
its bits out of a word: a mask, or Apple's bfeil (github.com/dougallj/applegpu) for shift and mask.
"""

import math
from typing import NamedTuple

from speed.round_model.chip_figures import ChipFigures
from speed.round_model.cost import Cost
from speed.round_model.work import Work

from metal_kernels.few_row_matvec import weight_rows

ROW_BYTES = 2
MATRIX_TILE = 32
MATRIX_UNITS = 4.0
"""Products a slot of the M5's matrix units, against the others' one."""


class Product(NamedTuple):
    """W [outputs, inputs] of `bits` in groups of 64."""

    outputs: float
    inputs: float
    bits: float = 4

    @property
    def weights(self) -> float:
        """How many."""
        return self.outputs * self.inputs

    @property
    def nbytes(self) -> float:
        """With scales and biases."""
        return self.weights * (self.bits + 0.5) / 8


def _moved(product: Product, rows: float, slots: float, launches: float = 1) -> Work:
    read = product.nbytes + rows * product.inputs * ROW_BYTES
    cost = Cost(
        read, rows * product.outputs * ROW_BYTES, 2 * rows * product.weights, dispatches=launches
    )
    return Work(cost, slots * product.weights)


def matrix_limit(product: Product, chip: ChipFigures) -> int:
    """Rows from which on MLX takes its matrix kernels."""
    largest = max(product.outputs, product.inputs)
    size = 0 if largest <= 2048 else 1 if largest <= 4096 else 2
    if chip.letter == "d":
        return (32, 18, 12)[size]
    if chip.generation >= 17:
        return (33, 25, 13)[size]
    return (13, 15, 13)[size] if chip.generation >= 15 else (14, 10, 6)[size]


def narrow_slots(rows: int) -> float:
    """qmv: every row reads and decodes the weight."""
    return 4.2 * rows


def wide_slots(rows: int) -> float:
    """qmv_wide: tiles of up to five rows, each decoding the weight."""
    tiles = math.ceil(rows / 5)
    return tiles * (3.15 + 2.15 * math.ceil(rows / tiles))


def matrix_slots(rows: int, chip: ChipFigures) -> float:
    """qmm: tiles of 32 rows, filled or not."""
    units = MATRIX_UNITS if chip.generation >= 17 else 1.0
    return 3 + MATRIX_TILE * math.ceil(rows / MATRIX_TILE) / units


def our_slots(rows: float, most_rows: int) -> float:
    """few_row_matvec: one decoding, each x shared by R weight rows."""
    return 2.125 + rows * (1.125 + 2 / weight_rows(most_rows))


def stock_product(product: Product, rows: int, chip: ChipFigures) -> Work:
    """One product as MLX does it."""
    if rows >= matrix_limit(product, chip):
        return _moved(product, rows, matrix_slots(rows, chip))
    if rows > 1 and chip.generation >= 15:
        return _moved(product, rows, wide_slots(rows))
    return _moved(product, rows, narrow_slots(rows))


def our_product(product: Product, rows: int) -> Work:
    """One product of 1 to 8 rows as few_row_matvec and its relatives do it."""
    return _moved(product, rows, our_slots(rows, rows))


def distinct(experts: int, top: int, rows: int) -> float:
    """Experts that rows are expected to name when they choose evenly; texts name fewer."""
    return experts * (1 - (1 - top / experts) ** rows)


def stock_experts(product: Product, top: int, rows: int) -> Work:
    """gather_qmv: every pair of row and expert reads the expert's matrix."""
    return _many(product, top * rows, top * rows, narrow_slots(1))


def our_experts(product: Product, count: int, top: int, rows: int) -> Work:
    """expert_union_matvec: every distinct expert is read and decoded once."""
    read = distinct(count, top, rows)
    return _many(product, read, top * rows, our_slots(top * rows / read, rows))


def _many(product: Product, read: float, pairs: float, slots: float) -> Work:
    cost = Cost(
        read * product.nbytes + pairs * product.inputs * ROW_BYTES,
        pairs * product.outputs * ROW_BYTES,
        2 * pairs * product.weights,
    )
    return Work(cost, slots * product.weights * read)
