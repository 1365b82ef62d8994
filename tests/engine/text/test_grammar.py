"""Grammars of answers: allowed tokens of every row against the library's matcher token by token."""

import json

import numpy as np
import pytest

from mlx_engine.built_in_model import built_in_model
from mlx_engine.text.channels import THINKING, ThinkingMarkers
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


def bound(tokens, is_thinking=False, **options):
    return tokens.bind_grammar(GenerationOptions(**options), THINKING[0], is_thinking).reset_copy()


def test_rows_of_a_draft_are_those_of_token_by_token(tokens, tokenizer):
    draft = tokenizer.encode('{"a": 12, "b": "yy"}')
    rows = bound(tokens, schema=SCHEMA).allowed_tokens(draft)
    assert rows.shape == (len(draft) + 1, VOCABULARY)
    walked = bound(tokens, schema=SCHEMA)
    for row, token in zip(rows, [*draft, None], strict=True):
        np.testing.assert_array_equal(row, walked.allowed_tokens([])[0])
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
    before = grammar.allowed_tokens([])[0]
    grammar.allowed_tokens(second)
    np.testing.assert_array_equal(grammar.allowed_tokens([])[0], before)
    np.testing.assert_array_equal(grammar.reset_copy().allowed_tokens(first)[-1], before)


def test_a_draft_ends_before_what_is_not_allowed(tokens, tokenizer):
    draft = [*tokenizer.encode('{"a"'), *tokenizer.encode("no"), *tokenizer.encode(": 1")]
    rows = bound(tokens, schema=SCHEMA).allowed_tokens(draft)
    place = len(tokenizer.encode('{"a"'))
    assert len(rows) == place + 1
    assert not rows[place, draft[place]]
    assert len(bound(tokens, schema=SCHEMA).allowed_tokens([-1, 5])) == 1
    with pytest.raises(EngineMisuse, match="left its grammar"):
        bound(tokens, schema=SCHEMA).commit(draft)


def test_a_thought_is_free(tokens, tokenizer):
    grammar = bound(tokens, True, regex="(yes|no)")
    thought, end = tokenizer.encode("so {"), tokenizer.encode("</think>")
    rows = grammar.allowed_tokens([*thought, *end, *tokenizer.encode("yes")])
    assert rows[: len(thought) + len(end)].all()
    np.testing.assert_array_equal(
        rows[len(thought) + len(end)], bound(tokens, regex="(yes|no)").allowed_tokens([])[0]
    )
    grammar.commit(thought)
    grammar.commit(end)
    assert not grammar.allowed_tokens([])[0].all()


def test_a_model_may_open_a_thought_itself(tokens, tokenizer):
    (opening,), (closing,) = tokenizer.encode("<think>"), tokenizer.encode("</think>")
    grammar = bound(tokens, None, regex="(yes|no)")
    plain = bound(tokens, regex="(yes|no)").allowed_tokens([])[0]
    first = grammar.allowed_tokens([])[0]
    assert first[opening]
    assert not plain[opening]
    first[opening] = False
    np.testing.assert_array_equal(first, plain)
    rows = grammar.allowed_tokens([opening, 5, closing])
    assert rows[1:3].all()
    np.testing.assert_array_equal(rows[3], plain)
    grammar.commit(tokenizer.encode("yes"))
    assert set(np.flatnonzero(grammar.allowed_tokens([])[0])) <= tokenizer.end_ids


def test_a_thought_is_closed_at_its_limit(tokens, tokenizer):
    (closing,) = tokenizer.encode("</think>")
    grammar = bound(tokens, True, max_thinking=3)
    rows = grammar.allowed_tokens([5, 6, 7, closing, 8])
    assert rows[:3].all()
    assert list(np.flatnonzero(rows[3])) == [closing]
    assert rows[4].all()
    grammar.commit([5, 6])
    assert list(np.flatnonzero(grammar.allowed_tokens([7])[1])) == [closing]
    assert grammar.allowed_tokens([closing])[1].all()
    assert list(np.flatnonzero(bound(tokens, True, max_thinking=0).allowed_tokens([])[0])) == [
        closing
    ]


def test_a_marker_of_several_tokens_is_written_whole(tokenizer):
    marker = ThinkingMarkers("Thought:", "So the answer:")
    grammar = GrammarTokens(tokenizer, VOCABULARY).bind_grammar(
        GenerationOptions(max_thinking=2), marker, True
    )
    closing = tokenizer.encode(marker.closing)
    assert len(closing) > 2
    for begun in range(2):
        place = grammar.reset_copy()
        place.commit([9, 9, *closing[:begun]])
        for token in closing[begun:]:
            assert list(np.flatnonzero(place.allowed_tokens([])[0])) == [token]
            place.commit([token])
        assert place.allowed_tokens([])[0].all()


def test_what_must_follow_is_told_as_text_is_tokenised(tokens, tokenizer):
    grammar = bound(tokens, regex="(yes|no), it is so(!|\\?)")
    assert not grammar.forced_tokens()
    grammar.commit(tokenizer.encode("yes"))
    forced = grammar.forced_tokens()
    assert tokenizer.decode([*tokenizer.encode("yes"), *forced]).startswith("yes, it is")
    assert forced == tokenizer.encode(", it is so")[: len(forced)]
    assert len(grammar.allowed_tokens(forced)) == len(forced) + 1
    grammar.commit(forced)
    (closing,) = tokenizer.encode("</think>")
    thinking = bound(tokens, True, max_thinking=1)
    assert not thinking.forced_tokens()
    thinking.commit([5])
    assert thinking.forced_tokens() == [closing]


def test_white_space_between_json_tokens_is_bounded(tokens, tokenizer):
    grammar = bound(tokens, schema=SCHEMA)
    (blank,) = tokenizer.encode(" ")
    grammar.commit(tokenizer.encode("{"))
    grammar.commit([blank])
    assert not grammar.allowed_tokens([])[0][blank]


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
    assert tokens.bind_grammar(GenerationOptions(), None, None) is None
    assert tokens.bind_grammar(GenerationOptions(max_thinking=3), None, None) is None
    with pytest.raises(BadOption, match="one of them only"):
        GenerationOptions(schema={}, regex="a")
    with pytest.raises(BadOption, match="schema="):
        GenerationOptions(schema=json.dumps(SCHEMA))
