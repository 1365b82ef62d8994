"""The automatic depth against brute force, and in long texts against plain and fixed depths."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_engine.drafting.depth.acceptance import FIRST_GUESS, Acceptance
from mlx_engine.drafting.depth.adaptive import (
    BESIDE,
    LOSS,
    MOST_OWED,
    PROBE_EVERY,
    WORTH_IT,
    AdaptiveDepth,
    Choice,
    Findings,
)
from mlx_engine.drafting.depth.choice import Learned, Room, RoundPlan
from mlx_engine.drafting.depth.costs import Others, PassCosts
from mlx_engine.drafting.drafter import DEEPEST, Offer

ROWS = np.arange(9)
MACHINES = {
    "flat": PassCosts(tuple(10 * (1 + 0.03 * ROWS)), 1.0),
    "mild": PassCosts(tuple(10 * (1 + 0.15 * ROWS)), 1.0),
    "steep": PassCosts(tuple(10 * (1 + 0.45 * ROWS)), 1.2),
    "linear": PassCosts(tuple(10 * (1 + 0.8 * ROWS)), 1.5),
    "cliff": PassCosts((10, 11, 12, 18, 19, 20, 21, 22, 23), 0.8),
    "dear head": PassCosts(tuple(10 * (1 + 0.05 * ROWS)), 5.0),
    "hopeless": PassCosts(tuple(10 * (1 + ROWS)), 2.0),
}
NEVER_PAYS = MACHINES["hopeless"]


def round_ms(costs, depth):
    return costs.verify_ms[depth] + depth * costs.draft_ms


def tokens_a_round(chances, depth):
    """1 + a1 + a1 a2 + ..., float64."""
    return 1 + np.cumprod(np.array(chances[:depth], dtype=np.float64)).sum()


def taught(costs, chances, limit=8, rounds=3000, seed=0):
    """A length that has seen many rounds of 8 drafts with these chances, and a few plain ones."""
    length, draw = AdaptiveDepth(costs, limit), np.random.default_rng(seed)
    for _ in range(rounds):
        length.learn(8, stood(chances, 8, draw), round_ms(costs, 8))
    for _ in range(5):
        length.learn(0, 0, round_ms(costs, 0))
    return length


def stood(chances, depth, draw):
    count = 0
    while count < depth and draw.random() < chances[count]:
        count += 1
    return count


def falling(first, ratio):
    return [first * ratio**n for n in range(8)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("chances", [falling(a, r) for a in (0.2, 0.6, 0.95) for r in (1, 0.8)])
def test_the_best_depth_by_brute_force(machine, chances):
    """With the acceptance it believes in, no depth promises more, and it is about right."""
    costs = MACHINES[machine]
    length = taught(costs, chances, rounds=800)
    believed = length.acceptance.by_depth()
    rates = [
        tokens_a_round(believed, k) * round_ms(costs, 0) / round_ms(costs, k) for k in range(9)
    ]
    best = int(np.argmax(rates)) if max(rates) >= WORTH_IT else 0
    assert length.best() == best
    length.asked_anew()
    assert length.next().depth == best or best == 0
    assert abs(believed[0] - chances[0]) < 0.3


@given(
    costs=st.lists(st.floats(1, 40), min_size=9, max_size=9),
    head=st.floats(0, 10),
    limit=st.integers(0, 8),
    rounds=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), max_size=60),
)
def test_whatever_happens_the_choice_is_possible_and_explained(costs, head, limit, rounds):
    length = AdaptiveDepth(PassCosts(tuple(costs), head), limit)
    for drafted, accepted in rounds:
        choice = length.next()
        assert 0 <= choice.depth <= limit
        assert (choice.why is None) == (choice.depth > 0)
        length.learn(drafted, min(drafted, accepted), costs[0] * drafted)
        assert all(0 <= chance <= 1 for chance in length.acceptance.by_depth())


def test_fewer_costs_than_depths_limit_the_draft():
    length = AdaptiveDepth(PassCosts((10.0, 10.0, 10.0), 0.0), 8)
    assert length.next().depth == 2


@pytest.mark.parametrize("limit", range(1, 9))
def test_free_drafts_go_as_deep_as_allowed(limit):
    assert AdaptiveDepth(PassCosts((10.0,) * 9, 0.0), limit).next().depth == limit


def test_parked_because_no_draft_can_pay():
    length = AdaptiveDepth(NEVER_PAYS, 8)
    choices = [length.next() for _ in range(200)]
    assert {choice.depth for choice in choices} == {0}
    assert {choice.why.code for choice in choices} == {"parked-cost"}
    assert "2.20" in choices[0].why.words


def test_parked_because_drafts_fall_and_back_when_they_stand():
    length = AdaptiveDepth(MACHINES["mild"], 8)
    assert length.next().depth > 0
    while (choice := length.next()).why is None or choice.why.code == "measuring-plain":
        length.learn(min(choice.depth, 1), 0, 12.5 if choice.depth else 10.0)
    why = choice.why
    assert why.code == "parked-acceptance"
    assert "%" in why.words
    rests, drafts = [], 0
    while drafts < 40:
        rest = 0
        while length.next().depth == 0:
            length.learn(0, 0, 10.0)
            rest += 1
        rests.append(rest)
        length.learn(1, 1, 12.5)
        drafts += 1
    assert PROBE_EVERY - 2 <= rests[0] <= 3 * PROBE_EVERY
    assert set(rests[1:]) == {0}
    assert length.next().depth == 8


def test_probes_that_fail_are_rare_where_they_are_dear():
    for machine in ("mild", "steep", "linear"):
        costs = MACHINES[machine]
        length, probes, rounds = AdaptiveDepth(costs, 8), 0, 5000
        for _ in range(rounds):
            depth = length.next().depth
            length.learn(depth, 0, round_ms(costs, depth))
            probes += depth > 0
        lost = probes * (round_ms(costs, 1) / round_ms(costs, 0) - 1) / rounds
        assert probes > 5
        assert lost < 0.015


def test_a_look_after_a_rest_waits_until_its_reading_can_be_paid():
    """Drafts at a depth of the user's have lost much: a hundredth of the time pays that first."""
    length, costs = AdaptiveDepth(MACHINES["mild"], 8), MACHINES["mild"]
    for _ in range(10):
        length.learn(8, 0, round_ms(costs, 8))
    rounds = 0
    while not length.next().depth:
        length.learn(0, 0, 10.0)
        rounds += 1
    assert LOSS * rounds == pytest.approx(MOST_OWED + 0.25 + length.costs.reading(16), rel=0.05)


