"""Says whether two answers are the same and what drafting gained; knows no Qt."""

from dataclasses import dataclass
from itertools import zip_longest

from mlx_engine.values.stats import GenerationStats

LETTERS_SHOWN = 24
"""Of a differing word, at most."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two texts part: the word's number from 1, and what each has there ("" for its end).

    Equal words mean that only the spaces and line breaks between them differ.
    """

    word: int
    drafted: str
    plain: str

    @property
    def is_only_space(self) -> bool:
        """Whether the words are all the same."""
        return self.drafted == self.plain


def first_difference(drafted: str, plain: str) -> Difference | None:
    """None when the texts are equal, character by character."""
    if drafted == plain:
        return None
    pairs = zip_longest(drafted.split(), plain.split(), fillvalue="")
    for number, (one, other) in enumerate(pairs, 1):
        if one != other:
            return Difference(number, one, other)
    return Difference(0, "", "")


def common_words(drafted: str, plain: str) -> int | None:
    """Whole words both have so far while they are written; None when they already differ."""
    length = min(len(drafted), len(plain))
    return len(plain[:length].split()) if drafted[:length] == plain[:length] else None


def common_length(drafted: str, plain: str) -> int:
    """Characters both begin with."""
    pairs = enumerate(zip(drafted, plain, strict=False))
    shorter = min(len(drafted), len(plain))
    return next((at for at, (one, other) in pairs if one != other), shorter)


def ratio(on: GenerationStats, off: GenerationStats) -> str:
    """ "1.87×"; "" when a speed was not measured."""
    if not (on.tokens_per_second and off.tokens_per_second):
        return ""
    return f"{on.tokens_per_second / off.tokens_per_second:.2f}×"


def verdict(drafted: str, plain: str, on: GenerationStats, off: GenerationStats) -> str:
    """Both answers are complete: are they the same?"""
    difference = first_difference(drafted, plain)
    if difference is not None and difference.is_only_space:
        return "Differs in spaces or line breaks; the words are the same."
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


def _shown(word: str) -> str:
    return f"“{word[:LETTERS_SHOWN]}”" if word else "the end"
