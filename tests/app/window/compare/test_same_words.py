"""The verdict is right about every pair of texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.window.compare_view import common_words, gain, verdict
from mlx_engine.values.stats import GenerationStats

TEXT = st.text(st.sampled_from("ab \n"), max_size=20)


def stats(tokens=10, speed=10.0, drafted=0):
    return GenerationStats(generated_tokens=tokens, tokens_per_second=speed, drafted=drafted)


@given(TEXT, TEXT)
def test_different_texts_are_never_called_the_same(one, other):
    assert verdict(one, other, stats(), stats()).startswith("Same") == (one == other)


@given(st.lists(st.sampled_from(["a", "bb", "c"]), min_size=1, max_size=9), st.data())
def test_the_number_of_the_first_word_that_differs(words, data):
    at = data.draw(st.integers(0, len(words) - 1))
    changed = [*words[:at], "x" + words[at], *words[at + 1 :]]
    said = verdict(" ".join(changed), " ".join(words), stats(), stats())
    different = f"“x{words[at]}” with drafting, “{words[at]}” without."
    assert said == f"Differs from word {at + 1}: {different}"


@pytest.mark.parametrize(
    ("on", "off", "said"),
    [
        ("one two", "one two three", "Differs from word 3: the end with drafting, “three”"),
        ("one tow", "one two", "Differs from word 2: “tow” with drafting, “two” without."),
        ("one two", "one twofold", "Differs from word 2: “two” with drafting, “twofold”"),
        ("one  two", "one two", "Differs in spaces or line breaks; the words are the same."),
        ("", "one", "Differs from word 1: the end with drafting, “one” without."),
    ],
)
def test_how_a_difference_is_said(on, off, said):
    assert verdict(on, off, stats(), stats()).startswith(said)


def test_the_same_text_in_other_tokens_is_not_called_the_same_tokens():
    assert verdict("a", "a", stats(212), stats(212)) == "Same 212 tokens."
    assert "in other tokens: 3 with drafting, 4" in verdict("a", "a", stats(3), stats(4))


@given(TEXT, TEXT)
def test_common_words_while_writing(one, other):
    common = common_words(one, other)
    shorter, longer = sorted((one, other), key=len)
    assert (common is None) == (not longer.startswith(shorter))


@pytest.mark.parametrize(
    ("on", "off", "said"),
    [
        (stats(speed=41.3, drafted=5), stats(speed=22.1), "1.87 times as fast with drafting."),
        (stats(speed=18.8, drafted=5), stats(speed=20.0), "drafting was slower here."),
        (stats(speed=20.0, drafted=5), stats(speed=20.0), "As fast with drafting as without."),
        (stats(speed=20.0), stats(speed=20.0), "though nothing was guessed."),
        (stats(speed=0.0), stats(), ""),
    ],
)
def test_gain_also_says_losses(on, off, said):
    assert gain(on, off).endswith(said)
