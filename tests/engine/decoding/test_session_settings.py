"""Settings changed while an answer runs take effect at the next round; drafting changes no word."""

from dataclasses import replace

import pytest
from session_runs import PICKS, PLAIN, failing_engine, listen, session_of, tiny_folder

import mlx_engine
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import DraftOptions, SamplingOptions

LENGTH = 24


@pytest.fixture(scope="module")
def plain(engine):
    session = session_of(engine, depth=0, max_tokens=LENGTH)
    return listen(session, session.send("hi"))


def changed_after(engine, change, rounds=3, **how):
    """An answer during which `change(session)` happens when `rounds` rounds are done."""
    session = session_of(engine, max_tokens=LENGTH, **how)
    done = 0

    def on_event(event):
        nonlocal done
        done += isinstance(event, RoundFinished)
        if isinstance(event, RoundFinished) and done == rounds:
            change(session)

    return session, listen(session, session.send("hi"), on_event)


def set_draft(**options):
    def change(session):
        session.draft = replace(session.draft, **options)

    return change


def test_depth_changes_at_the_next_round(engine, plain):
    _, said = changed_after(engine, set_draft(depth=6), depth=2)
    assert [r.depth for r in said.rounds[:3]] == [2, 2, 2]
    assert {r.depth for r in said.rounds[3:]} == {6}
    assert max(r.drafted for r in said.rounds[3:]) == 6
    assert said.tokens == plain.tokens
    assert said.finished.stats.accepted > 0


def test_depth_zero_and_back(engine, plain):
    _, said = changed_after(engine, set_draft(depth=0), depth=3)
    assert {r.drafted for r in said.rounds[3:]} == {0}
    _, other = changed_after(engine, set_draft(depth=4), depth=3, rounds=1)
    assert said.tokens == other.tokens == plain.tokens


def test_source_none_in_mid_answer_and_back(engine, plain):
    session, said = changed_after(engine, set_draft(source="none"), depth=3)
    assert all(r.why is None and r.depth == 3 for r in said.rounds[:3])
    assert all(
        r.why is not None and r.why.code == "off" and r.drafted == 0 for r in said.rounds[3:]
    )
    assert said.tokens == plain.tokens
    history = session.messages
    session.draft = DraftOptions(depth=3)
    second = listen(session, session.send("more"))
    assert second.finished.stats.drafted > 0
    fresh = session_of(engine, depth=0, max_tokens=LENGTH)
    fresh.load_messages(history)
    assert second.tokens == listen(fresh, fresh.send("more")).tokens


def test_drafting_switched_on_in_mid_answer_waits_for_the_next(engine, plain):
    session, said = changed_after(engine, set_draft(source="mtp", depth=3), depth=0)
    assert [r.why.code for r in said.rounds] == ["off"] * 3 + ["head-unread"] * (LENGTH - 3)
    assert said.tokens == plain.tokens
    again = listen(session, session.regenerate())
    assert again.finished.stats.drafted > 0
    assert again.tokens == plain.tokens


@pytest.mark.parametrize("depth", [0, 3])
def test_prompt_lookup_begins_in_mid_answer(engine, plain, depth):
    change = set_draft(source="prompt-lookup", depth=3)
    _, said = changed_after(engine, change, depth=depth)
    later = [r.why.code if r.why else r.source for r in said.rounds[3:]]
    assert set(later) <= {"no-match", "prompt-lookup", None}
    assert said.tokens == plain.tokens


def test_another_model_begins_with_the_next_message(engine, plain):
    change = set_draft(source="prompt-lookup+mtp")
    session, said = changed_after(engine, change, depth=2)
    assert {r.why.code for r in said.rounds[3:]} == {"head-unread"}
    assert said.tokens == plain.tokens
    again = listen(session, session.regenerate())
    assert again.tokens == plain.tokens
    assert again.finished.stats.drafted > 0


def test_no_draft_model_was_given(engine, plain):
    _, said = changed_after(engine, set_draft(source="model"), depth=2)
    assert {r.why.code for r in said.rounds[3:]} == {"no-draft-model"}
    assert said.tokens == plain.tokens


