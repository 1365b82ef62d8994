"""Rows of figures from answers whose numbers are known beforehand."""

from dataclasses import replace

import pytest

from mlx_engine.bench.report import AnswerFigures, ArmFigures, figures_by_arm, sum_over_kinds
from mlx_engine.bench.run_bench import arms_in_turns
from mlx_engine.values.errors import Reason
from mlx_engine.values.stats import RoundStats

PARKED = Reason("parked-cost", "Too dear here.")
TEXT = (7, 8, 9)


def round_of(drafted: int, accepted: int, why: Reason | None = None) -> RoundStats:
    """2 ms a draft, 5 ms a pass, 1 ms of the host."""
    return RoundStats(0, drafted, drafted, accepted, accepted + 1, 2.0 * drafted, 5.0, 1.0, why=why)


def answer_figures(speed: float, tokens: tuple[int, ...] = TEXT, equal: int = 3) -> AnswerFigures:
    """`speed` tokens a second behind the first round, in one second; the prompt in half a one."""
    length = len(tokens)
    return AnswerFigures(
        5, tokens, length, 0, 0, length, 0.5, 1.5, int(speed), 1.0, equal=equal, reference=3
    )


def row_of(arm: str, runs: dict[str, list[AnswerFigures]], *peers: str) -> ArmFigures:
    return next(row for row in figures_by_arm(runs, peers) if row.arm == arm)


def test_a_row_sums_its_rounds() -> None:
    rounds = (round_of(2, 2), round_of(2, 0), round_of(0, 0, PARKED), round_of(2, 1))
    answer = AnswerFigures(
        5, TEXT, 7, 6, 3, 4, 0.5, 1.5, 4, 0.1, 0.02, rounds, equal=3, reference=3
    )
    row = row_of("auto", {"off": [answer_figures(20)], "auto": [answer]})
    assert (row.tokens, row.passes, row.drafted, row.accepted) == (7, 4, 6, 3)
    assert row.accepted_by_depth == (2 / 3, 1 / 3)
    assert row.depths == {0: 1, 2: 3}
    assert row.why == PARKED
    assert row.tokens_per_second == pytest.approx(40)
    assert row.ratio == pytest.approx(2)
    assert (row.prompt_tokens_per_second, row.wall_s, row.cpu_ms) == (10, 1.5, 5.0)


def test_a_depth_of_which_nothing_was_accepted_has_a_share() -> None:
    answer = replace(answer_figures(1), rounds=(round_of(3, 1), round_of(3, 0)))
    assert row_of("1", {"off": [answer_figures(1)], "1": [answer]}).accepted_by_depth == (0.5, 0, 0)


def test_ratio_is_the_median_of_turns_not_the_ratio_of_medians() -> None:
    runs = {
        "off": [answer_figures(50), answer_figures(5), answer_figures(5.5)],
        "1": [answer_figures(100), answer_figures(10), answer_figures(11)],
    }
    row = row_of("1", runs)
    assert (row.tokens_per_second, row.ratio) == (11, 2.0)


def test_another_text_of_ours_has_no_speed_and_a_peers_has() -> None:
    other = answer_figures(10, (7, 8, 1), equal=2)
    runs = {
        "off": [answer_figures(5)] * 2,
        "1": [answer_figures(10), other],
        "peer": [other, other],
    }
    ours, peer = row_of("1", runs, "peer"), row_of("peer", runs, "peer")
    assert (ours.is_same, ours.equal_tokens, ours.tokens_per_second) == (False, 2, None)
    assert (peer.is_same, peer.equal_tokens, peer.reference_tokens) == (False, 2, 3)
    assert peer.tokens_per_second == 10


@pytest.mark.parametrize("tokens", [(7, 8), (7, 8, 9, 9)])
def test_a_text_that_ends_elsewhere_is_another(tokens: tuple[int, ...]) -> None:
    assert not answer_figures(5, tokens, equal=min(3, len(tokens))).is_same


def test_a_total_is_of_sums_over_kinds() -> None:
    slow, fast = answer_figures(10), answer_figures(30)
    kinds = [
        {"off": [slow], "1": [replace(fast, later_s=2.0)], "peer": [slow]},
        {"off": [fast], "1": [fast]},  # a peer that failed
    ]
    off, one = figures_by_arm(sum_over_kinds(kinds))
    assert (off.tokens, off.tokens_per_second, off.wall_s) == (6, 20.0, 3.0)
    assert (one.tokens_per_second, one.ratio) == (20.0, 1.0)
    assert (one.equal_tokens, one.reference_tokens) == (6, 6)


def test_an_answer_of_one_round_has_no_speed_but_a_row() -> None:
    short = AnswerFigures(5, (7,), 1, 0, 0, 1, 0.5, 0.5, 0, 0.0, equal=1, reference=1)
    row = row_of("off", {"off": [short]})
    assert (row.tokens_per_second, row.ratio, row.cpu_ms, row.wall_s) == (None, None, None, 0.5)


def test_turns_alternate_who_is_first() -> None:
    arms = ["a", "b", "c"]
    assert "".join(arms_in_turns(arms, 3)) == "abccbaabc"
    turns = arms_in_turns(arms, 2)
    seen = [next(turns), next(turns)]
    arms.remove("b")
    assert [*seen, *turns] == ["a", "b", "c", "c", "a"]
