"""Who drafts next: long copies first, otherwise the offer that promises most tokens a second."""

import pytest

from mlx_engine.drafting.depth.adaptive import LOSS, MEASURING, SAMPLED_EVERY
from mlx_engine.drafting.depth.choice import Learned, RoundPlan
from mlx_engine.drafting.depth.costs import Others, PassCosts
from mlx_engine.drafting.drafter import Offer
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions

NOTHING = Reason("no-match", "Nothing.")
FLAT = PassCosts(tuple(10 + 0.3 * row for row in range(9)), 1.0)
STEEP = PassCosts(tuple(10.0 * (row + 1) for row in range(9)), 1.0)
MTP = Offer("mtp")


def copy(chance, *, is_long=False):
    return Offer("prompt-lookup", chance, is_long)


def plan(offers, learned, depth="auto"):
    return RoundPlan(offers, learned, depth, NOTHING)


@pytest.fixture
def learned():
    return Learned(lambda: FLAT)


def test_no_offer_says_why(learned):
    assert plan((), learned).next()[:2] == (0, NOTHING)


def test_a_long_copy_goes_first(learned):
    choice = plan((copy(0.8, is_long=True), MTP), learned).next()
    assert choice.by == "prompt-lookup"
    assert choice.depth > 3


def test_a_short_copy_only_where_it_promises_more(learned):
    assert plan((MTP, copy(0.5)), learned).next().by == "mtp"
    for _ in range(40):
        learned.of("mtp").learn(3, 0, 14.0)
    assert plan((MTP, copy(0.5)), learned).next().by == "prompt-lookup"


def test_where_rows_are_dear_a_doubtful_copy_is_left():
    learned = Learned(lambda: STEEP)
    choice = plan((copy(0.5),), learned).next()
    assert choice.depth == 0
    assert choice.why.code == "parked-cost"


def test_where_drafting_is_off_nothing_is_saved_for_drafts(learned):
    """What was lost by drafts is saved up by rounds that might have had one."""
    taught = learned.of("mtp")
    for _ in range(10):
        taught.learn(3, 0, 14.0)
    before = taught._purse.left
    off = plan((MTP,), learned, depth=0)
    for _ in range(500):
        off.learn(0, 0, 10.0)
    off.learn(0, 0, 40.0, Others(2, 4))
    assert taught._purse.left == before
    assert taught._unread == 501, "in a pass with others, too"
    assert taught.costs.at(0) == pytest.approx(10, rel=0.1)
    for _ in range(SAMPLED_EVERY):
        plan((MTP,), learned).learn(0, 0, 10.0)
    assert taught._purse.left == pytest.approx(before + SAMPLED_EVERY * LOSS)


def test_what_one_source_shows_is_not_held_against_another(learned):
    before = learned.of("model").gains()
    for _ in range(30):
        round_plan = plan((MTP,), learned, depth=2)
        assert round_plan.next().by == "mtp"
        round_plan.learn(2, 0, 11.0)
    assert learned.of("model").gains() == before
    assert learned.of("mtp").best() == 0


def test_a_pinned_depth_tells_what_would_pay(learned):
    """The automatic choice learns from pinned rounds, and nothing of it changes them."""
    choice = plan((MTP,), learned, depth=3).next()
    assert (choice.depth, choice.auto, choice.by) == (3, 8, "mtp")
    for _ in range(60):
        learned.of("mtp").learn(3, 0, 14.0)
    choice = plan((MTP,), learned, depth=3).next()
    assert (choice.depth, choice.auto) == (3, 0)


def test_costs_measured_later_replace_presumed_ones():
    costs = iter([FLAT, STEEP, STEEP])
    learned = Learned(lambda: next(costs))
    assert learned.of("mtp").best() > 0
    learned.begin_text()
    assert learned.of("mtp").best() == 0


def dear_drafts(learned, plain_ms=10.0, draft_ms=200.0):
    """As many as prove that none can pay, and plain rounds between."""
    for _ in range(6):
        learned.learn_plain(plain_ms)
        learned.of("mtp").learn(1, 1, draft_ms)


def test_a_new_conversation_knows_what_rounds_cost_in_the_last_one():
    """Where none can pay it begins parked, and no draft is made to find out once more."""
    known = {}
    first = Learned(lambda: FLAT, known=known)
    assert plan((MTP,), first).next().depth > 0
    dear_drafts(first)
    second = Learned(lambda: FLAT, known=known)
    choices = [plan((MTP,), second).next() for _ in range(1000)]
    assert {(choice.depth, choice.why.code) for choice in choices} == {(0, "parked-cost")}
    assert plan((MTP,), Learned(lambda: FLAT)).next().depth > 0


def test_a_conversation_without_a_draft_passes_on_what_it_was_told():
    known = {}
    dear_drafts(Learned(lambda: FLAT, known=known), 10.0, 30.0)
    ratios = []
    for _ in range(2):
        chat = Learned(lambda: FLAT, known=known)
        chat.learn_plain(10.0)
        costs = chat.of("mtp").costs
        ratios.append(costs.at(1) / costs.at(0))
    assert ratios[1] == pytest.approx(ratios[0], rel=0.1)
    assert ratios[1] > 2


