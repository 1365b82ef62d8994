"""What to get next is what fits."""

import pytest

from app.library.machine import Machine, chosen_for, first_choices, suggestions, usable_bytes
from mlx_engine.hub.repository import HubModel, read_hub_link

SOLD = {8: 4, 16: 9, 24: 9, 32: 27, 36: 27, 48: 35, 64: 35, 96: 35, 128: 122, 192: 122}


@pytest.mark.parametrize(("gib", "billions"), SOLD.items())
def test_every_mac_gets_the_largest_that_fits(gib, billions):
    machine = Machine(usable_bytes(gib * 2**30))
    first = first_choices(machine)
    assert first[0].billions == billions and len(first) <= 3
    assert all(one.fits(machine.usable_bytes) for one in first)
    rows = chosen_for(machine)
    assert rows[0].parameters == billions * 10**9
    too_large = [row.parameters for row in rows if row.fit == "too-large"]
    assert too_large == [c.billions * 10**9 for c in suggestions() if c.billions > billions]


def test_the_smallest_is_named_when_nothing_fits():
    assert first_choices(Machine(10**8)) == suggestions()[:1]


def test_every_suggestion_can_be_asked_for():
    for one in suggestions():
        model = read_hub_link(one.link)
        assert isinstance(model, HubModel)
        assert model.shortest_link == one.link
        assert one.gigabytes < one.memory < 1.3 * one.gigabytes + 1
        assert one.heads and one.detail
