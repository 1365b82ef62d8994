"""Says whether two answers are the same and what drafting gained; knows no Qt."""

from dataclasses import dataclass

from mlx_engine.values.stats import GenerationStats

PLACES_SHOWN = 24
"""Characters of a differing word that are shown."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two texts part: the word's number from 1, and what each has there ("" for its end)."""

    word: int
    drafted: str
    plain: str


def first_difference(drafted: str, plain: str) -> Difference | None:
    """None when the texts are equal, character by character, spaces included."""
    if drafted == plain:
        return None
    at = next(
        (n for n, (a, b) in enumerate(zip(drafted, plain, strict=False)) if a != b),
        min(len(drafted), len(plain)),
    )
    return Difference(
        len(plain[:at].split()) + _begins_word(plain, at), _word(drafted, at), _word(plain, at)
    )


def common_words(drafted: str, plain: str) -> int | None:
    """Whole words both have so far while they are written; None when they already differ."""
    length = min(len(drafted), len(plain))
    return len(plain[:length].split()) if drafted[:length] == plain[:length] else None


def verdict(drafted: str, plain: str, on: GenerationStats, off: GenerationStats) -> str:
    """Both answers are complete: are they the same?"""
    difference = first_difference(drafted, plain)
    if difference is not None:
        return (
            f"Differs from word {difference.word}: {_shown(difference.drafted)} with drafting, "
            f"{_shown(difference.plain)} without."
        )
    if on.generated_tokens == off.generated_tokens:
        return f"Same {on.generated_tokens:,} tokens."
    return (
        f"Same text in other tokens: {on.generated_tokens:,} with drafting, "
        f"{off.generated_tokens:,} without."
    )


def gain(on: GenerationStats, off: GenerationStats) -> str:
    """The speeds as a ratio, in words that also fit a loss; "" when one was not measured."""
    if not (on.tokens_per_second and off.tokens_per_second):
        return ""
    ratio = on.tokens_per_second / off.tokens_per_second
    if not on.drafted:
        return f"{ratio:.2f} times the speed, though nothing was drafted."
    if ratio >= 1.005:
        return f"{ratio:.2f} times as fast with drafting."
    if ratio > 0.995:
        return "As fast with drafting as without."
    return f"{ratio:.2f} times as fast: drafting was slower here."


def _begins_word(text: str, at: int) -> int:
    """1 when position `at` starts a word that the words before it do not count."""
    return int(at == 0 or text[at - 1].isspace())


def _word(text: str, at: int) -> str:
    """The word around a position; "" at the end of the text."""
    if at >= len(text):
        return ""
    start = at
    while start > 0 and not text[start - 1].isspace():
        start -= 1
    end = at
    while end < len(text) and not text[end].isspace():
        end += 1
    return text[start:end] or text[at]


def _shown(word: str) -> str:
    if not word:
        return "the end"
    if word.isspace():
        return "a space" if word == " " else "a line break"
    return f"“{word[:PLACES_SHOWN]}”"
