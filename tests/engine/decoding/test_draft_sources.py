"""Every source keeps the words of a whole conversation; bad draft models are told in words."""

from dataclasses import replace
from itertools import count

import pytest
from session_runs import (
    PICKS,
    four_answers,
    goes_on_as_a_fresh_one,
    listen,
    session_of,
    tiny_folder,
    words_of,
)
from waits import check, watched

import mlx_engine
from mlx_engine.drafting.drafter import FLUSH_ROWS
from mlx_engine.values.options import DraftOptions, LoadOptions

LENGTH = 10
SOURCES = {
    "mtp": DraftOptions(output="4-bit"),
    "reduced": DraftOptions(output="frequent", vocabulary=256),
    "prompt-lookup": DraftOptions(source="prompt-lookup"),
    "model": DraftOptions(source="model"),
    "prompt-lookup+mtp": DraftOptions(source="prompt-lookup+mtp", output="4-bit"),
    "prompt-lookup+model": DraftOptions(source="prompt-lookup+model", min_probability=0.1),
}
PENALISED = replace(PICKS, temperature=1.0, repetition_penalty=1.1, presence_penalty=0.3, top_k=9)
WAYS = {"greedy": replace(PICKS, temperature=0.0), "warm": PICKS, "penalised": PENALISED}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("small") / "m")


@pytest.fixture(scope="module")
def engine(folder, small):
    return mlx_engine.load(folder, options=LoadOptions(draft_model=small))


@pytest.fixture(scope="module")
def plain(engine):
    none = DraftOptions(source="none")
    return {way: words_of(four_answers(engine, sampling, none)) for way, sampling in WAYS.items()}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_keeps_the_words(engine, plain, name):
    drafted = 0
    for number, way in enumerate(WAYS):
        for depth in (4, "auto") if way == "warm" else (number + 2,):
            draft = replace(SOURCES[name], depth=depth)
            answers = four_answers(engine, WAYS[way], draft)
            assert words_of(answers) == plain[way], (way, depth)
            rounds = [r for answer in answers for r in answer.rounds]
            drafted += sum(r.drafted for r in rounds)
            assert {r.source for r in rounds if r.drafted} <= set(draft.source.split("+"))
            assert all(r.draft_passes >= r.drafted for r in rounds if r.source in ("mtp", "model"))
    assert drafted > 10


@pytest.mark.parametrize("source", ["model", "prompt-lookup+model"])
@pytest.mark.parametrize("stop_after", [None, 0, 1, 4])
def test_a_draft_model_that_comes_late_reads_in_chunks(engine, monkeypatch, source, stop_after):
    """With progress, stopped within a chunk, and going on where it was stopped."""
    small, chunk = engine.parts.drafting.small.loaded_model, engine.parts.chunk
    rows, forward = [], small.forward

    def counted(tokens, caches):
        rows.append(tokens.shape[1])
        return forward(tokens, caches)

    session = session_of(engine, depth=0)
    listen(session, session.send("The lazy dog sleeps. " * 20))
    known = len(session._sequence.tokens)
    monkeypatch.setattr(small, "forward", counted)
    session.draft = DraftOptions(source=source, depth=3)
    if stop_after is not None:
        seen = count()

        def stop_in_time(event):
            if next(seen) == stop_after:
                session.stop()

        said = listen(session, session.send("hi"), stop_in_time)
        assert (said.reason, said.rounds) == ("stopped", ())
        assert len(said.progress) == stop_after + 1
        assert sum(rows) <= stop_after * chunk < known
        session.load_messages(session.messages[:-1])
    said = listen(session, session.send("hi"))
    assert max(rows) <= chunk + FLUSH_ROWS
    steps = [progress.done for progress in said.progress]
    assert steps == sorted(steps)
    assert steps[0] == (stop_after or 0) * chunk == said.finished.stats.reused_tokens
    assert len(steps) > known // chunk - (stop_after or 0)
    assert any(r.drafted for r in said.rounds)
    goes_on_as_a_fresh_one(engine, session)


def test_the_model_itself_is_the_best_draft_model(folder):
    """All of its drafts stand, at any temperature: both sides use the noise of the position."""
    engine = mlx_engine.load(folder, options=LoadOptions(draft_model=folder))
    session = session_of(engine, PICKS, depth=0, max_tokens=17)
    session.draft = DraftOptions(source="model", depth=3)
    said = listen(session, session.send("The fox"))
    stats = said.finished.stats
    assert stats.accepted >= stats.drafted - 3
    assert {piece.source for piece in said.pieces if piece.depth} == {"model"}
    assert {piece.source for piece in said.pieces if not piece.depth} == {None}


