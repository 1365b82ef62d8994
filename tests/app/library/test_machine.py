"""What to get next is what fits."""

import pytest

from app.library.machine import (
    CHOSEN,
    GB_A_BILLION,
    Machine,
    advice,
    best_for,
    chosen_for,
    usable_bytes,
)
from mlx_engine.hub.repository import HubModel, read_hub_link

SOLD = {8: 4, 16: 9, 24: 9, 32: 27, 36: 27, 48: 35, 64: 35, 96: 35, 128: 122, 192: 122}


@pytest.mark.parametrize(("gib", "billions"), SOLD.items())
def test_every_mac_gets_the_largest_that_fits(gib, billions):
    machine = Machine(usable_bytes(gib * 2**30))
    assert best_for(machine).billions == billions
    assert f"a {billions}B Qwen in 4 bits" in advice(machine)
    assert billions * GB_A_BILLION * 1e9 <= machine.usable_bytes
    rows = chosen_for(machine)
    assert rows[0].parameters == billions * 10**9
    too_large = [row.parameters for row in rows if "too large" in row.note]
    assert too_large == [c.billions * 10**9 for c in CHOSEN if c.billions > billions]


def test_the_smallest_is_named_when_nothing_fits():
    assert best_for(Machine(10**8)) == CHOSEN[0]


def test_every_chosen_one_can_be_asked_for():
    for one in CHOSEN:
        model = read_hub_link(one.link)
        assert isinstance(model, HubModel)
        assert model.link == one.link
