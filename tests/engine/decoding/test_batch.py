"""Several conversations at once: each as if it were alone, in fewer passes of the weights."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import mlx.core as mx
import pytest
from model_edits import edit_config
from session_runs import PICKS, failing_engine, goes_on_as_a_fresh_one, listen, session_of
from tiny_published import publish

import mlx_engine
from mlx_engine.cache.recurrent import RecurrentCache
from mlx_engine.decoding.round import Pass
from mlx_engine.decoding.scheduler import BatchScheduler, outcome_reader
from mlx_engine.models.contract import PASSES_OF_ONE
from mlx_engine.models.decoder import Decoder, DecoderHead
from mlx_engine.values.conversation import TURN_ENDS, PromptProgress, RoundFinished
from mlx_engine.values.errors import NumericsError
from mlx_engine.values.options import (
    CacheOptions,
    DraftOptions,
    GenerationOptions,
    SamplingOptions,
)

PROMPTS = ("The quick fox", "Füchse 😀? " * 4, [5, 3], "and then the lazy dog")
WAYS = {
    "greedy": replace(PICKS, temperature=0.0),
    "drawn": PICKS,
    "penalised": replace(PICKS, top_k=12, repetition_penalty=1.2, frequency_penalty=0.3),
}
DRAFTS = {
    "none": DraftOptions(source="none"),
    **{f"depth {depth}": DraftOptions(depth=depth) for depth in (0, 1, 4)},
    "auto": DraftOptions(),
    "lookup": DraftOptions(source="prompt-lookup", depth=3),
    "hesitant": DraftOptions(depth=3, min_probability=0.05),
}
FORMATS = {"few bits": CacheOptions(4, 8)}


def everywhere(engine, *, looks_ahead=True):
    """Its parts, as where a GPU computes."""
    batch = BatchScheduler(engine.parts.batch.most_rows, outcome_reader())
    batch.looks_ahead, batch.follows_drafts = looks_ahead, True
    return replace(engine.parts, batch=batch)


@pytest.fixture(params=[False, True], ids=["waits", "ahead"])
def looks_ahead(request, engine, monkeypatch):
    """Whether rounds are begun before the outcome of the last is known."""
    monkeypatch.setattr(engine, "_parts", everywhere(engine, looks_ahead=request.param))
    return request.param


@pytest.fixture
def passes(monkeypatch):
    """[rows] of each pass of the trunk, of a round as of a prompt."""
    rows, read = [], Decoder._forward

    def counted(self, tokens, caches, **more):
        rows.append(tokens.shape[1])
        return read(self, tokens, caches, **more)

    monkeypatch.setattr(Decoder, "_forward", counted)
    return rows


@pytest.fixture(scope="module")
def said_alone():
    """Answers of each prompt by itself, by way and draft: the same whether rounds wait or not."""
    return {}


@pytest.mark.parametrize(
    ("way", "draft"),
    [
        *((way, "depth 1") for way in WAYS),
        *(("drawn", draft) for draft in DRAFTS),
        ("few bits", "depth 1"),
    ],
)
@pytest.mark.usefixtures("looks_ahead")
def test_each_of_many_is_what_it_is_alone(engine, passes, said_alone, way, draft):
    asked = {
        "max_tokens": 12,
        "sampling": WAYS.get(way, PICKS),
        "draft": DRAFTS[draft],
        "cache": FORMATS.get(way, CacheOptions()),
        "stop": ["qu", " sl"],
    }
    if (way, draft) not in said_alone:
        said_alone[way, draft] = [engine.generate(prompt, **asked) for prompt in PROMPTS]
    alone, before = said_alone[way, draft], len(passes)
    many = engine.generate_many(PROMPTS, **asked)
    assert [its.tokens for its in many] == [its.tokens for its in alone]
    assert [its.text for its in many] == [its.text for its in alone]
    assert [its.finish_reason for its in many] == [its.finish_reason for its in alone]
    assert [its.stats.seed for its in many] == [its.stats.seed for its in alone]
    rounds = sum(its.stats.passes for its in many)
    prompts = sum(its.stats.prompt_tokens for its in many) // 8 + 2 * len(many)
    assert len(passes) - before < 0.6 * rounds + prompts


@pytest.mark.usefixtures("looks_ahead")
def test_heads_draft_for_all_in_the_same_passes(engine, monkeypatch):
    """And each the same drafts as alone."""
    passes, read = [], DecoderHead.mtp_forward

    def counted(self, tokens, hidden, caches):
        passes.append(tokens.shape[1])
        return read(self, tokens, hidden, caches)

    monkeypatch.setattr(DecoderHead, "mtp_forward", counted)
    asked = {"max_tokens": 24, "sampling": PICKS, "draft": DraftOptions(depth=3)}
    alone = [engine.generate(prompt, ignore_eos=True, **asked) for prompt in PROMPTS]
    each = len(passes)
    many = engine.generate_many(PROMPTS, ignore_eos=True, **asked)
    assert [its.tokens for its in many] == [its.tokens for its in alone]
    by_depth = [its.stats.accepted_by_depth for its in many]
    assert by_depth == [its.stats.accepted_by_depth for its in alone]
    assert len(passes) - each < 0.4 * each


@pytest.mark.parametrize("kind", ["recurrent", "windowed", "attention"])
def test_words_and_drafts_are_the_same_with_memories_of_all_kinds(folders, kind):
    """Where only the device knows how many drafts were right when the next pass is begun."""
    engine = mlx_engine.load(folders[kind])
    engine._parts = everywhere(engine)
    prompts = [[(7 * n * step + 3) % 200 for n in range(20)] for step in (2, 3, 5)]
    sampling = replace(PICKS, temperature=0.6)
    asked = {"max_tokens": 30, "sampling": sampling, "draft": DraftOptions(depth=2)}
    alone = [engine.generate(prompt, ignore_eos=True, **asked) for prompt in prompts]
    many = engine.generate_many(prompts, ignore_eos=True, **asked)
    assert [its.tokens for its in many] == [its.tokens for its in alone]
    accepted = [its.stats.accepted_by_depth for its in many]
    assert accepted == [its.stats.accepted_by_depth for its in alone]
    assert len(set(accepted)) > 1, "or no two of them ever differed"


class Waits(NamedTuple):
    """What was known whenever an outcome was waited for: rows of the pass, and passes begun."""

    rows: int
    begun: int


@pytest.fixture
def waits(monkeypatch):
    seen, begun, write, wait = [], itertools.count(1), Pass.__init__, Pass.await_outcome
    number = 0

    def written(its, *given, **more):
        nonlocal number
        number = next(begun)
        write(its, *given, **more)

    def waited(its, **more):
        seen.append(Waits(its.rows, number))
        wait(its, **more)

    monkeypatch.setattr(Pass, "__init__", written)
    monkeypatch.setattr(Pass, "await_outcome", waited)
    return seen


@pytest.mark.parametrize("depth", [0, 2])
def test_what_follows_is_queued_for_all_before_any_outcome_is_read(
    engine, monkeypatch, waits, depth
):
    """One that begins later soon shares their passes; after a while there is one pass a round."""
    monkeypatch.setattr(engine, "_parts", everywhere(engine))
    chats = [session_of(engine, depth=depth, max_tokens=30) for _ in range(3)]
    talks = [chat.send(text) for chat, text in zip(chats, ("hi", "ho", "hu"), strict=True)]
    rounds = [0, 0, 0]

    def counted(number, event):
        rounds[number] += isinstance(event, RoundFinished)

    for number in (0, 1):
        next(event for event in talks[number] if isinstance(event, RoundFinished))
    waits.clear()
    in_turns(talks, counted)
    full = [seen for seen in waits if seen.rows == 3 * (depth + 1)]
    assert len(full) > 0.5 * max(rounds)
    settled = [seen.begun for seen in full[1:8]]
    steps = [after - before for before, after in itertools.pairwise(settled)]
    assert steps == [1] * len(steps), "one pass a round, of all"
    assert settled[0] > waits.index(full[1]) + 3, "and the next is queued when it is waited for"


def test_where_one_has_to_read_its_words_first_all_wait_and_share(engine, monkeypatch, waits):
    monkeypatch.setattr(engine, "_parts", everywhere(engine))
    drafts = (DraftOptions(depth=2), DraftOptions(source="prompt-lookup", depth=2))
    limits = GenerationOptions(max_tokens=20)
    chats = [engine.session(sampling=PICKS, draft=draft, generation=limits) for draft in drafts]
    in_turns([chat.send("hi") for chat in chats], nothing)
    shared = engine.parts.batch.shared
    assert shared > 0.8 * min(chat.stats.passes for chat in chats)


def test_a_model_whose_passes_cannot_be_shared_is_driven_by_turns(tmp_path, passes):
    """And its description says so."""
    folder = tmp_path / "long"
    publish("phi3", folder)
    factors = [1.5 + 0.5 * step for step in range(8)]
    scaling = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": factors,
        "long_factor": factors[::-1],
        "original_max_position_embeddings": 16,
    }
    edit_config(folder, rope_parameters=scaling, original_max_position_embeddings=16)
    engine = mlx_engine.load(folder)
    assert PASSES_OF_ONE in engine.description.declined
    asked = {"max_tokens": 6, "sampling": WAYS["greedy"], "ignore_eos": True}
    alone = [engine.generate(prompt, **asked).tokens for prompt in PROMPTS[:3]]
    passes.clear()
    assert [its.tokens for its in engine.generate_many(PROMPTS[:3], **asked)] == alone
    assert passes.count(1) >= 15


def test_more_than_fit_into_a_pass_follow_one_another(engine, passes):
    prompts = [[5, number, 3] for number in range(20)]
    asked = {"max_tokens": 3, "sampling": PICKS, "draft": DRAFTS["none"], "ignore_eos": True}
    alone = [engine.generate(prompt, **asked).tokens for prompt in prompts]
    passes.clear()
    assert [its.tokens for its in engine.generate_many(prompts, **asked)] == alone
    assert max(passes) == 16
    assert engine.generate_many([]) == []


@pytest.mark.usefixtures("looks_ahead")
def test_each_of_many_has_its_own_stop(engine):
    rounds = itertools.count()
    asked = {"max_tokens": 9, "sampling": PICKS, "ignore_eos": True, "draft": DRAFTS["none"]}
    first, second = engine.generate_many(
        ["hi", "ho"], should_stop=lambda number: number == 0 and next(rounds) > 3, **asked
    )
    assert first.finish_reason == "stopped"
    assert 0 < len(first.tokens) < 9 == len(second.tokens)
    assert second.tokens == engine.generate("ho", **asked).tokens


@pytest.mark.usefixtures("looks_ahead")
def test_one_that_fails_ends_those_beside_it(engine):
    def fails(number):
        if number == 1:
            raise ValueError("a caller's own")
        return False

    with pytest.raises(ValueError, match="own") as held:
        engine.generate_many(PROMPTS, max_tokens=9, should_stop=fails)
    assert held.value.__traceback__ is not None, "which holds all that the call had"
    assert engine.parts.batch.running_answers == 0


class Chat(NamedTuple):
    """What a chat is asked, and how."""

    text: str
    sampling: SamplingOptions = PICKS
    depth: int = 2
    max_tokens: int = 14
    stop: tuple[str, ...] = ()

    def session(self, engine):
        return session_of(engine, self.sampling, self.depth, self.max_tokens, self.stop)


CHATS = (
    Chat("The quick fox", WAYS["greedy"]),
    Chat("hello", depth=3, max_tokens=5),
    Chat("Füchse 😀?", WAYS["penalised"], depth=0),
    Chat("dogs", replace(PICKS, temperature=1.1, seed=3), depth=1, stop=("e",)),
)


@pytest.fixture(scope="module")
def truth(engine):
    """Tokens of each chat's answer when it runs alone and waits for its rounds."""
    return [list_of(chat.session(engine), chat) for chat in CHATS]


