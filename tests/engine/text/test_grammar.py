"""Grammars of answers: allowed tokens of every row against the library's matcher token by token."""

import json

import numpy as np
import pytest

from mlx_engine.built_in_model import built_in_model
from mlx_engine.text.grammar import GrammarTokens
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.errors import BadOption, EngineMisuse
from mlx_engine.values.options import GenerationOptions

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "yy"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
VOCABULARY = 3072


@pytest.fixture(scope="module")
def tokenizer():
    return read_tokenizer(built_in_model())


@pytest.fixture(scope="module")
def tokens(tokenizer):
    return GrammarTokens(tokenizer, VOCABULARY)


def bound(tokens, thought_end=None, **options):
    return tokens.bind(GenerationOptions(**options), thought_end).fresh()


def test_rows_of_a_draft_are_those_of_token_by_token(tokens, tokenizer):
    draft = tokenizer.encode('{"a": 12, "b": "yy"}')
    rows = bound(tokens, schema=SCHEMA).allowed(draft)
    assert rows.shape == (len(draft) + 1, VOCABULARY)
    walked = bound(tokens, schema=SCHEMA)
    for row, token in zip(rows, [*draft, None], strict=True):
        np.testing.assert_array_equal(row, walked.allowed([])[0])
        if token is not None:
            assert row[token]
            walked.commit([token])
    ends = np.flatnonzero(rows[-1])
    assert set(ends) == tokenizer.end_ids - {n for n in tokenizer.end_ids if n >= VOCABULARY}
    assert not rows[:-1, list(tokenizer.end_ids)].any()


def test_the_place_of_the_answer_stays(tokens, tokenizer):
    grammar = bound(tokens, schema=SCHEMA)
    first, second = tokenizer.encode('{"a": 1'), tokenizer.encode('2, "b": "x"}')
    grammar.commit(first)
    before = grammar.allowed([])[0]
    grammar.allowed(second)
    np.testing.assert_array_equal(grammar.allowed([])[0], before)
    np.testing.assert_array_equal(grammar.fresh().allowed(first)[-1], before)


def test_behind_what_is_not_allowed_everything_is(tokens, tokenizer):
    draft = [*tokenizer.encode('{"a"'), *tokenizer.encode("no"), *tokenizer.encode(": 1")]
    rows = bound(tokens, schema=SCHEMA).allowed(draft)
    place = len(tokenizer.encode('{"a"'))
    assert not rows[place, draft[place]]
    assert rows[place + 1 :].all()
    with pytest.raises(EngineMisuse, match="left its grammar"):
        bound(tokens, schema=SCHEMA).commit(draft)


def test_a_thought_is_free(tokens, tokenizer):
    grammar = bound(tokens, "</think>", regex="(yes|no)")
    thought, end = tokenizer.encode("so {"), tokenizer.encode("</think>")
    rows = grammar.allowed([*thought, *end, *tokenizer.encode("yes")])
    assert rows[: len(thought) + len(end)].all()
    np.testing.assert_array_equal(
        rows[len(thought) + len(end)], bound(tokens, regex="(yes|no)").allowed([])[0]
    )
    grammar.commit(thought)
    grammar.commit(end)
    assert not grammar.allowed([])[0].all()


def test_white_space_between_json_tokens_is_bounded(tokens, tokenizer):
    grammar = bound(tokens, schema=SCHEMA)
    (blank,) = tokenizer.encode(" ")
    grammar.commit(tokenizer.encode("{"))
    grammar.commit([blank])
    assert not grammar.allowed([])[0][blank]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schema": {"type": "nonsense"}}, "schema: no answer can be bound"),
        ({"schema": {"$ref": "#/nowhere"}}, "schema: no answer can be bound"),
        ({"regex": "(a"}, "regex: no answer can be bound"),
        ({"grammar": "start: ]"}, "grammar: no answer can be bound"),
    ],
)
def test_what_is_no_grammar_is_refused_in_words(tokens, options, words):
    with pytest.raises(BadOption, match=words):
        bound(tokens, **options)


def test_an_answer_has_one_grammar_at_most(tokens):
    assert tokens.bind(GenerationOptions(), None) is None
    with pytest.raises(BadOption, match="one of them only"):
        GenerationOptions(schema={}, regex="a")
    with pytest.raises(BadOption, match="schema="):
        GenerationOptions(schema=json.dumps(SCHEMA))