def test_acceptance_is_a_running_mean_of_what_was_reached():
    acceptance = Acceptance()
    assert acceptance.by_depth() == [pytest.approx(FIRST_GUESS)] * DEEPEST
    for _ in range(200):
        acceptance.add(4, 2)
    first, second, third, *deeper = acceptance.by_depth()
    assert min(first, second) > 0.99
    assert third < 0.15
    assert max(deeper) <= third, "what is not known is as good as what comes before"
    expected = acceptance.expected()
    assert expected[:3] == [1.0, 1 + first, pytest.approx(1 + first + first * second)]
    assert len(expected) == DEEPEST + 1
    for _ in range(600):
        acceptance.add(2, 2)
    assert acceptance.by_depth()[2] > 0.9, "what was learnt long ago is forgotten"
    assert acceptance.expected()[3] > 3.5


def test_depths_that_no_round_reaches_are_remembered_for_long():
    """They are known by few rounds as it is; those reached fade as rounds go by."""
    acceptance = Acceptance()
    for _ in range(60):
        acceptance.add(3, 2)
    for _ in range(25):
        acceptance.add(2, 2)
    assert acceptance.by_depth()[2] < 0.3
    for _ in range(25):
        acceptance.add(3, 3)
    assert acceptance.by_depth()[2] > 0.7


def test_a_draft_after_a_long_rest_sets_no_cost_alone():
    """Its source had much to read first; another one behind it tells."""
    length, costs = AdaptiveDepth(MACHINES["mild"], 8), MACHINES["mild"]
    for _ in range(100):
        length.learn(0, 0, 10.0)
    before = length.costs.at(1)
    length.learn(1, 0, 18.0)
    assert length.costs.at(1) == pytest.approx(before)
    assert length.next().depth > 0
    length.learn(1, 0, round_ms(costs, 1) + 1)
    assert length.costs.at(1) > before


