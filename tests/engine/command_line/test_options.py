"""Words of the chat become options, or one helpful line."""

import pytest

from mlx_engine.command_line.options import (
    change_cache_bits,
    change_draft_options,
    change_options,
    option_words,
    read_biases,
    template_arguments,
)
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    CacheOptions,
    DraftOptions,
    SamplingOptions,
    TemplateValue,
    read_template_value,
    template_value_text,
)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", DraftOptions()),
        ("3", DraftOptions(depth=3)),
        ("off", DraftOptions(depth=0)),
        ("none auto", DraftOptions(source="none")),
        ("4 prompt-lookup", DraftOptions(source="prompt-lookup", depth=4)),
        ("prompt-lookup+mtp auto", DraftOptions(source="prompt-lookup+mtp")),
        ("output=frequent vocabulary=4000", DraftOptions(output="frequent", vocabulary=4000)),
        ("min-probability=0.5 rule=greedy", DraftOptions(min_probability=0.5, rule="greedy")),
    ],
)
def test_drafting(words: str, wanted: DraftOptions) -> None:
    assert change_draft_options(DraftOptions(), words.split()) == wanted


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("9", "0 to 8"),
        ("luck", "mtp"),
        ("-1", "one of mtp"),
        ("output=3-bit", "full, 4-bit, frequent"),
        ("luck=1", "rule"),
        ("vocabulary=x", "number"),
    ],
)
def test_bad_drafting(words: str, says: str) -> None:
    with pytest.raises(BadOption, match=says):
        change_draft_options(DraftOptions(), words.split())


def test_sampling_changes_only_what_is_named() -> None:
    base = SamplingOptions(top_k=20, seed=5)
    changed = change_options(base, ["temperature=0.25", "Top-P=0.9", "seed=new"])
    assert changed == SamplingOptions(temperature=0.25, top_k=20, top_p=0.9, seed=None)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("temperature", "key=value"),
        ("temperature=warm", "a number"),
        ("top_k=1.5", "a whole number"),
        ("seed=x", "a whole number"),
        ("heat=1", "temperature, top_k"),
        ("temperature=11", "0 to 10"),
        ("temperature=nan", "0 to 10"),
        ("logit_bias=a:b", "ID:BIAS"),
        ("dry_sequence_breakers=a", "a list such as"),
        ("dry_sequence_breakers=[1]", "strings that are not empty"),
    ],
)
def test_bad_sampling(word: str, says: str) -> None:
    with pytest.raises(BadOption, match=says):
        change_options(SamplingOptions(), [word])


def test_the_words_for_sampling_read_back() -> None:
    options = SamplingOptions(
        temperature=0.125, top_k=7, min_p=0.05, seed=2**60 + 1, logit_bias={3: -2.5, 9: 1.0}
    )
    assert change_options(SamplingOptions(), option_words(options).split()) == options
    options = SamplingOptions(
        xtc_probability=0.5, dry_multiplier=0.8, dry_sequence_breakers=("\n", " a")
    )
    assert change_options(SamplingOptions(), option_words(options).split()) == options


def test_biases() -> None:
    assert read_biases("1:2,3=-4.5") == {1: 2.0, 3: -4.5}


def test_the_words_for_drafting_and_the_cache_read_back() -> None:
    draft = DraftOptions("prompt-lookup+mtp", 3, 0.25, "greedy", "frequent", 4000)
    assert change_draft_options(DraftOptions(), option_words(draft).split()) == draft
    assert "depth=auto" in option_words(DraftOptions())
    cache = CacheOptions(8, 4)
    assert change_cache_bits(CacheOptions(), option_words(cache).split()) == cache
    assert change_cache_bits(CacheOptions(), ["8", "4"]) == cache
    assert change_cache_bits(cache, ["16"]) == CacheOptions(16, 4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("null", None),
        ("-3", -3),
        ("0.5", 0.5),
        ("low", "low"),
        ("two words", "two words"),
        ('"true"', "true"),
        ('"[1]"', "[1]"),
        ('" low"', " low"),
        ('""', ""),
        ("naïve", "naïve"),
        ("'low'", "'low'"),
    ],
)
def test_a_template_is_given_json_or_a_text(text: str, value: TemplateValue) -> None:
    read = read_template_value(text)
    assert (read, type(read)) == (value, type(value))
    assert template_value_text(value) == text
    assert template_arguments([f"name={text}"]) == {"name": value}


@pytest.mark.parametrize("text", ["[1]", '{"a": 1}', '"open', "{a", "NaN", "1e999", "[" * 99999])
def test_a_template_is_not_given_anything_else(text: str) -> None:
    with pytest.raises(BadOption, match="a text, a number, true, false or null"):
        read_template_value(text)
