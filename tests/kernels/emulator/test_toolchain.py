"""The emulator's compiler: it comes with the tests, and what it makes hangs on nothing else."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from metal_emulator import NoCompilerError, build, toolchain

TESTS = Path(__file__).parents[2]


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    toolchain.zig.cache_clear()
    with pytest.raises(NoCompilerError, match=r"ziglang.*'\.\[test\]'"):
        toolchain.zig()
    toolchain.zig.cache_clear()


ADD_ONE = """
import mlx.core as mx
from metal_emulator import metal_kernel
kernel = metal_kernel("anew", ["a"], ["out"], "out[thread_position_in_grid.x] = a[0] + 1;")
(out,) = kernel(inputs=[mx.ones(1)], grid=(3, 1, 1), threadgroup=(3, 1, 1),
                output_shapes=[(3,)], output_dtypes=[mx.float32])
print(out.tolist())
"""


def test_no_program_of_this_machine_is_needed(tmp_path: Path) -> None:
    """No compiler, no linker on the path, and nothing built before."""
    surroundings = {"PATH": "", "TMPDIR": str(tmp_path), "PYTHONPATH": str(TESTS)}
    surroundings |= {"HOME": str(Path.home())}  # where zig keeps what it builds once
    done = subprocess.run(
        [sys.executable, "-c", ADD_ONE],
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[2.0, 2.0, 2.0]\n", "")


@pytest.mark.parametrize("checked", [True, False])
def test_code_is_made_for_no_particular_processor(checked: bool, tmp_path: Path) -> None:
    """Its instructions must not be those this machine happens to have, as half floats of AVX512."""
    text = tmp_path / "half.cpp"
    text.write_text("_Float16 sum(_Float16 a, _Float16 b) { return a + b; }")
    out = tmp_path / "half.s"
    command = [*toolchain.kernel_command(checked), "-S", str(text), "-o", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    assert "vaddsh" not in out.read_text()


def test_the_cache_is_outside_the_repository() -> None:
    assert TESTS.parent not in build.cache_folder().parents