def test_a_plain_round_becomes_due_in_conversations_of_one_round_too():
    known = {}
    whys = []
    for _ in range(12):
        its = plan((MTP,), Learned(lambda: FLAT, known=known))
        choice = its.next()
        its.learn(choice.depth, choice.depth, 10.0)
        whys.append(choice.why)
    assert whys.count(MEASURING) == 1


def test_costs_of_a_long_conversation_are_those_of_a_short_one_in_proportion():
    known = {}
    first = Learned(lambda: FLAT, known=known)
    for _ in range(20):
        first.learn_plain(40.0)
        first.of("mtp").learn(1, 1, 60.0)
    costs = Learned(lambda: FLAT, known=known).of("mtp").costs
    costs.add(0, 10.0)
    assert costs.at(1) / costs.at(0) == pytest.approx(1.5, rel=0.1)


@pytest.mark.parametrize("field", [{"rule": "greedy"}, {"min_probability": 0.5}, {"depth": 3}])
def test_drafts_made_otherwise_are_found_out_about_but_not_other_depths(field):
    known = {}
    first = Learned(lambda: FLAT, known=known)
    first.follow(DraftOptions())
    dear_drafts(first)
    other = Learned(lambda: FLAT, known=known)
    other.follow(DraftOptions(**field))
    assert bool(plan((MTP,), other).next().depth) == ("depth" not in field)
    first.follow(DraftOptions(**field))
    assert bool(first.of("mtp").best()) == ("depth" not in field)


def test_a_plan_stays_while_no_draft_is_near(learned):
    drafts, pinned, off = plan((MTP,), learned), plan((MTP,), learned, 2), plan((), learned, 0)
    assert [one.next().depth > 0 for one in (drafts, pinned, off)] == [True, True, False]
    assert [one.stays() for one in (drafts, pinned, off)] == [False, False, True]
    dear_drafts(learned)
    parked = plan((MTP,), learned)
    rounds = 0
    parked.next()
    while parked.stays():
        rounds += 1
    assert parked.choice.depth == 0
    assert rounds > 1000
    copies = plan((copy(0.5),), Learned(lambda: STEEP))
    assert copies.next().depth == 0
    assert not copies.stays(), "the next words may be repeated with more confidence"


def test_a_small_model_costs_its_share():
    cheap, dear = Learned(lambda: FLAT, 0.02), Learned(lambda: FLAT, 0.9)
    assert cheap.of("model").best() > dear.of("model").best()


def test_no_deeper_than_the_source_can(learned):
    """With the reason where the user asked for more, and nothing learned of what was not tried."""
    few = Offer("mtp", limit=2)
    assert plan((few,), learned).next()[:2] == (2, None)
    choice = plan((few,), learned, depth=4).next()
    assert (choice.depth, choice.why.code, choice.auto) == (2, "source-limit", 2)
    assert plan((few,), learned, depth=2).next().why is None
    assert plan((MTP, copy(0.9)), learned, depth=4).next().depth == 4


def test_a_source_is_judged_by_drafts_it_can_make(learned):
    """Deep copies promise more than a head that drafts one token, though that one stands."""
    assert plan((Offer("mtp", limit=8), copy(0.7)), learned).next().by == "mtp"
    assert plan((Offer("mtp", limit=1), copy(0.7)), learned).next().by == "prompt-lookup"


DEEP = PassCosts(tuple(10 + 0.3 * row for row in range(16)), 1.0)


def test_long_copies_are_drafted_deeper_than_heads_draft():
    """As deep as passes were measured; the depth that a user pins has its old bounds."""
    learned, long = Learned(lambda: DEEP, 0.02), copy(0.95, is_long=True)._replace(limit=15)
    assert plan((long,), learned).next().depth == 15
    assert plan((Offer("model", limit=15),), learned).next().depth > 8
    assert plan((MTP,), learned).next().depth == 8
    assert plan((long,), Learned(lambda: FLAT)).next().depth == 8
    assert plan((long,), learned, depth=8).next().depth == 8


def test_passes_measured_later_allow_longer_drafts():
    costs = iter([FLAT, DEEP])
    learned, long = Learned(lambda: next(costs)), copy(0.95)._replace(limit=15)
    assert plan((long,), learned).next().depth == 8
    learned.of("prompt-lookup").learn(8, 8, 14.0)
    learned.begin_text()
    assert plan((long,), learned).next().depth == 15


def test_heads_that_take_turns_cost_a_pass_each():
    costs = PassCosts((10.0,) * 4, 1.0, (2.0, 4.0))
    assert [costs.drafting_ms(depth) for depth in range(4)] == [0, 1, 3, 7]
    assert PassCosts((10.0,) * 4, 1.0).drafting_ms(3) == 3
    assert Learned(lambda: costs, 0.1)._of_source(costs, "model").drafting_ms(3) == 3