def in_turns(events: list[Iterator[object]], after: Callable[[int, object], None]) -> None:
    """Every conversation's rounds by turns, to the end of all; after: each event."""
    running = dict(enumerate(events))
    while running:
        for number, its in list(running.items()):
            for event in its:
                after(number, event)
                if isinstance(event, TURN_ENDS):
                    break
            else:
                running.pop(number, None)


def nothing(number: int, event: object) -> None:
    pass


@pytest.mark.usefixtures("looks_ahead")
def test_sessions_driven_in_turns_say_what_they_say_alone(engine, passes):
    alone = [chat.session(engine) for chat in CHATS]
    said = [listen(its, its.send(chat.text)) for its, chat in zip(alone, CHATS, strict=True)]
    alone_passes = len(passes)
    passes.clear()
    sessions = [chat.session(engine) for chat in CHATS]
    heard = [[] for _ in CHATS]
    in_turns(
        [its.send(chat.text) for its, chat in zip(sessions, CHATS, strict=True)],
        lambda number, event: heard[number].append(event),
    )
    again = [listen(session, its) for session, its in zip(sessions, heard, strict=True)]
    assert [(its.tokens, its.text, its.reason) for its in again] == [
        (its.tokens, its.text, its.reason) for its in said
    ]
    assert len(passes) < 0.75 * alone_passes
    assert engine.parts.batch.running_answers == 0
    for session in sessions:
        session.generation = GenerationOptions(max_tokens=8)
        goes_on_as_a_fresh_one(engine, session)


