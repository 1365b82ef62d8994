"""Sources that read words beside rounds begun ahead: they wait where there is a copy to make."""

from dataclasses import replace
from types import SimpleNamespace

import mlx.core as mx
import pytest
from session_runs import PICKS, PLAIN, four_answers, listen, session_of, tiny_folder, words_of
from tiny_model import TinySizes, tiny_model

import mlx_engine
from mlx_engine.decoding.scheduler import Lookahead
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.lookup import HitRates, PromptLookup
from mlx_engine.drafting.record import PassCosts
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

NEW_WORDS = SamplingOptions(temperature=4.0, seed=5)
"""Hardly any three tokens are met twice."""

SAME_WORDS = SamplingOptions(temperature=0.8, seed=3, logit_bias={75: 60.0})
"""The text repeats itself."""

STEEP = PassCosts(tuple(10 + 5.0 * row for row in range(9)), 0.0)
"""A row more costs half a pass."""

FLAT = PassCosts((1000.0,) * (DEEPEST + 1), 0.0)
"""Rows cost nothing, however long rounds of a busy machine take."""

LOOKUP = DraftOptions(source="prompt-lookup")
BOTH = DraftOptions(source="prompt-lookup+mtp", depth=2)
FREQUENT = DraftOptions(output="frequent", vocabulary=256, depth=2)


@pytest.fixture
def found(monkeypatch):
    """Of each round what was found, and whether it had been queued before, in order."""
    every, find = [], Lookahead.run

    def noted(its):
        was_ahead = any(pass_.queued_at for pass_ in its.passes)
        outcome = find(its)
        every.append(SimpleNamespace(was_ahead=was_ahead, **outcome._asdict()))
        return outcome

    monkeypatch.setattr(Lookahead, "run", noted)
    return every


@pytest.fixture(params=[False, True], ids=["plain rounds ahead", "all ahead"])
def follows_drafts(request, engine, monkeypatch):
    """Whether drafts are followed too, as where a GPU computes."""
    monkeypatch.setattr(engine.parts.batch, "follows_drafts", request.param)
    return request.param


def generated(engine, found, draft, sampling=NEW_WORDS, tokens=40):
    found.clear()
    return engine.generate([5, 3, 9, 1], tokens, sampling, draft, ignore_eos=True)


@pytest.mark.usefixtures("follows_drafts")
@pytest.mark.parametrize("depth", ["auto", 3])
def test_where_nothing_matches_as_many_rounds_are_begun_ahead_as_without(engine, found, depth):
    plain = generated(engine, found, PLAIN)
    without = [its.was_ahead for its in found]
    looked = generated(engine, found, replace(LOOKUP, depth=depth))
    assert looked.tokens == plain.tokens
    assert [its.was_ahead for its in found] == without == [False] + [True] * 39
    assert not any(its.drafted for its in found)


@pytest.mark.parametrize(("beside", "alone"), [(BOTH, DraftOptions(depth=2)), (FREQUENT, None)])
def test_a_head_beside_words_drafts_ahead_as_it_does_alone(
    engine, found, follows_drafts, beside, alone
):
    """The reduced vocabulary needs all its words, if a round late, but no wait for them."""
    before = generated(engine, found, alone or DraftOptions(depth=2))
    without = [its.was_ahead for its in found]
    looked = generated(engine, found, beside)
    assert looked.tokens == before.tokens
    if alone is not None:
        assert looked.stats.accepted_by_depth == before.stats.accepted_by_depth
    assert [its.was_ahead for its in found][: len(without) - 3] == without[:-3]
    assert (True in without) == follows_drafts


@pytest.mark.usefixtures("follows_drafts")
@pytest.mark.parametrize("depth", ["auto", 3])
def test_a_match_is_waited_for_and_drafted_at_most_a_round_late(engine, found, monkeypatch, depth):
    engine._self_check._meter._costs, engine._self_check._meter._is_done = FLAT, True
    draft, plain = replace(LOOKUP, depth=depth), generated(engine, found, PLAIN, SAME_WORDS)
    looked = generated(engine, found, draft, SAME_WORDS)
    first = next(number for number, its in enumerate(found) if its.drafted)
    assert [its.was_ahead for its in found[:first]] == [False] + [True] * (first - 1)
    assert not any(its.was_ahead for its in found if its.drafted)
    monkeypatch.setattr(engine.parts.batch, "looks_ahead", False)
    waited = generated(engine, found, draft, SAME_WORDS)
    assert first <= 1 + next(number for number, its in enumerate(found) if its.drafted)
    assert looked.tokens == waited.tokens == plain.tokens
    assert looked.stats.drafted > 5


