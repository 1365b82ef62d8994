"""Costs add up, a roof is the slower of moving and computing, and without Metal a call says so."""

import mlx.core as mx
import pytest

from metal_kernels import few_row_matvec
from metal_kernels.cost import NOTHING, Cost, Roof
from metal_kernels.kernel import Call, Output, Source
from metal_kernels.metal_launcher import MetalLauncher
from metal_kernels.unrolled import unrolled

DOUBLE = Source("double_it", ("x",), ("y",), "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];")


def double(x: mx.array) -> Call:
    return Call((x,), (Output(x.shape, x.dtype),), (x.size, 1, 1), (32, 1, 1))


def test_costs_add_up() -> None:
    one = Cost(100, 10, 1000)
    assert one + one == one.times(2) == Cost(200, 20, 2000, 2)
    assert one + NOTHING == one


def test_a_roof_is_the_slower_of_moving_and_computing() -> None:
    roof = Roof(bandwidth=100, flops=1000, dispatch=0.5)
    assert roof.seconds(Cost(90, 10, 100)) == 1.5
    assert roof.seconds(Cost(90, 10, 4000, 2)) == 5


def test_the_gpu_doubles_or_says_there_is_none() -> None:
    x = mx.arange(40, dtype=mx.float32)
    launcher = MetalLauncher()
    if mx.metal.is_available():
        assert mx.array_equal(launcher.run(DOUBLE, double(x))[0], 2 * x).item()
        return
    with pytest.raises(RuntimeError, match="No Metal"):
        mx.eval(launcher.run(DOUBLE, double(x))[0])


def test_loops_in_registers_are_marked_and_no_line_moves() -> None:
    body = few_row_matvec.ACCUMULATE + "for (int t = 0; t < rows; t++) {}"
    marked = unrolled(body)
    assert marked.count("unroll(full)") == body.count("for (int ") - 2  # over units, over rows
    assert marked.count("\n") == body.count("\n")
    assert marked.replace('_Pragma("clang loop unroll(full)") ', "") == body