@pytest.mark.usefixtures("looks_ahead")
def test_one_event_from_each_by_turns_is_as_good(engine, truth):
    """Nothing depends on the order in which somebody drives them."""
    sessions = [chat.session(engine) for chat in CHATS]
    events = [its.send(chat.text) for its, chat in zip(sessions, CHATS, strict=True)]
    for _ in itertools.zip_longest(*events):
        pass
    assert [session.tokens for session in sessions] == truth


def list_of(session, chat):
    return listen(session, session.send(chat.text)).tokens


@pytest.mark.usefixtures("looks_ahead")
@pytest.mark.parametrize("end", ["stop", "close", "error", "forget", "settings", "NaN"])
@pytest.mark.parametrize("at", [1, 3])
def test_what_ends_one_leaves_the_others_alone(engine, truth, end, at):
    sessions = [chat.session(engine) for chat in CHATS]
    events = [its.send(chat.text) for its, chat in zip(sessions, CHATS, strict=True)]
    rounds = itertools.count(1)

    def meddle(number, event):
        if number != 0 or not isinstance(event, RoundFinished) or next(rounds) != at:
            return
        match end:
            case "stop":
                sessions[0].stop()
            case "close":
                events[0].close()
            case "error":
                with pytest.raises(ZeroDivisionError):
                    events[0].throw(ZeroDivisionError)
            case "forget":  # as of a chat that is thrown away
                sessions[0].forget()
                sessions[0].stop()
            case "settings":
                sessions[0].draft = DraftOptions(depth=4)
            case "NaN":
                poison(sessions[0])

    try:
        in_turns(events, meddle)
        assert end != "NaN"
    except NumericsError:
        assert end == "NaN"
        in_turns(events[1:], nothing)
    assert [session.tokens for session in sessions[1:]] == truth[1:]
    first = sessions[0].tokens
    assert first == (truth[0] if end == "settings" else truth[0][: len(first)])
    sessions[0].generation = GenerationOptions(max_tokens=6)
    goes_on_as_a_fresh_one(engine, sessions[0])


