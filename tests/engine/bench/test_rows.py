"""Rows of figures from answers whose numbers are known beforehand."""

from dataclasses import replace

import pytest

from mlx_engine.bench.report import Row
from mlx_engine.bench.runs import Answers, Run, agreement, in_turns, shares, total_rows
from mlx_engine.values.errors import Reason
from mlx_engine.values.stats import RoundStats

PARKED = Reason("parked-cost", "Too dear here.")
TEXT = (7, 8, 9)


def round_of(drafted: int, accepted: int, why: Reason | None = None) -> RoundStats:
    """2 ms a draft, 5 ms a pass, 1 ms of the host."""
    return RoundStats(0, drafted, drafted, accepted, accepted + 1, 2.0 * drafted, 5.0, 1.0, why=why)


def run(speed: float, tokens: tuple[int, ...] = TEXT) -> Run:
    """`speed` tokens a second behind the first round, in one second."""
    return Run(tokens, len(tokens), 0, 0, len(tokens), 0.5, 1.5, int(speed), 1.0)


def row_of(arm: str, answers: Answers) -> Row:
    return next(row for row in answers.rows().rows if row.arm == arm)


def test_a_row_sums_its_rounds() -> None:
    rounds = (round_of(2, 2), round_of(2, 0), round_of(0, 0, PARKED), round_of(2, 1))
    answer = Run(TEXT, 7, 6, 3, 4, 0.5, 1.5, 4, 0.1, cpu_s=0.02, rounds=rounds)
    row = row_of("auto", Answers("kind", 5, TEXT, frozenset(), {"auto": [answer]}))
    assert (row.tokens, row.passes, row.tokens_per_pass, row.rate) == (7, 4, 1.75, 0.5)
    assert shares(row.accepted_by_depth, row.drafted_by_depth) == (2 / 3, 1 / 3)
    assert row.depths == {0: 1, 2: 3}
    assert row.why == PARKED
    assert row.speed is not None
    assert row.speed.tokens_per_second == pytest.approx(40)
    assert (row.speed.draft_ms, row.speed.verify_ms, row.speed.host_ms) == (3.0, 5.0, 1.0)
    assert row.speed.cpu_ms == 5.0
    assert row.speed.wall_s == 1.5
    assert row.speed.ratio is None  # nobody drafted nothing beside it


def test_ratio_is_the_median_of_turns_not_the_ratio_of_medians() -> None:
    runs = {"off": [run(50), run(5), run(5.5)], "1": [run(100), run(10), run(11)]}
    row = row_of("1", Answers("kind", 5, TEXT, frozenset(), runs))
    assert row.speed is not None
    assert (row.speed.tokens_per_second, row.speed.ratio) == (11, 2.0)


def test_another_text_of_ours_has_no_speed_and_a_peers_has() -> None:
    other = run(10, (7, 8, 1))
    runs = {"off": [run(5)], "1": [run(10), other], "peer": [other]}
    answers = Answers("kind", 5, TEXT, frozenset({"peer"}), runs)
    ours, peer = row_of("1", answers), row_of("peer", answers)
    assert (ours.is_same, ours.equal_tokens, ours.speed) == (False, 2, None)
    assert (peer.is_same, peer.equal_tokens, peer.reference_tokens) == (False, 2, 3)
    assert peer.speed is not None
    assert agreement([answers.rows()]).difference == "kind, 1: token 2 differs"


def test_agreement_counts_what_could_differ() -> None:
    runs = {"off": [run(5)], "1": [run(9)], "2": [run(9)], "peer": [run(9, (1,))]}
    found = agreement([Answers("kind", 5, TEXT, frozenset({"peer"}), runs).rows()])
    assert (found.is_green, found.texts, found.tokens) == (True, 2, 6)


def test_a_total_is_of_sums_over_kinds_that_all_have_answered() -> None:
    slow, fast = run(10), run(30)
    two = Answers("a", 5, TEXT, frozenset(), {"off": [slow], "1": [replace(fast, later_s=2.0)]})
    three = Answers("b", 5, TEXT, frozenset(), {"off": [fast], "1": [fast]})
    stopped = Answers("c", 5, TEXT, frozenset(), {"off": [fast], "1": []})
    off, one = total_rows([two, three, stopped])
    assert off.speed is not None
    assert one.speed is not None
    assert (off.tokens, off.speed.tokens_per_second, off.speed.wall_s) == (6, 20.0, 3.0)
    assert (one.speed.tokens_per_second, one.speed.ratio) == (20.0, 1.0)
    assert (one.equal_tokens, one.reference_tokens) == (6, 6)
    assert total_rows([stopped]) == ()


def test_an_answer_of_one_round_has_no_speed_but_a_row() -> None:
    short = Run((7,), 1, 0, 0, 1, 0.5, 0.5, 0, 0.0)
    row = row_of("off", Answers("kind", 5, (7,), frozenset(), {"off": [short]}))
    assert row.speed is not None
    assert (row.speed.tokens_per_second, row.speed.ratio, row.speed.cpu_ms) == (None, None, None)


def test_how_fast_a_prompt_was_read() -> None:
    runs = {"without": [run(1)], "with": [replace(run(1), first_s=1.0)]}
    without, with_heads = Answers("prompt", 100, (), frozenset(), runs).prompt_rows()
    assert (without.tokens_per_second, without.ratio) == (200, 1)
    assert (with_heads.tokens_per_second, with_heads.ratio) == (100, 0.5)


def test_turns_alternate_who_is_first() -> None:
    arms = ["a", "b", "c"]
    assert "".join(in_turns(arms, 3)) == "abccbaabc"
    assert "".join(in_turns(arms, 2, is_backwards=True)) == "cbaabc"
    turns = in_turns(arms, 2)
    seen = [next(turns), next(turns)]
    arms.remove("b")
    assert [*seen, *turns] == ["a", "b", "c", "c", "a"]


def test_shares_by_depth() -> None:
    assert shares((6, 3), (8, 6, 4)) == (0.75, 0.5, 0.0)
    assert shares((), ()) == ()