def test_min_probability_shortens_drafts_from_the_next_round(engine, plain):
    _, said = changed_after(engine, set_draft(min_probability=0.999), depth=4)
    assert {r.drafted for r in said.rounds[:3]} == {4}
    assert sum(r.drafted for r in said.rounds[3:]) < 4
    assert said.tokens == plain.tokens
    _, back = changed_after(engine, set_draft(rule="greedy", min_probability=0.0), depth=4)
    assert back.tokens == plain.tokens


def test_auto_depth_keeps_the_words_and_gives_reasons(engine, plain):
    _, said = changed_after(engine, set_draft(depth="auto"), depth=2)
    assert said.tokens == plain.tokens
    assert all(r.why is not None for r in said.rounds if r.depth == 0 and r.drafted == 0)


@pytest.mark.parametrize("depth", [0, 3])
def test_sampling_changes_at_the_next_round(engine, plain, depth):
    """The words before the change stay, and those after are what the new options pick there."""

    def cool(session):
        session.sampling = replace(PICKS, temperature=0.0, seed=99)

    _, said = changed_after(engine, cool, depth=depth)
    kept = sum(r.emitted for r in said.rounds[:3])
    assert said.tokens[:kept] == plain.tokens[:kept]
    assert said.tokens != plain.tokens
    prompt = said.finished.stats.prompt_tokens
    tokens = [
        *engine.tokenize("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"),
        *said.tokens,
    ]
    rows = engine.logits(tokens)
    rows[:, list(PICKS.logit_bias)] += 6.0
    assert [*rows[prompt + kept - 1 : -1].argmax(-1)] == [*said.tokens[kept:]]
    assert said.finished.stats.seed == PICKS.seed


@pytest.mark.parametrize("depth", [0, 3])
def test_a_penalty_set_in_mid_answer_knows_what_was_said(engine, depth):
    """Two ways to the same place: the change at a token, and a continued answer with it."""
    forbid = replace(PICKS, logit_bias={}, temperature=0.0, frequency_penalty=10.0)

    def penalise(session):
        session.sampling = forbid

    start = replace(PICKS, temperature=0.0)
    _, said = changed_after(engine, penalise, depth=depth, sampling=start)
    kept = sum(r.emitted for r in said.rounds[:3])
    session = session_of(engine, start, 0, max_tokens=kept)
    listen(session, session.send("hi"))
    session.sampling = forbid
    session.generation = replace(session.generation, max_tokens=LENGTH - kept)
    assert listen(session, session.continue_answer()).tokens == said.tokens


def test_an_impossible_bias_in_mid_answer_is_an_error_that_passes(engine, plain):
    def spoil(session):
        session.sampling = SamplingOptions(logit_bias={10**6: 1.0})

    with pytest.raises(BadOption, match="1000000"):
        changed_after(engine, spoil)
    session = session_of(engine, max_tokens=LENGTH)
    assert listen(session, session.send("hi")).tokens == plain.tokens


def test_without_heads_every_round_says_why(tmp_path):
    engine = mlx_engine.load(tiny_folder(tmp_path / "with"))
    headless = mlx_engine.load(tiny_folder(tmp_path / "without", heads="none"))
    assert (engine.description.mtp, headless.description.mtp_heads) == (None, 0)
    said = []
    for one in (engine, headless):
        session = session_of(one, depth=3)
        said.append(listen(session, session.send("hi")))
    assert said[0].tokens == said[1].tokens
    assert all(r.why == headless.description.mtp for r in said[1].rounds)
    assert session.why_not_drafting == headless.description.mtp


def test_the_head_is_not_run_when_the_source_is_none(folder):
    engine, model = failing_engine(folder)
    model.heads[0].mtp_forward = None
    session = engine.session(sampling=PICKS, draft=PLAIN)
    session.generation = replace(session.generation, max_tokens=5)
    assert listen(session, session.send("hi")).tokens


def test_a_pinned_depth_shows_what_the_automatic_choice_would_be(engine):
    session = session_of(engine, depth=2)
    pinned = listen(session, session.send("The fox"))
    assert all(r.depth == 2 and r.auto_depth in range(9) for r in pinned.rounds)
    session.draft = DraftOptions(depth=0)
    off = listen(session, session.send("and"))
    session.draft = DraftOptions()
    auto = listen(session, session.send("again"))
    assert {r.auto_depth for r in (*off.rounds, *auto.rounds)} == {None}
