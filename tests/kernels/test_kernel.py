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


COUNTS = "R|R / 2|M|[248]|EACH|KEY_EACH|VALUE_EACH|COUNT|WORDS|RUNS|UNITS"
FIXED = re.compile(rf"for \(int (\w+) = [01]; \1 < (?:{COUNTS}); \1\+\+\)")


@pytest.mark.parametrize("file", sorted(KERNELS.rglob("*.py")), ids=lambda file: file.stem)
def test_loops_over_registers_are_unrolled(file: Path) -> None:
    """Those over a count that is known when the kernel is compiled."""
    text = file.read_text(encoding="utf-8")
    assert len(FIXED.findall(text)) == len(re.findall(r"\bUNROLL\w* for \(", text))
