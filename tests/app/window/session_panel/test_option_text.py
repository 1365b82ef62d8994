"""Stop strings and logit biases survive being shown and read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.window.session_panel.sampling_group import (
    logit_bias_text,
    read_logit_bias,
    read_stop,
    stop_text,
)
from mlx_engine.values.errors import BadOption

PLAIN = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\t\\n ")


@given(st.lists(st.text(PLAIN, min_size=1), max_size=4))
def test_stop_strings_come_back(stop):
    assert read_stop(stop_text(tuple(stop))) == tuple(stop)


def test_empty_lines_are_no_stop_strings():
    assert read_stop("\n\nEND\n") == ("END",)


@given(st.dictionaries(st.integers(0, 999_999), st.floats(-1000, 1000), max_size=5))
def test_biases_come_back(biases):
    assert read_logit_bias(logit_bias_text(biases)) == biases


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("12", "Line 1"),
        ("1: 2\nx: 3", "Line 2"),
        ("5: high", "“high” is not a number"),
        ("-1: 2", "Line 1"),
        ("99999999999999: 1", "Line 1"),
    ],
)
def test_mistakes_are_named(text, words):
    with pytest.raises(BadOption, match=words):
        read_logit_bias(text)