def test_the_choice_may_run_a_round_ahead_of_what_it_learns():
    """One probe, not two, while it is not yet known what became of the first."""
    length, costs = AdaptiveDepth(MACHINES["mild"], 8), MACHINES["mild"]
    for _ in range(60):
        length.learn(1, 0, round_ms(costs, 1))
    while not length.next().depth:
        length.learn(0, 0, 10.0)
    assert length.next().depth == 0
    length.learn(1, 0, round_ms(costs, 1))
    assert length.next().depth == 0


def test_a_probe_that_gained_is_followed_by_another():
    """A parked chat rests after drafts that lose, and only after those."""
    length, costs = AdaptiveDepth(MACHINES["mild"], 8), MACHINES["mild"]
    for _ in range(40):
        length.learn(1, 0, round_ms(costs, 1))
        length.learn(0, 0, round_ms(costs, 0))
    while not length.next().depth:
        length.learn(0, 0, round_ms(costs, 0))
    length.learn(1, 1, round_ms(costs, 1))
    assert not length.best(), "one success proves little"
    assert length.next().depth == 1
    length.learn(1, 0, round_ms(costs, 1))
    assert not length.next().depth


def test_drafting_that_lost_must_promise_more():
    """Of what is believed to pay by a little, nothing is drafted that has lost before."""
    chances, costs = [0.42] + [0.0] * 7, MACHINES["mild"]
    believed, doubted = (taught(costs, chances) for _ in range(2))
    believed.asked_anew()
    assert believed.best() == doubted.best() == 1
    assert believed.next().depth == 1
    assert doubted.next().depth == 0


def test_an_unplayed_depth_is_no_bargain_by_assumption():
    """It was measured to be cheaper than a shallower one: rounds of that one know better."""
    costs = PassCosts((10.0, 12.0, 13.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0), 0.0)
    length = AdaptiveDepth(costs, 8)
    for _ in range(20):
        length.learn(0, 0, 10.0)
        length.learn(2, 0, 26.0)
    gains = length.gains(1.0)
    assert max(gains[3:]) <= 9 * 10 / 24
    assert min(length.costs.at(depth) for depth in range(3, 9)) >= length.costs.at(2)


@pytest.mark.parametrize(("host", "speed"), [(5.0, 1.0), (0.0, 2.0), (3.0, 1.5)])
def test_depths_that_were_not_run_cost_what_their_passes_take_longer(host, speed):
    """A line through rounds of two depths: what the host takes, and how slow the machine is."""
    costs = MACHINES["steep"]
    length = AdaptiveDepth(costs, 8)
    for _ in range(20):
        length.learn(0, 0, host + speed * round_ms(costs, 0))
        length.learn(2, 2, host + speed * round_ms(costs, 2))
    for depth in (1, 3, 4, 8):
        expected = host + speed * round_ms(costs, depth)
        assert length.costs.at(depth) == pytest.approx(expected, rel=0.05)


def test_of_plain_rounds_alone_it_is_taken_that_the_host_makes_them_longer():
    costs = MACHINES["steep"]
    length = AdaptiveDepth(costs, 8)
    for _ in range(20):
        length.learn(0, 0, 15.0)
    assert length.costs.at(4) == pytest.approx(15 - 10 + round_ms(costs, 4), rel=0.02)


@pytest.mark.parametrize(("drafted_ms", "soonest", "latest"), [(18.5, 6, 20), (11.0, 40, 50)])
def test_a_conversation_soon_measures_its_own_plain_rounds_where_drafts_gain_little(
    drafted_ms, soonest, latest
):
    """Those before it have, but perhaps behind a shorter context."""
    costs, known = PassCosts((10.0, drafted_ms), 0.0), Findings()
    for least in (60, 0):
        length, depths = AdaptiveDepth(costs, 1, known), []
        while len(depths) < least or depths[-1:] != [0]:  # the next one's count begins anew
            depths.append(length.next().depth)
            length.learn(depths[-1], depths[-1], drafted_ms if depths[-1] else 10.0)
    assert soonest <= len(depths) - 1 <= latest