def test_a_copy_that_does_not_pay_is_not_waited_for(folder, found, monkeypatch):
    """And the reason is told, not that there is nothing to copy."""
    engine = mlx_engine.load(folder)
    engine._self_check._meter._costs, engine._self_check._meter._is_done = STEEP, True
    monkeypatch.setattr(HitRates, "acceptance_chance", lambda rates, length: 0.41)
    generated(engine, found, LOOKUP, SAME_WORDS)
    assert [its.was_ahead for its in found] == [False] + [True] * 39
    whys = [its.choice.why.code for its in found]
    assert whys[-20:] == ["parked-acceptance"] * 20


@pytest.mark.usefixtures("follows_drafts")
@pytest.mark.parametrize("draft", [replace(LOOKUP, depth=4), BOTH, FREQUENT], ids=["", "+", "f"])
@pytest.mark.parametrize("sampling", [PICKS, replace(SAME_WORDS, presence_penalty=0.5)])
def test_the_same_words(engine, draft, sampling):
    assert words_of(four_answers(engine, sampling, draft)) == words_of(
        four_answers(engine, sampling, PLAIN)
    )


def words_are_in_step(its):
    assert its.drafter.lookup.ngrams.tokens == its.tokens
    assert its.drafter.length == its.caches.length == len(its.tokens)


@pytest.mark.usefixtures("follows_drafts")
@pytest.mark.parametrize("draft", [replace(LOOKUP, depth=4), BOTH], ids=["lookup", "both"])
@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("walks_away", [False, True], ids=["stop", "walk away"])
def test_a_stop_takes_effect_within_a_round_and_words_stand_where_all_else_does(
    engine, draft, rounds, walks_away
):
    session, done = session_of(engine, SAME_WORDS, max_tokens=60), 0
    session.draft = draft
    for event in session.send("The fox, the fox, the fox"):
        done += isinstance(event, RoundFinished)
        if done == rounds and walks_away:
            break
        if done == rounds:
            session.stop()
    assert done == rounds
    words_are_in_step(session._sequence)
    session.generation = GenerationOptions(max_tokens=12)
    history = session.messages
    said = listen(session, session.send("And then?"))
    fresh = session_of(engine, SAME_WORDS, depth=0)
    fresh.load_messages(history)
    assert said.tokens == listen(fresh, fresh.send("And then?")).tokens


@pytest.mark.parametrize("draft", [LOOKUP, BOTH], ids=["lookup", "both"])
def test_what_another_conversation_has_read_is_known_by_its_words(engine, draft):
    """As is what goes on from there, and what comes from a file."""
    for _ in range(2):
        session = session_of(engine, NEW_WORDS)
        session.draft = draft
        said = listen(session, session.send("The lazy dog sleeps. " * 20))
        words_are_in_step(session._sequence)
    assert said.finished.stats.reused_tokens > 30
    model = tiny_model(3, TinySizes(layers=2, vocabulary=37))
    drafter = NoDraft()
    drafter.lookup = PromptLookup()
    sequence, tokens = SequenceState(model, drafter), [5, 3, 9, 1, 3]
    model.forward(mx.array([tokens]), sequence.caches)
    sequence.caches.commit(len(tokens))
    sequence.set_restored_tokens(tokens, None)
    words_are_in_step(sequence)


@pytest.mark.usefixtures("follows_drafts")
@pytest.mark.parametrize("source", ["mtp", "prompt-lookup+mtp"])
def test_a_reduced_vocabulary_takes_in_all_words(engine, source):
    sampling = replace(NEW_WORDS, logit_bias=dict.fromkeys(range(256, 290), 9.0))
    session = session_of(engine, sampling, max_tokens=20)
    session.draft = replace(FREQUENT, source=source)
    listen(session, session.send("The fox"))
    (output,) = session._sequence.drafter._outputs
    known = output._kept | output._new
    assert known.issuperset(session._sequence.tokens)
    assert len(known) > output.row_count, "some were new"


def test_heads_that_cannot_be_read_in_mid_answer_leave_words_in_step(tmp_path, monkeypatch):
    """What looks up alone from then on is told all tokens, none of which is on its way."""
    tiny_folder(tmp_path / "m", heads="beside")
    engine = mlx_engine.load(tmp_path / "m")
    for file in (tmp_path / "m").rglob("*.safetensors"):
        file.write_bytes(b"")
    said = []
    for draft in (PLAIN, replace(BOTH, depth=0)):
        session, done = session_of(engine, NEW_WORDS, max_tokens=12), 0
        session.draft = draft

        def switch_on(event):
            nonlocal done
            done += isinstance(event, RoundFinished)
            if done == 3 and session.draft.source != "none":  # noqa: B023
                session.draft = BOTH  # noqa: B023

        said.append(listen(session, session.send("The fox"), switch_on))
    assert said[0].tokens == said[1].tokens
    assert isinstance(session._sequence.drafter, NoDraft)
    words_are_in_step(session._sequence)
