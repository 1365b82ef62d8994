"""The choice of depths on machines and texts that are numbers, against off, and an oracle."""

import numpy as np
import pytest
from draft_simulator import MACHINES, auto, fixed, oracle, recordings, texts

TEXTS = {**texts(), **recordings()}
AHEAD = (0, 1)
"""Rounds chosen before one's outcome is known."""


def milliseconds(machine, text):
    return float(np.mean([auto(machine, text, ahead, ahead).ms for ahead in AHEAD]))


@pytest.fixture(scope="module")
def times():
    """[machine][text] -> milliseconds: off, the best of the oracle and off, and the choice's."""
    return {
        name: {
            title: (
                off := fixed(machine, text, 0).ms,
                min(off, oracle(machine, text).ms),
                milliseconds(machine, text),
            )
            for title, text in TEXTS.items()
        }
        for name, machine in MACHINES.items()
    }


def test_never_slower_than_off(times):
    """At least 0.98 of its speed, whatever the machine and whatever is accepted."""
    worst = min(
        (off / chosen, machine, title)
        for machine, of_texts in times.items()
        for title, (off, _, chosen) in of_texts.items()
    )
    assert worst[0] >= 0.98, worst


def test_near_what_could_be_known(times):
    """In mean 3.5 % slower than somebody who knows every chance, and whose head has read all."""
    lost = [chosen / best - 1 for by in times.values() for _, best, chosen in by.values()]
    assert np.mean(lost) < 0.035
    steady = [
        chosen / best - 1
        for by in times.values()
        for title, (_, best, chosen) in by.items()
        if title in ("nothing is accepted", "hard", "prose", "code", "all is accepted")
    ]
    assert max(steady) < 0.11