def test_the_output_in_effect_is_told_and_shared(engine):
    sessions = [session_of(engine, depth=1, max_tokens=3) for _ in range(2)]
    for session in sessions:
        assert session.draft_output is None
        session.draft = DraftOptions(depth=1, output="4-bit")
        listen(session, session.send("hi"))
        assert session.draft_output == "4-bit"
    heads = [session._sequence.drafter._outputs[0] for session in sessions]
    assert heads[0] is heads[1]
    sessions[0].draft = DraftOptions(depth=1)
    listen(sessions[0], sessions[0].send("hi"))
    assert (sessions[0].draft_output, sessions[1].draft_output) == ("full", "4-bit")


@pytest.mark.parametrize("source", ["mtp", "model"])
def test_the_host_waits_for_no_drafted_token(engine, source):
    session = session_of(engine, PICKS, depth=3, max_tokens=90)
    session.draft = DraftOptions(source=source, depth=3)
    listen(session, session.send("The fox"))
    with watched() as found:
        listen(session, session.send("and the hen"))
    check(found)
    session.draft = DraftOptions(source=source, depth=3, min_probability=0.2)
    with watched() as found:
        listen(session, session.send("and the dog"))
    check(found, waits=1)


def test_a_draft_that_ends_early_has_cost_a_pass(engine):
    session = session_of(engine, depth=3, max_tokens=8)
    session.draft = DraftOptions(depth=3, min_probability=0.999)
    rounds = listen(session, session.send("The fox")).rounds
    assert any(r.draft_passes and not r.drafted for r in rounds)


def test_without_heads_the_combination_looks_up_alone(tmp_path):
    tiny_folder(tmp_path / "m", heads="none")
    engine = mlx_engine.load(tmp_path / "m")
    session = session_of(engine, depth=0, max_tokens=16)
    session.draft = DraftOptions(source="prompt-lookup+mtp", depth=2)
    rounds = listen(session, session.send("The fox, the fox, the fox, the")).rounds
    assert session.why_not_drafting is None
    assert {r.source for r in rounds} <= {None, "prompt-lookup"}
    assert {r.why.code for r in rounds if r.why} <= {"heads-dropped", "no-heads"}


def test_heads_that_cannot_be_read_any_more(tmp_path, plain):
    """The files changed after the load: plain decoding, with the reason."""
    tiny_folder(tmp_path / "m", heads="beside")
    engine = mlx_engine.load(tmp_path / "m")
    for file in (tmp_path / "m").rglob("*.safetensors"):
        file.write_bytes(b"")
    session = session_of(engine, PICKS, depth=2, max_tokens=LENGTH)
    said = listen(session, session.send("The fox, the fox, the fox"))
    assert said.tokens == plain["warm"][0][0]
    assert {r.why.code for r in said.rounds} == {"draft-unreadable"}
    assert session.why_not_drafting.code == "draft-unreadable"
    session.draft = DraftOptions(source="prompt-lookup", depth=2)
    again = listen(session, session.regenerate())
    assert again.tokens == said.tokens
    assert "draft-unreadable" not in {r.why.code for r in again.rounds if r.why}


def test_stop_before_the_first_step(engine):
    """An answer that is stopped before its first event is asked for does not begin."""
    session = session_of(engine, max_tokens=6)
    events = session.send("The fox")
    session.stop()
    said = listen(session, events)
    assert (said.reason, said.tokens) == ("stopped", ())
    assert listen(session, session.send("The fox")).reason == "max-tokens"


def test_generate_keeps_what_it_learned(engine):
    """The first guess of a later call is what the earlier ones have seen."""
    engine.generate("The fox", max_tokens=30, draft=DraftOptions(depth=2), ignore_eos=True)
    acceptance = engine._generated.source_policy("mtp").acceptance
    assert acceptance.is_measured
    engine.generate("The fox", max_tokens=4, draft=DraftOptions(depth=2), ignore_eos=True)
    assert engine._generated.source_policy("mtp").acceptance is acceptance


def test_a_draft_model_that_cannot_be_read_does_not_stop_the_heads(folder, tmp_path):
    small = tiny_folder(tmp_path / "small")
    engine = mlx_engine.load(folder, options=LoadOptions(draft_model=small))
    for file in small.rglob("*.safetensors"):
        file.write_bytes(b"")
    session = session_of(engine, PICKS, depth=0, max_tokens=LENGTH)
    session.draft = DraftOptions(source="model", depth=2)
    said = listen(session, session.send("The fox, the fox, the fox"))
    assert {r.why.code for r in said.rounds} == {"draft-unreadable"}
    session.draft = DraftOptions(depth=2)
    assert session.why_not_drafting is None
    again = listen(session, session.regenerate())
    assert again.tokens == said.tokens
    assert {r.source for r in again.rounds if r.drafted} == {"mtp"}
