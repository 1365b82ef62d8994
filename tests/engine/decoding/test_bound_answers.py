"""Answers that a grammar binds: always of it, and the same words however they are drafted."""

import json
import re
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_schemas import SCHEMAS, check
from model_edits import drop_tensors
from session_runs import listen, thinking_folder

import mlx_engine
from mlx_engine.built_in_model import built_in_model
from mlx_engine.values.conversation import TURN_ENDS, GenerationFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "count", "tags"],
    "additionalProperties": False,
}
GRAMMARS = {
    "none": {},
    "schema": {"schema": SCHEMA},
    "regex": {"regex": r"[A-Z][a-z]{2,8} is (true|false)\."},
    "lark": {"grammar": 'start: "x" ("y" | "zz")+ "end"\n'},
}
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "warm": SamplingOptions(temperature=1.0, seed=3),
    "everything": SamplingOptions(
        temperature=2.0, seed=4, top_k=50, top_p=0.95, min_p=0.01, repetition_penalty=1.2
    ),
}
WAYS["unlikely"] = SamplingOptions(
    temperature=1.0,
    seed=5,
    xtc_probability=0.5,
    xtc_threshold=0.05,
    dry_multiplier=0.8,
    dry_allowed_length=1,
)
DRAFTS = {
    "depth 4": DraftOptions(depth=4),
    "copies": DraftOptions(depth=6, source="prompt-lookup+mtp"),
    "auto": DraftOptions(),
}


@pytest.fixture(scope="module")
def engine():
    with mlx_engine.load() as engine:
        yield engine


def answer(engine, sampling, draft, text="Join the paths.", **grammar):
    limits = GenerationOptions(80, **grammar)
    session = engine.session(sampling=sampling, draft=draft, generation=limits)
    return listen(session, session.send(text))


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(("schema", way) for way in WAYS),
        ("none", "unlikely"),
        ("regex", "everything"),
        ("lark", "warm"),
    ],
)
def test_the_words_are_the_same_with_any_draft(engine, kind, way):
    plain = answer(engine, WAYS[way], DraftOptions(source="none"), **GRAMMARS[kind])
    for draft in DRAFTS.values():
        drafted = answer(engine, WAYS[way], draft, **GRAMMARS[kind])
        assert (drafted.tokens, drafted.text, drafted.reason) == (
            plain.tokens, plain.text, plain.reason
        )  # fmt: skip
    if plain.reason == "end":
        if kind == "none":
            assert plain.text
        elif kind == "schema":
            found = json.loads(plain.text)
            assert [*found] == ["name", "count", "tags"]
            assert 0 <= found["count"] <= 99
        elif kind == "regex":
            assert re.fullmatch(GRAMMARS["regex"]["regex"], plain.text)
        else:
            assert re.fullmatch("x(y|zz)+end", plain.text)


def test_drafts_are_accepted(engine):
    said = answer(
        engine, WAYS["greedy"], DraftOptions(depth=4), regex=r"Join two or more [a-z ,']{20}"
    )
    assert said.finished.stats.accepted > 3


def test_tokens_that_must_follow_are_drafted(engine):
    """`{"name": "` is forced, and what stands between two values."""
    plain, drafted, auto = (
        answer(engine, WAYS["warm"], draft, schema=SCHEMA)
        for draft in (DraftOptions(source="none"), DraftOptions(depth=4), DraftOptions())
    )
    assert not plain.finished.stats.by_source
    for said in (drafted, auto):
        assert said.tokens == plain.tokens
        (forced,) = (part for part in said.finished.stats.by_source if part.source == "grammar")
        assert forced.accepted == forced.drafted >= 8
        assert said.finished.stats.passes <= len(plain.rounds) - 8
    assert any(piece.source == "grammar" and piece.depth == 3 for piece in drafted.pieces)


def test_a_model_without_heads_has_forced_tokens_drafted_too(tmp_path):
    shutil.copytree(built_in_model(), tmp_path / "m")
    drop_tensors(tmp_path / "m", "mtp.")
    with mlx_engine.load(tmp_path / "m") as engine:
        assert not engine.description.mtp_heads
        drafted = answer(engine, WAYS["greedy"], DraftOptions(depth=4), schema=SCHEMA)
        plain = answer(engine, WAYS["greedy"], DraftOptions(source="none"), schema=SCHEMA)
    assert drafted.tokens == plain.tokens
    assert drafted.finished.stats.accepted > 10 > plain.finished.stats.accepted == 0


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=SCHEMAS, seed=st.integers(0, 99))
def test_answers_are_of_any_schema(engine, schema, seed):
    check(engine, schema, seed)


def test_a_bound_answer_beside_a_free_one_changes_neither(engine):
    asked = [({}, DraftOptions(depth=3)), (GRAMMARS["schema"], DraftOptions(depth=2))]
    alone = [answer(engine, WAYS["warm"], draft, **grammar).text for grammar, draft in asked]
    running, together = [], {}
    for number, (grammar, draft) in enumerate(asked):
        limits = GenerationOptions(80, **grammar)
        session = engine.session(sampling=WAYS["warm"], draft=draft, generation=limits)
        running.append((number, session.send("Join the paths.")))
    while running:
        number, events = running.pop(0)
        for event in events:
            if isinstance(event, GenerationFinished):
                together[number] = event.text
            if isinstance(event, TURN_ENDS):
                running.append((number, events))
                break
    assert [together[0], together[1]] == alone


def test_a_stopped_answer_goes_on_in_its_grammar(engine):
    limits = GenerationOptions(5, schema=SCHEMA)
    session = engine.session(sampling=WAYS["warm"], generation=limits)
    list(session.send("Join the paths."))
    session.generation = GenerationOptions(80, schema=SCHEMA)
    *_, last = session.continue_answer()
    whole = answer(engine, WAYS["warm"], DraftOptions(), schema=SCHEMA)
    assert last.text == whole.text


def test_thinking_comes_before_the_grammar(tmp_path):
    with mlx_engine.load(thinking_folder(tmp_path / "m")) as engine:
        (close,) = engine.tokenize("</think>")
        sampling = SamplingOptions(temperature=1.0, seed=1, logit_bias={close: 4.0})
        texts = set()
        for draft in (DraftOptions(source="none"), DraftOptions(depth=3)):
            session = engine.session(
                sampling=sampling, draft=draft, generation=GenerationOptions(60, regex="(yes|no)!")
            )
            *_, last = session.send("hi")
            assert last.thinking
            texts.add((last.text, last.thinking))
        assert len(texts) == 1
        assert texts.pop()[0] in ("yes!", "no!")


@pytest.mark.parametrize("most", [0, 3])
def test_a_thought_has_as_many_tokens_as_it_may(tmp_path, most):
    with mlx_engine.load(thinking_folder(tmp_path / "m")) as engine:
        sampling = SamplingOptions(temperature=1.0, seed=2)
        texts = set()
        for draft in (DraftOptions(source="none"), DraftOptions(depth=3)):
            limits = GenerationOptions(12, max_thinking=most)
            session = engine.session(sampling=sampling, draft=draft, generation=limits)
            *_, last = session.send("hi")
            assert last.text
            (close,) = engine.tokenize("</think>")
            assert session.tokens[most] == close
            texts.add((last.text, last.thinking))
        assert len(texts) == 1