def test_what_is_only_assumed_to_pay_is_tried_when_its_loss_can_be_paid():
    """Eight drafts promise 1.2 of plain decoding and may lose four tokens: too much at first."""
    length = AdaptiveDepth(PassCosts((10.0, *[49.0] * 8), 0.0), 8)
    assert length.best() == 8
    rounds = 0
    while not length.next().depth:
        length.learn(0, 0, 10.0)
        rounds += 1
    assert 100 <= rounds <= 500
    length.learn(1, 0, 49.0)
    assert length.next().depth == 0


def test_a_first_draft_that_falls_is_followed_by_another():
    """One unlucky token at the beginning proves little: what may be lost is not staked on it."""
    costs = PassCosts((10.0, 16.0, 19.0, 22.0, 27.0, 32.0, 37.0, 42.0, 47.0), 1.0)
    length = AdaptiveDepth(costs, 8)
    first = length.next().depth
    assert 0 < first < length.best()
    length.learn(first, 0, round_ms(costs, first))
    rounds = 0
    while not length.next().depth:
        length.learn(0, 0, 10.0)
        rounds += 1
    assert rounds <= 2 * PROBE_EVERY


def test_who_has_gained_looks_again_soon():
    """A hard passage of a text that is easy to draft: what was gained pays for drafts that ask."""
    rests = []
    costs = MACHINES["steep"]
    for easy in (100, 0):
        length = AdaptiveDepth(costs, 8)
        for drafted in [2] * easy + [1] * 8:
            length.learn(drafted, drafted if drafted == 2 else 0, round_ms(costs, drafted))
        while length.next().depth:
            length.learn(1, 0, round_ms(costs, 1))
        length.learn(0, 0, 10.0)
        rests.append(1)
        while not length.next().depth:
            length.learn(0, 0, 10.0)
            rests[-1] += 1
    assert rests[0] <= PROBE_EVERY + 2
    assert rests[1] > 10 * PROBE_EVERY


def test_a_text_may_lose_what_is_left_by_the_one_before():
    """Short ones may not each lose as much as a long one may to begin with."""
    known, costs = Findings(), MACHINES["steep"]
    left = []
    for _ in range(3):
        length = AdaptiveDepth(costs, 8, known)
        left.append(length._purse.left)
        length.learn(2, 0, round_ms(costs, 2))
    assert left[0] > left[1] > left[2]
    for _ in range(50):
        length.learn(2, 2, round_ms(costs, 2))
    assert AdaptiveDepth(costs, 8, known)._purse.left == left[0]


def test_parked_for_its_cost_it_comes_back_when_plain_rounds_are_as_slow():
    """Another program had slowed all that was run since the last plain round."""
    costs, rounds = MACHINES["mild"], []
    for slower in (4, 1):
        length = AdaptiveDepth(costs, 8)
        for _ in range(40):
            length.learn(0, 0, round_ms(costs, 0))
        for depth in [*range(1, 9)] * 20:
            length.learn(depth, depth, 4 * round_ms(costs, depth))
        assert length.next().why.code == "parked-cost"
        rounds.append(1)
        while not length.next().depth:
            length.learn(0, 0, slower * round_ms(costs, 0))
            rounds[-1] += 1
    assert rounds[0] < 100
    assert rounds[1] > 1000


def test_where_drafts_stay_dear_after_rests_it_hardly_looks_any_more():
    length, rests = AdaptiveDepth(NEVER_PAYS, 8), []
    for number in range(4):
        rests.append(0)
        while not length.next().depth:
            length.learn(0, 0, 10.0)
            rests[number] += 1
        length.learn(1, 1, round_ms(NEVER_PAYS, 1) + 6)
    assert rests[:3] == [256] * 3
    assert rests[3] == 1500


@dataclass(frozen=True)
class Phase:
    chances: list[float]
    tokens: int = 700


