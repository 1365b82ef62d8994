"""Every kernel broken on purpose, one text at a time: something notices each mistake.

mistakes.toml has them. What has to notice is a report of the emulator (bounds, race, unwritten,
...), wrong numbers, rows whose bits depend on the rows beside them, or counts of what was read. A
text that no kernel has any more is a failure, too.
"""

import tomllib
from pathlib import Path

import pytest
from kernel_scenarios import SCENARIOS, Breaking, caught_by

MISTAKES = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8"))
EACH = [(kernel, what) for kernel, mistakes in MISTAKES.items() for what in mistakes]


@pytest.mark.parametrize("kernel", SCENARIOS)
@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_a_sound_one_passes_in_any_order_of_lanes(kernel: str, shuffle: int) -> None:
    assert caught_by(SCENARIOS[kernel], Breaking(shuffle=shuffle)) == "nothing"


@pytest.mark.parametrize("kernel", SCENARIOS)
def test_a_sound_one_uses_no_variable_before_it_is_written(kernel: str) -> None:
    assert caught_by(SCENARIOS[kernel], Breaking(private=True)) == "nothing"


@pytest.mark.parametrize(
    ("kernel", "old", "new"),
    [
        ("few_row_gate_up", "total[m][r] = 0;", ""),
        ("few_query_attention", "out[r][i] = 0;", ""),
        ("gated_delta_block", "float known = 0;", "float known;"),
    ],
)
def test_an_unsound_one_does(kernel: str, old: str, new: str) -> None:
    launcher = Breaking(old, new, private=True)
    assert caught_by(SCENARIOS[kernel], launcher) == "uninitialised"
    assert launcher.found


@pytest.mark.parametrize(("kernel", "what"), EACH, ids=map(": ".join, EACH))
def test_a_broken_one_is_caught(kernel: str, what: str) -> None:
    notices, text, instead = MISTAKES[kernel][what]
    launcher = Breaking(text, instead)
    caught = caught_by(SCENARIOS[kernel], launcher)
    assert launcher.found, "no kernel has this text any more"
    assert caught == notices


def test_each_is_broken_in_three_ways() -> None:
    assert MISTAKES.keys() == SCENARIOS.keys()
    assert all(len(mistakes) >= 3 for mistakes in MISTAKES.values())
