"""Skips what needs a C++ compiler where there is none; in CI that is a failure."""

import pytest
from metal_emulator.toolchain import NoCompilerError, find_compiler, must_not_skip


@pytest.fixture(autouse=True)
def compiler() -> None:
    """A compiler that can build MSL."""
    try:
        find_compiler()
    except NoCompilerError as error:
        if must_not_skip():
            raise
        pytest.skip(str(error))