TEXTS = {
    "never": [Phase([0.0] * 8, 1500)],
    "seldom": [Phase([0.3] * 8, 1500)],
    "half": [Phase([0.5] * 8, 1500)],
    "mostly": [Phase([0.8] * 8, 1500)],
    "always": [Phase([1.0] * 8, 1500)],
    "falling": [Phase(falling(0.85, 0.85), 1500)],
    "first only": [Phase([0.9] + [0.1] * 7, 1500)],
    "good bad good": [Phase([0.9] * 8), Phase([0.0] * 8), Phase([0.9] * 8)],
    "bad good bad": [Phase([0.1] * 8), Phase([0.9] * 8), Phase([0.1] * 8)],
    "gets deeper": [Phase([0.9] + [0.1] * 7), Phase([0.9] * 8)],
    "gets shallower": [Phase([0.95] * 8), Phase([0.9] + [0.1] * 7)],
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("text", TEXTS)
def test_long_texts_are_near_the_best_fixed_depth_and_never_slow(machine, text):
    """Expected time: each phase's tokens by its own acceptance, over three texts."""
    costs, phases = MACHINES[machine], TEXTS[text]
    spent = plain = 0.0
    fixed = np.zeros(9)
    for seed in range(3):
        length, draw = AdaptiveDepth(costs, 8), np.random.default_rng(seed)
        for phase in phases:
            told = 0.0
            while told < phase.tokens:
                depth = length.next().depth
                right = stood(phase.chances, depth, draw)
                length.learn(depth, right, round_ms(costs, depth))
                spent += round_ms(costs, depth)
                told += right + 1
            plain += told * round_ms(costs, 0)
            fixed += [
                told / tokens_a_round(phase.chances, k) * round_ms(costs, k) for k in range(9)
            ]
    assert spent <= 1.03 * plain
    assert spent <= 1.10 * fixed.min()


@pytest.mark.parametrize("truth", ["mild", "steep", "hopeless", "dear head"])
@pytest.mark.parametrize("measured", ["flat", "linear", "hopeless"])
def test_costs_measured_in_a_bad_moment_are_corrected(truth, measured):
    """Loading measured another machine, and a busy one; rounds really played put it right."""
    costs, busy = MACHINES[truth], MACHINES[measured]
    length = AdaptiveDepth(PassCosts(tuple(2.5 * ms for ms in busy.verify_ms), busy.draft_ms), 8)
    draw, chances = np.random.default_rng(1), [0.6] * 8
    spent = told = 0.0
    for _ in range(4000):
        depth = length.next().depth
        right = stood(chances, depth, draw)
        length.learn(depth, right, round_ms(costs, depth) * draw.uniform(0.8, 1.25))
        spent += round_ms(costs, depth)
        told += right + 1
    plain = told * round_ms(costs, 0)
    best = min(told / tokens_a_round(chances, k) * round_ms(costs, k) for k in range(9))
    assert spent <= 1.03 * plain
    assert spent <= 1.12 * best


@pytest.mark.parametrize(("costs", "fewest", "most"), [("flat", 3, 6), ("steep", 4, 6)])
def test_a_plain_round_now_and_then_says_why(costs, fewest, most):
    """A few to begin with; then the rarer, the more each of them loses."""
    length, machine = AdaptiveDepth(MACHINES[costs], 8), MACHINES[costs]
    plain = []
    for n in range(1000):
        choice = length.next()
        if choice.depth == 0:
            assert choice.why.code == "measuring-plain"
            plain.append(n)
        length.learn(choice.depth, choice.depth, round_ms(machine, choice.depth))
    assert plain[:2] == [6, 13]
    assert fewest <= len(plain) <= most


def test_a_round_at_a_seam_has_the_time_of_another_and_costs_the_draft_what_it_took_longer():
    costs, plain = MACHINES["mild"], round_ms(MACHINES["mild"], 0)
    length, other = AdaptiveDepth(costs, 8), AdaptiveDepth(costs, 8)
    for its in (length, other):
        for _ in range(20):
            its.learn(1, 0, round_ms(costs, 1))
        for _ in range(300):
            its.learn(0, 0, plain)
        its.learn(1, 0, round_ms(costs, 1))
        assert its.next().depth == 0
    before = length.costs.at(0)
    length.learn_seam(1.4 * plain)
    other.learn_seam(plain)
    assert length.costs.at(0) == before, "whatever it took"
    assert length._purse.left < other._purse.left - 0.35
    left = length._purse.left
    length.learn_seam(1.4 * plain)
    assert length._purse.left > left, "not one that follows no draft"
    length.learn(1, 0, round_ms(costs, 1))
    length.begin_text()
    left = length._purse.left
    length.learn_seam(1.4 * plain)
    assert length._purse.left > left, "nor the first of another text"
    rests = [0, 0]
    for n, its in enumerate((length, other)):
        while not its.next().depth:
            its.learn(0, 0, plain)
            rests[n] += 1
    assert rests[0] > rests[1] + 40, "the next draft comes later"
    left = length._purse.left
    length.learn(1, 0, round_ms(costs, 1))
    length.learn_seam(1e6)
    assert length._purse.left > left - 3, "nor is another program's time a loss of drafts"


def test_a_spike_is_not_a_cost():
    length, costs = AdaptiveDepth(MACHINES["mild"], 8), MACHINES["mild"]
    for _ in range(5):
        length.learn(0, 0, round_ms(costs, 0))
        length.learn(3, 3, round_ms(costs, 3))
    before = length.gains()
    length.learn(3, 3, 125_000.0)
    once = length.gains()
    assert 0.9 * before[3] < once[3] < before[3]
    length.learn(0, 0, 40.0)
    assert length.gains()[3] < 1.1 * once[3], "nor does one make drafts look better"
    for _ in range(8):
        length.learn(3, 3, 3 * round_ms(costs, 3))
        length.learn(0, 0, round_ms(costs, 0))
    assert length.gains()[3] < 0.6 * before[3], "what lasts is"


def test_two_spikes_in_a_row_are_no_cost_of_what_is_well_known():
    length, costs = AdaptiveDepth(MACHINES["mild"], 8), MACHINES["mild"]
    for _ in range(6):
        length.learn(0, 0, round_ms(costs, 0))
    before = length.costs.at(0)
    for _ in range(2):
        length.learn(0, 0, 20 * round_ms(costs, 0))
    assert length.costs.at(0) < 1.3 * before


def test_a_spike_while_the_source_reads_what_has_waited_parks_nobody_for_long():
    """What reading takes is known from the looks before; one that took much longer is no loss."""
    costs, rests = MACHINES["mild"], []
    for spike in (1, 8):
        length = AdaptiveDepth(costs, 8)
        for took in [14.0] * 6 + [spike * 14.0]:
            for _ in range(20):
                length.learn(0, 0, 10.0)
            length.learn(1, 0, took)
        reading = length.costs.reading(16)
        rests.append(0)
        while not length.next().depth:
            length.learn(0, 0, 10.0)
            rests[-1] += 1
    assert rests[1] < rests[0] + 5 * PROBE_EVERY
    assert reading < 0.4


@pytest.mark.parametrize("now", [2.0, 0.5])
def test_a_machine_that_becomes_slower_or_faster_does_so_for_all_depths(now):
    """What drafting gains is not told from rounds of two different speeds, for most of it."""
    length, costs = AdaptiveDepth(MACHINES["mild"], 8), MACHINES["mild"]
    for _ in range(20):
        length.learn(0, 0, round_ms(costs, 0))
        length.learn(3, 3, round_ms(costs, 3))
    before, plain = length.gains()[3], length.costs.at(0)
    for _ in range(40):
        length.learn(3, 3, now * round_ms(costs, 3))
    assert length.gains()[3] == pytest.approx(before, rel=0.4)
    assert length.costs.at(0) == pytest.approx(now * plain, rel=0.4)


def test_a_depth_run_while_the_machine_was_slow_is_not_dear_for_ever():
    """Nobody would run it again to find out, since others seem better."""
    costs, length = MACHINES["mild"], AdaptiveDepth(MACHINES["mild"], 8)
    for _ in range(30):
        length.learn(8, 8, 1.4 * round_ms(costs, 8))
    slow = length.costs.at(8)
    for turn in range(150):
        depth = 4 if turn % 30 else 0
        length.learn(depth, depth, round_ms(costs, depth))
    usual = round_ms(costs, 8)
    assert length.costs.at(8) < 1.1 * usual < 1.3 * usual < slow


def test_a_guess_is_not_told_as_a_measurement():
    """Parked before any draft was made: costs are such that only perfect drafts would pay."""
    length = AdaptiveDepth(PassCosts((10.0, 19.3), 0.0), 1)
    assert "expected to be accepted" in length.next().why.words
    length.learn(1, 0, 19.3)
    assert "expected" not in length.next().why.words


@pytest.mark.parametrize("chances", [falling(a, 0.9) for a in (0.3, 0.6, 0.9)])
def test_who_shares_a_pass_drafts_as_would_pay_if_all_drafted_alike(chances):
    """By brute force: a pass of all their rows, and everyone's drafts, for everyone's tokens."""
    costs = MACHINES["mild"]
    length = taught(costs, chances, rounds=800)
    believed = length.acceptance.by_depth()
    depths = []
    for others in (0, 1, 2, 7):
        length.share(others)
        speeds = [
            (others + 1)
            * tokens_a_round(believed, k)
            / (costs.pass_ms((others + 1) * (k + 1)) + k * costs.draft_ms * (1 + 0.15 * others))
            for k in range(9)
        ]
        if others:
            best = int(np.argmax(speeds))
            assert length.best() == (best if speeds[best] >= WORTH_IT * speeds[0] else 0)
        depths.append(length.best())
    assert depths == sorted(depths, reverse=True)
    length.share(40)
    assert not length.best()


LINE = PassCosts(tuple(4.0 + 2.0 * row for row in range(9)), 0.0)


@pytest.mark.parametrize("drafted", [0, 3])
def test_a_row_in_a_pass_of_others_is_judged_by_what_it_adds(drafted):
    """By brute force, with the others' rows as they were in the latest pass."""
    length = AdaptiveDepth(LINE, 8)
    for _ in range(100):
        length.learn(8, 4, LINE.round_ms(8))
        length.learn(0, 0, LINE.round_ms(0))
    length.share(2)
    beside = Others(2, 2 * (drafted + 1))
    for _ in range(30):
        length.learn(0, 0, LINE.pass_ms(1 + beside.rows), beside)
    believed = length.acceptance.by_depth()
    theirs = 2 * tokens_a_round(believed, drafted)
    rates = [
        (theirs + tokens_a_round(believed, k)) / LINE.pass_ms(1 + k + beside.rows) for k in range(9)
    ]
    best = int(np.argmax(rates))
    assert best > 0
    assert length.best() == best
    assert length.costs.at(0) == pytest.approx(LINE.pass_ms(3))


def test_who_is_parked_beside_others_only_says_so():
    length = taught(MACHINES["mild"], falling(0.6, 0.9))
    assert length.next().depth
    length.share(15)
    while (choice := length.next()).depth:
        length.learn(1, 0, 60.0, Others(15, 30))
    assert choice == Choice(0, BESIDE)


def test_what_others_rows_take_is_not_learned_as_ones_own():
    learned = Learned(lambda: MACHINES["mild"])
    learned.share(Room(2, 1))
    plan = RoundPlan((Offer("mtp"),), learned, "auto", None)
    assert plan.next().depth <= 1
    verify = MACHINES["mild"].verify_ms
    for _ in range(40):
        plan.learn(0, 0, verify[4] + 1.15, Others(2, 4))  # they have drafted a token each
    assert learned.of("mtp").costs.at(0) == pytest.approx(verify[2])
    learned.share(Room())
    assert learned.of("mtp").costs.at(0) == pytest.approx(verify[0])
    learned.share(Room(8, 0))
    assert plan.next() == Choice(0, BESIDE, by="mtp")


def test_a_text_begins_with_what_the_texts_before_it_have_shown():
    """Two unlucky drafts prove little where drafts have long been accepted, and none is made where
    they never were.
    """
    good, bad = Findings(), Findings()
    costs = MACHINES["steep"]
    for known, accepted in ((good, 3), (bad, 0)):
        for _ in range(4):
            length = AdaptiveDepth(costs, 8, known)
            for _ in range(20):
                length.learn(3, accepted, round_ms(costs, 3))
                length.learn(0, 0, round_ms(costs, 0))
    fresh, hopeful, warned = (AdaptiveDepth(costs, 8, known) for known in (None, good, bad))
    for length in (fresh, hopeful):
        for _ in range(2):
            length.learn(3, 0, round_ms(costs, 3))
    assert hopeful.next().depth
    assert not fresh.next().depth
    assert not warned.next().depth
    assert warned.acceptance.by_depth()[0] < 0.1
