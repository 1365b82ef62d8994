"""A chat in which no draft can pay costs what drafting off costs, and drafts when that changes."""

import sys

import pytest
from lazy_graph import primitives
from session_runs import listen, session_of, tiny_folder

import mlx_engine
from mlx_engine.decoding.answer import Answer
from mlx_engine.decoding.round import Pass
from mlx_engine.drafting import mtp
from mlx_engine.drafting.contract import DraftChoice
from mlx_engine.drafting.record import PassCosts
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions

HOPELESS = PassCosts(tuple(1000.0 * row for row in range(1, 10)), 500.0)
"""Longer than any round here takes: what the host takes beside is not what makes them dear."""
CHEAP = PassCosts((10.0,) * 9, 0.0)
LENGTH = 12


@pytest.fixture
def engine(tmp_path):
    made = mlx_engine.load(tiny_folder(tmp_path / "m"))
    made._self_check.use_heads()  # they are tried when they are read
    return made


def costing(engine, costs):
    engine._self_check._meter._costs, engine._self_check._meter._is_done = costs, True


def head_rows(engine, monkeypatch):
    """Rows that the head reads from now on."""
    rows, head = [], engine.parts.model.heads[0]
    read = head.mtp_forward

    def counted(tokens, hidden, caches):
        rows.append(tokens.shape[1])
        return read(tokens, hidden, caches)

    monkeypatch.setattr(head, "mtp_forward", counted)
    return rows


def answers(engine, monkeypatch, costs):
    """The reasons and depths of an answer at each of these costs, and what was re-read for it."""
    session = session_of(engine, depth=0, max_tokens=LENGTH)
    session.draft = DraftOptions()
    plain = session_of(engine, depth=0, max_tokens=LENGTH)
    rows = head_rows(engine, monkeypatch)
    for cost in costs:
        costing(engine, cost)
        rows.clear()
        said = listen(session, session.send("The fox"))
        assert said.tokens == listen(plain, plain.send("The fox")).tokens
        yield said, tuple(rows)


def test_the_head_is_not_fed_where_no_draft_can_pay(engine, monkeypatch):
    for said, rows in answers(engine, monkeypatch, [HOPELESS, HOPELESS]):
        assert rows == ()
        assert {r.why.code for r in said.rounds} == {"parked-cost"}
        assert "no guess can help" in said.rounds[0].why.words


@pytest.mark.parametrize("depth", ["auto", 0])
def test_a_parked_round_asks_its_source_nothing(engine, monkeypatch, depth):
    """Who could draft is asked once, then not before that can have changed."""
    costing(engine, HOPELESS)
    session = session_of(engine, depth=depth, max_tokens=LENGTH)
    asked, offers = [], mtp.MtpDraft.draft_offers
    monkeypatch.setattr(mtp.MtpDraft, "draft_offers", lambda *of: asked.append(1) or offers(*of))
    rounds = listen(session, session.send("The fox")).rounds
    assert len(rounds) == LENGTH
    assert len(asked) <= 2
    monkeypatch.undo()


def test_options_changed_in_a_parked_answer_are_taken_over_at_once(engine):
    costing(engine, HOPELESS)
    session = session_of(engine, depth=0, max_tokens=LENGTH)
    session.draft = DraftOptions()

    def change(event):
        if isinstance(event, RoundFinished) and event.stats.position > 0:
            session.draft = DraftOptions(depth=2)

    rounds = listen(session, session.send("The fox"), change).rounds
    assert [r.depth for r in rounds[:3]] == [0, 2, 2]


def test_it_drafts_from_the_next_answer_on_when_that_pays(engine, monkeypatch):
    first, second = answers(engine, monkeypatch, [HOPELESS, CHEAP])
    assert not first[0].finished.stats.drafted
    assert second[0].finished.stats.drafted
    assert second[0].progress[0].reused > 0, "its rows have waited"


def test_after_long_texts_nothing_is_read_again(engine, monkeypatch):
    monkeypatch.setattr(mtp, "ROWS_AFTER_PAUSE", 4)
    lost, still, back = answers(engine, monkeypatch, [HOPELESS, HOPELESS, CHEAP])
    assert {r.why.code for r in (*lost[0].rounds, *still[0].rounds)} == {"parked-cost"}
    assert still[0].progress[0].reused > 0
    assert back[0].progress[0].reused > 0
    assert back[0].finished.stats.drafted


def test_a_pinned_depth_is_drafted_whatever_it_costs(engine, monkeypatch):
    costing(engine, HOPELESS)
    session = session_of(engine, depth=2, max_tokens=LENGTH)
    rounds = listen(session, session.send("The fox")).rounds
    assert {r.depth for r in rounds} == {2}


def test_what_waits_while_the_depth_is_zero_is_read_by_the_first_draft(engine, monkeypatch):
    costing(engine, CHEAP)
    session = session_of(engine, depth=3, max_tokens=LENGTH)
    listen(session, session.send("The fox"))
    rows = head_rows(engine, monkeypatch)
    session.draft = DraftOptions(depth=0)
    listen(session, session.send("and"))
    assert rows == []
    session.draft = DraftOptions(depth=1)
    assert listen(session, session.send("again")).finished.stats.drafted
    assert max(rows) > LENGTH


def test_a_head_reads_no_prompt_where_drafts_were_seen_not_to_pay(engine, monkeypatch):
    """Its end is read by the first draft that is tried; of the first text of all it reads all."""
    monkeypatch.setattr(mtp, "ROWS_AFTER_PAUSE", 4)
    doubtful = PassCosts(tuple(1000.0 + 930 * row for row in range(9)), 0.0)
    ((first, rows),) = answers(engine, monkeypatch, [doubtful])
    assert sum(rows) >= first.progress[-1].total - 2 > 10, "the newest may wait"
    policy = engine.new_depth_policy()
    policy.adopt_options(DraftOptions())
    for _ in range(60):
        policy.learn_round(DraftChoice(1, None, by="mtp"), 1, 0, 1.0)
    ((second, rows),) = answers(engine, monkeypatch, [doubtful])
    assert second.progress[-1].total > 10 > 2 * 4 >= max(rows, default=0)


def test_a_resting_round_is_a_plain_one_and_a_few_calls(engine, monkeypatch):
    """20 of some 700, and no node: what it costs more is 2 % of the host's own work. The leanest
    rounds are compared, as text comes in some of them and rows that have waited go in others.
    """
    costing(engine, HOPELESS)
    calls, nodes = [], []
    run, queue = Answer._run_round, Pass.queue_on_device

    def count(frame, event, what):
        calls[-1] += event in ("call", "c_call")

    def counted(answer):
        calls.append(0)
        sys.setprofile(count)
        run(answer)
        sys.setprofile(None)

    def looked_at(its):
        if not its.queued_at:
            sys.setprofile(None)
            nodes.append(primitives(*its._outcomes).total())
            sys.setprofile(count)
        queue(its)

    monkeypatch.setattr(Answer, "_run_round", counted)
    monkeypatch.setattr(Pass, "queue_on_device", looked_at)
    leanest = []
    for draft in (DraftOptions(source="none"), DraftOptions()):
        session = session_of(engine, depth=0, max_tokens=40)
        session.draft = draft
        calls.clear()
        listen(session, session.send("The fox"))
        its_calls = calls[-20:-1]  # the last begins no other
        leanest.append((min(nodes[-20:]), min(its_calls)))
    (plain_nodes, plain), (resting_nodes, resting) = leanest
    assert resting_nodes == plain_nodes
    assert 0 < resting - plain <= 20
