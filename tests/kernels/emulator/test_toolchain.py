"""Which compiler is taken, and what happens without one."""

import sys
from pathlib import Path

import pytest
from metal_emulator import NoCompilerError, build, toolchain


@pytest.fixture(autouse=True)
def fresh() -> None:
    """The choice is made once a process; these tests make it anew."""
    toolchain.find_compiler.cache_clear()
    yield
    toolchain.find_compiler.cache_clear()


def test_a_named_compiler_is_the_only_one_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSL_CXX", f"{sys.executable} -c pass")
    with pytest.raises(NoCompilerError, match=r"g\+\+ >= 12.*-c pass"):
        toolchain.find_compiler()


def test_an_old_compiler_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho '#define __GNUC__ 11'\n")
    old.chmod(0o755)
    monkeypatch.setenv("MSL_CXX", str(old))
    with pytest.raises(NoCompilerError):
        toolchain.find_compiler()
    old.write_text("#!/bin/sh\necho '#define __GNUC__ 12'\n")
    assert toolchain.find_compiler().kind == "gcc"


@pytest.mark.parametrize(("value", "must"), [("true", True), ("1", True), ("", False)])
def test_ci_may_not_skip(monkeypatch: pytest.MonkeyPatch, value: str, must: bool) -> None:
    monkeypatch.setenv("CI", value)
    assert toolchain.must_not_skip() is must


def test_the_cache_is_outside_the_repository() -> None:
    repository = Path(__file__).parents[3]
    assert repository not in build.cache_folder().parents
