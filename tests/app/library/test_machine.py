"""What to get next is what fits."""

import pytest

from app.library.machine import GB_A_BILLION, SIZES, Machine, advice, largest_size, usable_bytes

SOLD = {8: 4, 16: 9, 24: 9, 32: 27, 36: 27, 48: 35, 64: 35, 96: 35, 128: 122, 192: 122}


@pytest.mark.parametrize(("gib", "billions"), SOLD.items())
def test_every_mac_gets_the_largest_that_fits(gib: int, billions: float) -> None:
    machine = Machine("", gib * 2**30, usable_bytes(gib * 2**30))
    assert largest_size(machine) == billions
    assert f"up to {billions:g}B parameters" in advice(machine)
    assert billions * GB_A_BILLION * 1e9 <= machine.usable_bytes


def test_the_smallest_is_named_when_nothing_fits() -> None:
    assert largest_size(Machine("", 10**9, 10**8)) == SIZES[0]
