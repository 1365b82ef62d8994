"""A call runs on the GPU, and says so where there is none; loops in registers are marked."""

import re
from pathlib import Path

import mlx.core as mx
import pytest

import metal_kernels
from metal_kernels.kernel import KernelSource, Launch, MetalLauncher, pipeline

KERNELS = Path(metal_kernels.__file__).parent
DOUBLE = KernelSource(
    "double_it", ("x",), ("y",), "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];"
)


def double(x: mx.array) -> Launch:
    return Launch(pipeline(DOUBLE), (x.shape,), (x.dtype,), (x.size, 1, 1), (32, 1, 1))


def test_the_gpu_doubles_or_says_there_is_none() -> None:
    x = mx.arange(40, dtype=mx.float32)
    launcher = MetalLauncher()
    if mx.metal.is_available():
        assert mx.array_equal(launcher.run(double(x), [x])[0], 2 * x).item()
        return
    with pytest.raises(RuntimeError, match="No Metal"):
        mx.eval(launcher.run(double(x), [x])[0])


LOOP = re.compile(r"(UNROLL\w* )?for \(int (\w+) = [01]; \2 < ([A-Z_\d /]+); \2(?:\+\+| \+= 4)\)")
REGISTERS = ("R", "R / 2", "M", "N", "N / 2", "2", "4", "8", "EACH", "KEY_EACH", "VALUE_EACH")
REGISTERS += ("COUNT", "WORDS", "UNITS", "ROW_TILES")
"""Counts of arrays in registers, by which no loop goes that is not unrolled."""


@pytest.mark.parametrize("file", sorted(KERNELS.rglob("*.py")), ids=lambda file: file.stem)
def test_loops_over_registers_are_unrolled(file: Path) -> None:
    """And those alone, over counts that are known when the kernel is compiled."""
    text = file.read_text(encoding="utf-8")
    loops = LOOP.findall(text)
    assert [bound for unrolled, _, bound in loops if bound in REGISTERS and not unrolled] == []
    unrolled = sum(bool(unrolled) for unrolled, _, _ in loops)
    assert unrolled == len(re.findall(r"\bUNROLL\w* for \(", text))
