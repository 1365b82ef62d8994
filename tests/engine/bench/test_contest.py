"""Medians, paired ratios and turns on scripted numbers."""

import pytest

from mlx_engine.bench.drafting import shares
from mlx_engine.bench.plain import contest, in_turn
from mlx_engine.bench.report import Contest


def test_ratio_is_the_median_of_pairs_not_the_ratio_of_medians() -> None:
    found = contest([10.0, 30.0, 90.0], [20.0, 30.0, 30.0])
    assert found == Contest(ours=30.0, theirs=30.0, ratio=1.0)
    slow_machine_half_way = contest([100.0, 10.0, 11.0], [50.0, 5.0, 5.5])
    assert slow_machine_half_way.ratio == 2.0


def test_a_pair_without_time_does_not_count() -> None:
    assert contest([1.0, 4.0], [0.0, 2.0]).ratio == 2.0
    assert contest([1.0], [0.0]).ratio == 0.0


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        contest([1.0, 2.0], [1.0])


def test_turns_alternate_who_is_first() -> None:
    seen: list[str] = []

    def side(name: str) -> str:
        seen.append(name)
        return f"{name}{len(seen)}"

    results = in_turn([lambda: side("a"), lambda: side("b")], 3)
    assert seen == ["a", "b", "b", "a", "a", "b"]
    assert results == [["a1", "a4", "a5"], ["b2", "b3", "b6"]]


def test_shares_by_depth() -> None:
    assert shares((6, 3), (8, 6, 4)) == (0.75, 0.5, 0.0)
    assert shares((), ()) == ()