def poison(session):
    """Its memory, so that its next rows are NaN."""
    for cache in session._sequence.caches.layers:
        if isinstance(cache, RecurrentCache):
            cache._committed = cache._committed_snapshot._replace(
                state=cache._committed_snapshot.state * mx.nan
            )


def test_an_error_of_the_device_is_every_ones_who_was_in_the_pass(folder):
    """Nobody knows what was written: each reads anew, or says what went wrong, and goes on."""
    engine, model = failing_engine(folder)
    sessions = [chat.session(engine) for chat in CHATS[:2]]
    events = [its.send(chat.text) for its, chat in zip(sessions, CHATS, strict=False)]
    for its in events:
        next(event for event in its if isinstance(event, RoundFinished))
    next(event for event in events[0] if isinstance(event, RoundFinished))
    model.faults = iter([RuntimeError("the device is gone")])
    for its in reversed(events):
        with pytest.raises(RuntimeError, match="the device is gone"):
            list(its)
    for session in sessions:
        session.generation = GenerationOptions(max_tokens=8)
        goes_on_as_a_fresh_one(engine, session)


def test_what_survives_an_error_in_a_joint_pass_says_the_same_words(folder, monkeypatch):
    engine, model = failing_engine(folder)
    monkeypatch.setattr(engine, "_parts", replace(engine.parts, can_retry=lambda error: True))
    asked = {"max_tokens": 10, "sampling": PICKS, "ignore_eos": True}
    truth = [engine.generate(prompt, **asked).tokens for prompt in PROMPTS[:3]]
    model.faults = itertools.chain([None] * 10, [RuntimeError("a kernel")])
    assert [its.tokens for its in engine.generate_many(PROMPTS[:3], **asked)] == truth
    assert next(model.faults, "raised") == "raised"


