"""The model of a round: known figures, monotone, and near what others measured of stock MLX."""

import math

import kernel_measures as measures
import pytest
from speed.round_model.__main__ import main
from speed.round_model.chip_figures import CHIPS, ChipFigures, chip_named, figures_of
from speed.round_model.cost import NOTHING, Cost, Roof
from speed.round_model.passes import Ours, Place, Stock, draft, verify
from speed.round_model.products import (
    Product,
    distinct,
    matrix_limit,
    narrow_slots,
    our_slots,
    stock_product,
)
from speed.round_model.published import compared
from speed.round_model.shapes import SHAPES, Heads, Shape, shape_named

ROWS = range(1, 9)


def test_chips() -> None:
    assert figures_of("Apple M4 Pro") == chip_named("M4 Pro")
    assert figures_of("Apple M9") is None
    kinds = {chip.name: (chip.generation, chip.letter) for chip in CHIPS}
    assert (kinds["M1"], kinds["M3 Ultra"], kinds["M5 Max"]) == ((13, "g"), (15, "d"), (17, "s"))
    assert chip_named("M1 Max").roof.bandwidth == 400e9


def test_what_is_known_of_the_27b() -> None:
    """27 thousand million weights in 4.5 bits; a state is 3 MiB a layer, read and written."""
    chip, shape = chip_named("M4 Max"), shape_named("Qwen3.6-27B")
    assert shape.states is not None and shape.states.elements * 4 == 3 * 2**20
    cost = verify(shape, Ours(), chip, Place(1, 1)).cost
    assert 14.3e9 < cost.read < 15.2e9
    assert 50e9 < cost.flops < 55e9
    assert 48 * 3 * 2**20 < cost.written < 1.2 * 48 * 3 * 2**20


def test_which_kernel_mlx_takes() -> None:
    assert [matrix_limit(Product(4096, 4096), chip_named(n)) for n in ("M1", "M3", "M5")] == [
        *(10, 15, 25)
    ]
    big = Product(17408, 5120)
    before, after = chip_named("M2 Max"), chip_named("M3 Max")
    slots = [stock_product(big, 2, chip).slots / big.weights for chip in (before, after)]
    assert slots == pytest.approx([8.4, 7.45])


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_more_rows_and_more_keys_never_cost_less(shape: Shape, chip: ChipFigures) -> None:
    for kernels in (Ours(), Stock(chip)):
        times = [verify(shape, kernels, chip, Place(rows)).seconds for rows in ROWS]
        assert times == sorted(times)
        assert times[0] > verify(shape, kernels, chip, Place(1, 1)).seconds
        assert times[0] >= verify(shape, kernels, chip, Place(1, bits=3)).seconds
        assert draft(shape, kernels, chip, Place(1)).seconds < times[0] / 4
    for rows in ROWS:
        mine = verify(shape, Ours(), chip, Place(rows))
        assert mine.seconds <= verify(shape, Stock(chip), chip, Place(rows)).seconds


def test_a_pass_is_no_faster_than_its_bytes() -> None:
    for chip in CHIPS:
        done = verify(SHAPES[1], Ours(), chip, Place(1))
        assert done.seconds > chip.roof.seconds(done.cost)


def test_experts_that_rows_name() -> None:
    """As published for even choices: 30.5 of 32 pairs, 57.4 of 64."""
    assert distinct(256, 8, 4) == pytest.approx(30.5, abs=0.1)
    assert distinct(256, 8, 8) == pytest.approx(57.4, abs=0.1)


def test_the_stock_column_is_near_what_was_measured() -> None:
    """Within a quarter but for two, an eleventh on the mean; attention a fifth too cheap."""
    figures = list(compared())
    errors = [one.error for one in figures]
    assert sum(not 0.79 < error < 1.25 for error in errors) == 2
    assert min(errors) > 0.65 and max(errors) < 1.35  # one row on M1 Ultra; 4096 x 4096 on M4 Pro
    assert math.exp(sum(abs(math.log(error)) for error in errors) / len(errors)) < 1.11
    attention = [one.error for one in figures if isinstance(one.entry.piece, Heads)]
    assert attention == pytest.approx([0.80, 0.85], abs=0.05)


def test_slots_are_what_was_counted() -> None:
    """Operations of a weight, and one to cut it out."""
    for rows in (1, 4, 8):
        assert our_slots(rows, rows) == pytest.approx(measures.ours(rows, 4).fused + 1, abs=0.05)
    assert narrow_slots(1) == pytest.approx(measures.stock_narrow(1, 4).fused + 1, abs=0.05)


def test_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    main(4096, 4)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(list(compared())) + 3 + len(SHAPES) * 6 * 2
    assert all("nan" not in line for line in lines)


def test_costs_add_up() -> None:
    one = Cost(100, 10, 1000)
    assert one + one == one.times(2) == Cost(200, 20, 2000, 2)
    assert one + NOTHING == one


def test_a_roof_is_the_slower_of_moving_and_computing() -> None:
    roof = Roof(bandwidth=100, flops=1000, dispatch=0.5)
    assert roof.seconds(Cost(90, 10, 100)) == 1.5
    assert roof.seconds(Cost(90, 10, 4000, 2)) == 5
