"""The depth policy: the best depth by brute force, what may be lost, and who drafts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_engine.drafting.contract import DEEPEST, BatchLimits, DraftChoice, DraftOffer
from mlx_engine.drafting.depth import (
    COOLDOWN,
    LOSS,
    MAX_KEPT,
    MEASURING,
    SHARED_PASS,
    WORTH_IT,
    DepthPolicy,
)
from mlx_engine.drafting.record import (
    FIRST_GUESS,
    FIRST_LOSS,
    NO_OTHERS,
    PRESUMED,
    Acceptance,
    ConcurrentChats,
    PassCosts,
)
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions

ROWS = np.arange(9)
MACHINES = {
    "flat": PassCosts(tuple(10 * (1 + 0.03 * ROWS)), 1.0),
    "mild": PassCosts(tuple(10 * (1 + 0.15 * ROWS)), 1.0),
    "steep": PassCosts(tuple(10 * (1 + 0.45 * ROWS)), 1.2),
    "linear": PassCosts(tuple(10 * (1 + 0.8 * ROWS)), 1.5),
    "cliff": PassCosts((10, 11, 12, 18, 19, 20, 21, 22, 23), 0.8),
    "dear head": PassCosts(tuple(10 * (1 + 0.05 * ROWS)), 5.0),
    "hopeless": PassCosts(tuple(10.0 * (1 + ROWS)), 2.0),
}
FLAT, MILD, STEEP, HOPELESS = (MACHINES[name] for name in ("flat", "mild", "steep", "hopeless"))
DEEP = PassCosts(tuple(10 + 0.3 * row for row in range(16)), 1.0)
MTP = DraftOffer("mtp")
NOTHING = Reason("no-match", "Nothing.")


def copy(chance, *, is_long=False, limit=8):
    return DraftOffer("prompt-lookup", chance, is_long, limit)


class Chat:
    """A chat whose rounds are told by a test; offers: what can draft in it."""

    def __init__(self, costs, *offers, depth="auto", records=None, share=0.0):
        table = costs if callable(costs) else lambda: costs
        self.policy = DepthPolicy(table, share, records)
        self.offers, self.depth = offers or (MTP,), depth
        self.mtp = self.policy.source_policy("mtp")

    def next(self):
        """The choice for the next round, as the loop of rounds asks for it."""
        return self.policy.plan_round(self.offers, self.depth, NOTHING)

    def first(self):
        """The choice for the first round that need not measure how long a plain one takes."""
        while (choice := self.next()).why is MEASURING:
            self.policy.learn_round(choice, 0, 0, self.policy.source_policy(choice.by).costs.ms[0])
        return choice

    def ran(self, depth, accepted, ms, times=1, others=NO_OTHERS):
        """Rounds of a depth, with rounds of the same depth beside them."""
        choice = DraftChoice(depth, None, by="mtp" if depth else None)
        for _ in range(times):
            self.policy._planned = choice
            self.policy.learn_round(choice, depth, accepted, ms, others)

    def run(self, rounds, cost, accepted=lambda depth: depth):
        """The depths of so many rounds as chosen; cost: milliseconds by depth."""
        depths = []
        for _ in range(rounds):
            choice = self.next()
            depths.append(choice.depth)
            self.policy.learn_round(
                choice, choice.depth, accepted(choice.depth), cost(choice.depth)
            )
        return depths

    def plain_until_a_draft(self, ms, most=5000):
        """How many plain rounds of so many milliseconds are run before the next draft."""
        rounds = 0
        while not (choice := self.next()).depth and rounds < most:
            self.policy.learn_round(choice, 0, 0, ms)
            rounds += 1
        return rounds


def tokens_a_round(chances, depth):
    """1 + a1 + a1 a2 + ..., float64."""
    return 1 + np.cumprod(np.array(chances[:depth], dtype=np.float64)).sum()


def stood(chances, depth, draw):
    count = 0
    while count < depth and draw.random() < chances[count]:
        count += 1
    return count


def taught(costs, chances, rounds=800):
    """A chat that has seen rounds of 8 drafts with these chances, and some plain ones."""
    chat, draw = Chat(costs), np.random.default_rng(0)
    for _ in range(rounds):
        chat.ran(8, stood(chances, 8, draw), costs.round_ms(8))
    chat.ran(0, 0, costs.round_ms(0), times=30)
    chat.policy.adopt_options(DraftOptions())
    return chat


def falling(first, ratio):
    return [first * ratio**n for n in range(8)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("chances", [falling(a, r) for a in (0.2, 0.6, 0.95) for r in (1, 0.8)])
def test_the_best_depth_by_brute_force(machine, chances):
    """With the acceptance it believes in, no depth promises more, and it is about right."""
    costs = MACHINES[machine]
    chat = taught(costs, chances)
    believed = chat.mtp.acceptance.chances
    rates = [tokens_a_round(believed, k) * costs.round_ms(0) / costs.round_ms(k) for k in range(9)]
    best = int(np.argmax(rates)) if max(rates) >= WORTH_IT else 0
    assert chat.mtp.best_depth() == best
    assert chat.next().depth == best or best == 0
    assert abs(believed[0] - chances[0]) < 0.3


@given(
    costs=st.lists(st.floats(1, 40), min_size=9, max_size=9),
    head=st.floats(0, 10),
    limit=st.integers(1, 8),
    rounds=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), max_size=60),
)
def test_whatever_happens_the_choice_is_possible_and_explained(costs, head, limit, rounds):
    chat = Chat(PassCosts(tuple(costs), head), DraftOffer("mtp", limit=limit))
    for drafted, accepted in rounds:
        choice = chat.next()
        assert 0 <= choice.depth <= limit
        assert (choice.why is None) == (choice.depth > 0)
        chat.policy.learn_round(choice, drafted, min(drafted, accepted), costs[0] * drafted)
        assert all(0 <= chance <= 1 for chance in chat.mtp.acceptance.chances)


def test_limits_of_the_table_and_of_the_source():
    assert Chat(PassCosts((10.0,) * 3, 0.0)).first().depth == 2
    for limit in (1, 5, 8):
        assert (
            Chat(PassCosts((10.0,) * 9, 0.0), DraftOffer("mtp", limit=limit)).first().depth == limit
        )


def test_acceptance_is_a_running_mean_of_what_was_reached():
    acceptance = Acceptance()
    assert acceptance.chances == [pytest.approx(FIRST_GUESS)] * DEEPEST
    for _ in range(200):
        acceptance.add_round(4, 2)
    first, second, third, *_ = acceptance.chances
    assert min(first, second) > 0.99
    assert third < 0.15
    assert acceptance.tokens[:3] == [1.0, 1 + first, pytest.approx(1 + first + first * second)]
    for _ in range(25):
        acceptance.add_round(2, 2)
    assert acceptance.chances[2] < 0.3, "depths that are not reached are remembered for long"
    for _ in range(600):
        acceptance.add_round(2, 2)
    assert acceptance.chances[2] > 0.6, "and forgotten at last"


def test_parked_because_no_draft_can_pay():
    choices = [(chat := Chat(HOPELESS)).next()] + [chat.next() for _ in range(200)]
    assert {choice.depth for choice in choices} == {0}
    assert {choice.why.code for choice in choices} == {"parked-cost"}
    assert "2.20" in choices[0].why.words
    assert chat.mtp.why_never() is not None
    assert Chat(MILD).mtp.why_never() is None


def test_where_no_draft_can_pay_it_is_hardly_tried():
    """Rounds of every depth take as long as is told; the table may have been wrong."""
    depths = Chat(HOPELESS).run(6000, HOPELESS.round_ms)
    tries = sum(depth > 0 for depth in depths)
    assert 1 <= tries <= 6000 / 300


def test_parked_because_drafts_fall_and_back_when_they_stand():
    chat = Chat(MILD)
    assert chat.first().depth > 0
    while (choice := chat.next()).depth or choice.why.code in ("measuring-plain", "parked-loss"):
        chat.policy.learn_round(choice, choice.depth, 0, MILD.round_ms(choice.depth))
    assert choice.why.code == "parked-acceptance"
    assert "%" in choice.why.words
    assert chat.plain_until_a_draft(10.0) >= COOLDOWN - 2
    depths = chat.run(300, MILD.round_ms)
    assert depths[-1] == 8


def test_parked_for_a_loss_though_guesses_are_right():
    """One slow draft has used up the loss budget: neither acceptance nor cost are the reason."""
    chat = Chat(MILD)
    assert chat.first().depth > 0
    chat.ran(1, 1, 11.5, times=20)
    chat.mtp.record.budget = -30.0
    assert chat.mtp.best_depth()
    assert chat.next().why.code == "parked-loss"
    assert "%" not in chat.next().why.words
    unsure = copy(0.01)
    why = Chat(MILD, unsure).next().why
    assert (why.code, "only 1% of first guesses" in why.words) == ("parked-acceptance", True)


def test_a_guess_is_not_told_as_a_measurement():
    """Parked before any draft was made: costs are such that only perfect drafts would pay."""
    chat = Chat(PassCosts((10.0, 19.3), 0.0))
    assert chat.next().depth == 1
    assert "expected to be right" in chat.next().why.words, "it is not known what became of it"
    chat.ran(1, 0, 19.3)
    assert "expected" not in chat.next().why.words


@pytest.mark.parametrize("machine", ["mild", "steep", "linear"])
def test_tries_that_fail_lose_little(machine):
    costs = MACHINES[machine]
    depths = Chat(costs).run(5000, costs.round_ms, lambda depth: 0)
    lost = sum(costs.round_ms(depth) / costs.round_ms(0) - 1 for depth in depths) / len(depths)
    assert sum(depth > 0 for depth in depths) > 5
    assert lost < LOSS + 6 / len(depths)


def test_a_round_may_be_planned_before_the_one_before_it_is_learned():
    """One try, not two, while it is not yet known what became of the first."""
    chat = Chat(MILD)
    chat.ran(1, 0, MILD.round_ms(1), times=30)
    chat.plain_until_a_draft(10.0)
    first = chat.next()
    while not first.depth:
        first = chat.next()
    second = chat.next()
    assert second.depth == 0
    chat.policy.learn_round(first, first.depth, 0, MILD.round_ms(1))
    assert chat.next().depth == 0


def test_a_try_that_gained_is_followed_by_another():
    chat = Chat(MILD)
    chat.ran(1, 0, MILD.round_ms(1), times=40)
    chat.ran(0, 0, MILD.round_ms(0), times=1000)
    chat.plain_until_a_draft(10.0)
    chat.ran(1, 1, MILD.round_ms(1))
    assert not chat.mtp.best_depth(), "one success proves little"
    assert chat.next().depth == 1
    chat.ran(1, 0, MILD.round_ms(1))
    assert not chat.next().depth


def test_what_is_only_assumed_to_pay_is_tried_when_its_loss_can_be_paid():
    """Eight drafts promise 1.2 of plain decoding and may lose four tokens: too much at first."""
    chat = Chat(PassCosts((10.0, *[49.0] * 8), 0.0))
    assert chat.mtp.best_depth() == 8
    assert 100 <= chat.plain_until_a_draft(10.0) <= 700


def test_a_first_draft_that_falls_is_followed_by_another():
    """One unlucky token at the beginning proves little: what may be lost is not staked on it."""
    costs = PassCosts((10.0, 16.0, 19.0, 22.0, 27.0, 32.0, 37.0, 42.0, 47.0), 1.0)
    chat = Chat(costs)
    first = chat.first()
    assert 0 < first.depth < chat.mtp.best_depth()
    chat.policy.learn_round(first, first.depth, 0, costs.round_ms(first.depth))
    assert chat.plain_until_a_draft(10.0) <= 2 * COOLDOWN


def test_a_chat_that_has_gained_tries_again_soon():
    """A hard passage of a text that is easy to draft: what was gained pays for tries."""
    rests = []
    for easy in (100, 0):
        chat = Chat(STEEP)
        chat.ran(2, 2, STEEP.round_ms(2), times=easy)
        chat.ran(1, 0, STEEP.round_ms(1), times=8)
        rests.append(chat.plain_until_a_draft(10.0))
    assert rests[0] < rests[1]


def test_nothing_is_drafted_that_the_budget_could_not_pay_for():
    """However much is believed to be gained."""
    chat = taught(MILD, [0.25] + [0.0] * 7)
    chat.ran(1, 1, MILD.round_ms(1), times=3)
    assert chat.next().depth == 1
    for budget, depth in ((0.3, 1), (0.2, 0), (-3.0, 0)):
        chat.mtp.record.budget = budget
        assert chat.next().depth == depth


def test_an_unplayed_depth_is_no_bargain_by_assumption():
    """It was measured to be cheaper than a shallower one: rounds of that one know better."""
    chat = Chat(PassCosts((10.0, 12.0, 13.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0), 0.0))
    chat.ran(0, 0, 10.0, times=20)
    chat.ran(2, 0, 26.0, times=20)
    ms = chat.mtp.costs.ms
    assert min(ms[3:]) >= ms[2] > 20


@pytest.mark.parametrize("measured", ["flat", "linear", "hopeless"])
@pytest.mark.parametrize("truth", ["mild", "steep", "hopeless", "dear head"])
def test_costs_measured_in_a_bad_moment_are_corrected(truth, measured):
    """The table is another machine's, and a busy one's; rounds that are run put it right."""
    costs, busy = MACHINES[truth], MACHINES[measured]
    chat = Chat(PassCosts(tuple(2.5 * ms for ms in busy.verify_ms), busy.draft_ms))
    draw, chances = np.random.default_rng(1), [0.6] * 8
    spent = told = 0.0
    for _ in range(4000):
        choice = chat.next()
        right = stood(chances, choice.depth, draw)
        took = costs.round_ms(choice.depth)
        chat.policy.learn_round(choice, choice.depth, right, took * draw.uniform(0.8, 1.25))
        spent += took
        told += right + 1
    best = min(told / tokens_a_round(chances, k) * costs.round_ms(k) for k in range(9))
    assert spent <= 1.03 * told * costs.round_ms(0)
    assert spent <= 1.12 * best


def test_plain_rounds_are_measured_now_and_then():
    """One to begin with; then the rarer, the more each of them loses."""
    counts = []
    for costs in (FLAT, STEEP):
        chat = Chat(costs)
        depths = chat.run(1000, costs.round_ms)
        counts.append(depths.count(0))
        assert depths[:10].count(0) == 1
    assert 1 <= counts[0] < counts[1] <= 40


@pytest.mark.parametrize("share", [0.5, 0.875])
def test_a_time_that_holds_a_share_of_the_next_rounds_teaches_no_wrong_cost(share):
    """As where queueing a round blocks until most of it has run; each is planned one ahead."""
    chat, waiting = Chat(MILD), []
    draw = np.random.default_rng(0)
    for _ in range(1500):
        choice = chat.policy.plan_round((MTP,), "auto", NOTHING)
        waiting.append(choice)
        if len(waiting) == 2:
            first = waiting.pop(0)
            ms = (1 - share) * MILD.round_ms(first.depth) + share * MILD.round_ms(choice.depth)
            chat.policy.learn_round(first, first.depth, stood([0.35] * 8, first.depth, draw), ms)
    ms = chat.mtp.costs.ms
    assert ms[0] == pytest.approx(10.0, rel=0.03)
    assert ms[1] / ms[0] == pytest.approx(1.25, rel=0.05)


def test_a_spike_is_not_a_cost_but_what_lasts_is():
    chat = Chat(MILD)
    chat.ran(0, 0, MILD.round_ms(0), times=5)
    chat.ran(3, 3, MILD.round_ms(3), times=5)
    before = chat.mtp.speed_gains()[3]
    chat.ran(3, 3, 125_000.0)
    assert chat.mtp.speed_gains()[3] == pytest.approx(before, rel=0.1)
    for _ in range(30):
        chat.ran(3, 3, 3 * MILD.round_ms(3), times=2)
        chat.ran(0, 0, MILD.round_ms(0), times=2)
    assert chat.mtp.speed_gains()[3] < 0.6 * before


@pytest.mark.parametrize("now", [2.0, 0.5])
def test_a_machine_that_becomes_slower_or_faster_does_so_for_all_depths(now):
    """What drafting gains is not told from rounds of two different speeds, for most of it."""
    chat = Chat(MILD)
    chat.ran(0, 0, MILD.round_ms(0), times=20)
    chat.ran(3, 3, MILD.round_ms(3), times=20)
    before, plain = chat.mtp.speed_gains()[3], chat.mtp.costs.ms[0]
    chat.ran(3, 3, now * MILD.round_ms(3), times=40)
    assert chat.mtp.speed_gains()[3] == pytest.approx(before, rel=0.4)
    assert chat.mtp.costs.ms[0] == pytest.approx(now * plain, rel=0.4)


def test_a_depth_run_while_the_machine_was_slow_is_not_dear_for_ever():
    """Nobody would run it again to find out, since others seem better."""
    chat, usual = Chat(MILD), MILD.round_ms(8)
    chat.ran(0, 0, MILD.round_ms(0), times=5)
    chat.ran(8, 8, 1.4 * usual, times=30)
    for turn in range(150):
        depth = 4 if turn % 30 else 0
        chat.ran(depth, depth, MILD.round_ms(depth))
    assert chat.mtp.costs.ms[8] < 1.1 * usual


def test_parked_for_its_cost_it_comes_back_when_plain_rounds_are_as_slow():
    """Another program had slowed all that was run since the last plain round."""
    rounds = []
    for slower in (4, 1):
        chat = Chat(STEEP)
        chat.ran(0, 0, STEEP.round_ms(0), times=40)
        for depth in [*range(1, 9)] * 10:
            chat.ran(depth, depth, 4 * STEEP.round_ms(depth), times=4)
            chat.ran(0, 0, STEEP.round_ms(0))
        assert chat.next().why.code == "parked-cost"
        chat.mtp.record.budget = FIRST_LOSS  # those rounds were not its choice
        rounds.append(chat.plain_until_a_draft(slower * STEEP.round_ms(0)))
    assert rounds[0] < 100 < rounds[1]


# --- several chats ---


@pytest.mark.parametrize("chances", [falling(a, 0.9) for a in (0.3, 0.6, 0.9)])
def test_who_shares_a_pass_drafts_as_would_pay_if_all_drafted_alike(chances):
    """By brute force: a pass of all their rows, and everyone's drafts, for everyone's tokens."""
    chat = taught(MILD, chances)
    believed = chat.mtp.acceptance.chances
    depths = []
    for others in (0, 1, 2, 7):
        chat.policy.set_batch(BatchLimits(others))
        speeds = [
            tokens_a_round(believed, k)
            / (MILD.pass_ms((others + 1) * (k + 1)) + k * MILD.draft_ms * (1 + 0.15 * others))
            for k in range(9)
        ]
        if others:
            best = int(np.argmax(speeds))
            assert chat.mtp.best_depth() == (best if speeds[best] >= WORTH_IT * speeds[0] else 0)
        depths.append(chat.mtp.best_depth())
    assert depths == sorted(depths, reverse=True)
    chat.policy.set_batch(BatchLimits(40))
    assert not chat.mtp.best_depth()


def test_who_is_parked_beside_others_only_says_so():
    chat = taught(MILD, falling(0.6, 0.9))
    assert chat.next().depth
    chat.policy.set_batch(BatchLimits(15))
    while (choice := chat.next()).depth:
        chat.policy.learn_round(choice, choice.depth, 0, 60.0, ConcurrentChats(15, 30))
    assert choice == DraftChoice(0, SHARED_PASS, by="mtp")


def test_what_others_rows_take_is_not_learned_as_ones_own():
    chat = Chat(MILD)
    chat.policy.set_batch(BatchLimits(2, 1))
    assert chat.next().depth <= 1
    chat.ran(
        0, 0, MILD.round_ms(0, ConcurrentChats(2, 4)), 60, ConcurrentChats(2, 4)
    )  # they draft a token each
    assert chat.mtp.costs.ms[0] == pytest.approx(MILD.verify_ms[2])
    chat.policy.set_batch(BatchLimits())
    assert chat.mtp.costs.ms[0] == pytest.approx(MILD.verify_ms[0])
    chat.policy.set_batch(BatchLimits(8, 0))
    assert chat.next() == DraftChoice(0, SHARED_PASS, by="mtp")


# --- one text after another ---


def test_a_text_may_lose_what_is_left_by_the_one_before():
    """Short ones may not each lose as much as a long one may to begin with."""
    records, left = {}, []
    for _ in range(3):
        chat = Chat(STEEP, records=records)
        left.append(chat.mtp.record.budget)
        chat.ran(2, 0, STEEP.round_ms(2))
    assert left[0] > left[1] > left[2]
    chat.ran(2, 2, STEEP.round_ms(2), times=50)
    assert Chat(STEEP, records=records).mtp.record.budget == MAX_KEPT


def test_a_text_begins_with_what_the_texts_before_it_have_shown():
    """Two unlucky drafts prove little where drafts have long been accepted, and none is made where
    they never were.
    """
    good, bad = {}, {}
    for records, accepted in ((good, 3), (bad, 0)):
        for _ in range(4):
            chat = Chat(STEEP, records=records)
            chat.ran(3, accepted, STEEP.round_ms(3), times=20)
            chat.ran(0, 0, STEEP.round_ms(0), times=20)
    hopeful, warned = Chat(STEEP, records=good), Chat(STEEP, records=bad)
    hopeful.ran(1, 0, STEEP.round_ms(1), times=2)
    assert hopeful.next().depth
    assert not warned.next().depth
    assert warned.mtp.acceptance.chances[0] < 0.1
    assert warned.mtp.skips_prompt
    assert not hopeful.mtp.skips_prompt


def dear_drafts(chat, draft_ms=200.0):
    """As many as show that none can pay, and plain rounds."""
    chat.ran(0, 0, 10.0, times=30)
    for depth in range(1, 9):
        chat.ran(depth, 0, draft_ms, times=6)
    chat.ran(0, 0, 10.0, times=4)


def test_a_new_chat_knows_what_rounds_cost_in_the_last_one():
    records = {}
    first = Chat(FLAT, records=records)
    assert first.first().depth > 0
    dear_drafts(first)
    second = Chat(FLAT, records=records)
    choices = [second.next() for _ in range(300)]
    assert {(choice.depth, choice.why.code) for choice in choices} == {(0, "parked-cost")}
    assert Chat(FLAT).first().depth > 0


def test_costs_of_a_long_chat_are_those_of_a_short_one_in_proportion():
    records = {}
    first = Chat(FLAT, records=records)
    first.ran(0, 0, 15.0, times=20)
    first.ran(1, 1, 22.5, times=20)
    second = Chat(FLAT, records=records)
    second.policy.begin_text()
    second.ran(0, 0, 10.5)
    ms = second.mtp.costs.ms
    assert ms[1] / ms[0] == pytest.approx(1.5, rel=0.1)
    assert ms[0] == pytest.approx(10.5, rel=0.1)


@pytest.mark.parametrize("field", [{"rule": "greedy"}, {"min_probability": 0.5}, {"depth": 3}])
def test_drafts_made_in_another_way_are_found_out_about_but_not_other_depths(field):
    records = {}
    first, other = Chat(FLAT, records=records), Chat(FLAT, records=records)
    first.policy.adopt_options(DraftOptions())
    dear_drafts(first)
    other.policy.adopt_options(DraftOptions(**field))
    assert bool(other.first().depth) == ("depth" not in field)
    first.policy.adopt_options(DraftOptions(**field))
    assert bool(first.mtp.best_depth()) == ("depth" not in field)


def test_costs_measured_later_replace_presumed_ones():
    tables = iter([FLAT, HOPELESS])
    chat = Chat(lambda: next(tables))
    assert chat.mtp.best_depth() > 0
    chat.policy.begin_text()
    assert chat.mtp.best_depth() == 0


@pytest.mark.parametrize("first", [0, 1])
def test_presumed_costs_are_proportions_of_the_first_round(first):
    """Whether it has a draft or not; milliseconds are not known before."""
    chat = Chat(PRESUMED)
    chat.ran(first, first, 0.004 * PRESUMED.round_ms(first))
    for depth in (0, 1, 8):
        expected = 0.004 * PRESUMED.round_ms(depth)
        assert chat.mtp.costs.ms[depth] == pytest.approx(expected, rel=0.01)


def test_a_new_chat_goes_by_the_costs_of_now():
    """Though the chat before it began with presumed ones."""
    records = {}
    assert Chat(PRESUMED, records=records).mtp.best_depth() > 0
    assert Chat(HOPELESS, records=records).mtp.best_depth() == 0


def test_passes_measured_later_allow_longer_drafts():
    tables = iter([FLAT, DEEP])
    chat = Chat(lambda: next(tables), copy(0.95, limit=15))
    assert chat.next().depth == 8
    chat.policy.begin_text()
    assert chat.next().depth == 15


# --- several sources ---


def test_no_offer_says_why():
    assert DepthPolicy(lambda: FLAT).plan_round((), "auto", NOTHING) == DraftChoice(0, NOTHING)


def test_a_long_copy_goes_first():
    choice = Chat(FLAT, copy(0.8, is_long=True), MTP).next()
    assert choice.by == "prompt-lookup"
    assert choice.depth > 3


def test_a_short_copy_only_where_it_promises_more():
    chat = Chat(FLAT, MTP, copy(0.5))
    assert chat.next().by == "mtp"
    chat.ran(3, 0, 14.0, times=40)
    assert chat.next().by == "prompt-lookup"
    assert chat.policy.would_copy_passage(chat.offers, "auto")
    assert not chat.policy.would_copy_passage((MTP,), "auto")


def test_where_rows_are_dear_a_doubtful_copy_is_left():
    choice = Chat(HOPELESS, copy(0.5)).next()
    assert (choice.depth, choice.why.code) == (0, "parked-cost")
    assert not Chat(HOPELESS).policy.would_copy_passage((copy(0.5),), "auto")


def test_where_drafting_is_off_nothing_is_saved_for_drafts():
    """What was lost by drafts is saved up by rounds that might have had one."""
    chat = Chat(FLAT)
    chat.ran(3, 0, 14.0, times=10)
    chat.ran(0, 0, 10.0, times=40)
    before = chat.mtp.record.budget
    for depth, saved in ((0, 0), ("auto", 160)):
        off = chat.policy.plan_round((), depth, NOTHING)
        for _ in range(160):
            chat.policy.learn_round(off, 0, 0, 10.0)
        assert chat.mtp.record.budget == pytest.approx(before + LOSS * saved)
    assert chat.mtp.costs.ms[0] == pytest.approx(10, rel=0.1)


def test_what_one_source_shows_is_not_held_against_another():
    chat = Chat(FLAT, depth=2)
    before = chat.policy.source_policy("model").speed_gains()
    chat.run(30, lambda depth: 11.0, lambda depth: 0)
    assert chat.policy.source_policy("model").speed_gains() == before
    assert chat.mtp.best_depth() == 0


def test_a_pinned_depth_tells_what_would_pay():
    """The automatic choice learns from pinned rounds, and nothing of it changes them."""
    chat = Chat(FLAT, depth=3)
    assert chat.next() == DraftChoice(3, None, 8, "mtp")
    chat.run(60, lambda depth: 14.0, lambda depth: 0)
    assert chat.next() == DraftChoice(3, None, 0, "mtp")


def test_a_copy_is_judged_anew_each_round():
    """The next words may be repeated with more confidence."""
    flat = Chat(FLAT, copy(0.01))
    assert flat.next().depth == 0
    flat.offers = (copy(0.9),)
    assert flat.next().depth > 0


def test_a_small_model_costs_its_share():
    model = DraftOffer("model")
    cheap, dear = Chat(FLAT, model, share=0.02), Chat(FLAT, model, share=0.9)
    assert (
        cheap.policy.source_policy("model").best_depth()
        > dear.policy.source_policy("model").best_depth()
    )


def test_no_deeper_than_the_source_can():
    """With the reason where the user asked for more, and nothing learned of what was not tried."""
    few = DraftOffer("mtp", limit=2)
    assert Chat(FLAT, few).first()[:2] == (2, None)
    choice = Chat(FLAT, few, depth=4).next()
    assert (choice.depth, choice.why.code, choice.auto) == (2, "source-limit", 2)
    assert Chat(FLAT, few, depth=2).next().why is None
    assert Chat(FLAT, MTP, copy(0.9), depth=4).next().depth == 4


def test_a_source_is_judged_by_drafts_it_can_make():
    """Deep copies promise more than a head that drafts one token, though that one stands."""
    assert Chat(FLAT, DraftOffer("mtp", limit=8), copy(0.7)).next().by == "mtp"
    assert Chat(FLAT, DraftOffer("mtp", limit=1), copy(0.7)).next().by == "prompt-lookup"


def test_long_copies_are_drafted_deeper_than_heads_draft():
    """As deep as passes were measured; the depth that a user pins has its old bounds."""
    long = copy(0.95, is_long=True, limit=15)
    assert Chat(DEEP, long).next().depth == 15
    assert Chat(DEEP, DraftOffer("model", limit=15), share=0.02).first().depth > 8
    assert Chat(DEEP).first().depth == 8
    assert Chat(FLAT, long).next().depth == 8
    assert Chat(DEEP, long, depth=8).next().depth == 8


def test_heads_that_take_turns_cost_a_pass_each():
    costs = PassCosts((10.0,) * 4, 1.0, (2.0, 4.0))
    assert [costs.drafting_ms(depth) for depth in range(4)] == [0, 1, 3, 7]
    assert PassCosts((10.0,) * 4, 1.0).drafting_ms(3) == 3