def test_a_long_prompt_is_read_between_the_rounds_of_others(engine):
    talking, reading = session_of(engine, max_tokens=40), session_of(engine, max_tokens=3)
    order = []
    talk = talking.send("hi")
    next(event for event in talk if isinstance(event, RoundFinished))
    in_turns(
        [talk, reading.send("The lazy dog sleeps. " * 9)],
        lambda number, event: order.append((number, event)),
    )
    done = [event.done for number, event in order if isinstance(event, PromptProgress)]
    steps = [after - before for before, after in itertools.pairwise(done)]
    assert set(steps[:4]) == {engine.parts.chunk}, "as alone: numbers may depend on it"
    kinds = [number for number, event in order if isinstance(event, TURN_ENDS)]
    busy = kinds[: kinds.index(1) + 2 * 6]
    assert [len(list(run)) for _, run in itertools.groupby(busy)][:-1] == [1] * (len(busy) - 1)


def test_one_that_is_not_driven_any_more_costs_the_others_one_round(engine, passes):
    idle, busy = session_of(engine, depth=0), session_of(engine, depth=0, max_tokens=20)
    started = idle.send("hi")
    both = [started, busy.send("ho")]
    for its in (*both, *both):
        next(event for event in its if isinstance(event, RoundFinished))
    passes.clear()
    list(both[1])
    assert passes[:2] in ([2, 1], [1, 1])
    assert set(passes[1:]) == {1}
    truth = session_of(engine, depth=0)
    list(started)
    assert idle.tokens == listen(truth, truth.send("hi")).tokens


@pytest.mark.parametrize("draft", ["none", "depth 4"])
def test_times_and_memory_are_told_of_each(engine, draft):
    """A pass that others share is time of each, and so are its drafts; what one begins does not
    hide another's peak.
    """
    asked = {"max_tokens": 12, "sampling": PICKS, "ignore_eos": True, "draft": DRAFTS[draft]}
    for its in engine.generate_many(PROMPTS, **asked):
        stats = its.stats
        assert stats.tokens_per_second > 0
        assert stats.verify_ms > 0
        assert (stats.draft_ms > 0) == (stats.drafted > 0)
        assert stats.peak_memory_bytes > 0
