"""Prompt lookup (Saxena 2023): copies what followed the newest tokens earlier in the conversation.

No model runs, so a draft costs only the rows that verify it. To waste none, every guess is compared
with the tokens that came, drafted or not: matches of a length whose guesses fail are not offered
until they come true again. The hit rates stay when the conversation goes back to an earlier place.
Where a model drafts too, a copy is preferred if its match is long; else the model drafts.
"""

from collections.abc import Sequence
from sys import getsizeof
from typing import NamedTuple

SHORT, LONG = 3, 8
"""Lengths of a match in tokens; a match of LONG is preferred to a model's drafts."""

LEAST_CHANCE = 0.4
"""Least hit rate for matches of a length to be offered."""

MEMORY = 0.93
"""Decay of hit rates a match: about the last fifteen matches of a length count."""

FIRST_CHANCE = 0.5
"""Hit rate of short matches before the first; of long ones it is that of short ones."""


class PassageMatch(NamedTuple):
    """An index in the conversation after which the same tokens stood as at its present end.

    place: index of the first token to copy. length: how many tokens are the same, SHORT or LONG.
    """

    place: int
    length: int


class NgramMap:
    """A conversation's tokens, and where each sequence of SHORT or LONG tokens ended last.

    `shorten_match` undoes `extend_match` exactly.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._ends: dict[int, dict[int, int]] = {LONG: {}, SHORT: {}}
        self._replaced: dict[int, list[int]] = {LONG: [], SHORT: []}

    @property
    def nbytes(self) -> int:
        """Bytes of the token list and n-gram maps, and of the integers in them."""
        lists = [self.tokens, *self._replaced.values()]
        return sum(map(getsizeof, (*lists, *self._ends.values()))) + 64 * len(self.tokens)

    def extend_match(self, tokens: Sequence[int]) -> None:
        """Append tokens to the conversation and note where its n-grams end."""
        for token in tokens:
            self.tokens.append(token)
            for length, ends in self._ends.items():
                key = hash(tuple(self.tokens[-length:]))
                self._replaced[length].append(ends.get(key, 0))
                ends[key] = len(self.tokens)

    def shorten_match(self, count: int) -> None:
        """Drop all tokens of the conversation but the first `count`, with their n-grams."""
        while len(self.tokens) > count:
            for length, ends in self._ends.items():
                key, replaced = hash(tuple(self.tokens[-length:])), self._replaced[length].pop()
                if replaced:
                    ends[key] = replaced
                else:
                    del ends[key]
            self.tokens.pop()

    def find_match(self, last: int) -> PassageMatch | None:
        """Find the newest earlier place that ends like the conversation with `last` appended.

        Long matches first; None where there is no match.
        """
        for length, ends in self._ends.items():
            ending = (*self.tokens[1 - length :], last)
            place = ends.get(hash(ending), 0)
            if place >= length and tuple(self.tokens[place - length : place]) == ending:
                return PassageMatch(place, length)
        return None


class _NgramGuess(NamedTuple):
    """A token guessed for `position` by a match of this length, to compare with the text."""

    position: int
    length: int
    token: int


class CopiedPassage(NamedTuple):
    """An earlier passage that could be copied, and the chance that its next token is right.

    is_long: LONG tokens before it are the newest ones.
    """

    chance: float
    is_long: bool


class HitRates:
    """How often prompt lookup guessed right, by the length of the match: SHORT or LONG."""

    def __init__(self) -> None:
        self._hits = {SHORT: 0.0, LONG: 0.0}
        self._guesses = {SHORT: 0.0, LONG: 0.0}

    def acceptance_chance(self, length: int) -> float:
        """Return the estimated chance that the next guess by a match of this length is right."""
        prior = FIRST_CHANCE if length == SHORT else self.acceptance_chance(SHORT)
        return (self._hits[length] + prior) / (self._guesses[length] + 1)

    def add_guess(self, length: int, *, is_hit: bool) -> None:
        """Count a guessed token as right or wrong in the hit rate of its match length."""
        self._hits[length] = MEMORY * self._hits[length] + is_hit
        self._guesses[length] = MEMORY * self._guesses[length] + 1


class PromptLookup:
    """Finds earlier passages of a conversation that its newest tokens repeat, and copies them."""

    def __init__(self) -> None:
        self.ngrams = NgramMap()
        self.rates = HitRates()
        self._guess: _NgramGuess | None = None

    @property
    def length(self) -> int:
        """Number of the conversation's tokens before the newest."""
        return len(self.ngrams.tokens)

    def shorten_match(self, count: int) -> None:
        """Drop all tokens of the conversation but the first `count`."""
        self.ngrams.shorten_match(count)
        self._guess = None

    def find_passage(self, newest: int) -> CopiedPassage | None:
        """Find a passage to copy behind the token `newest`, if such copies were right lately."""
        self._check_guess(newest)
        match = self.ngrams.find_match(newest)
        if match is None:
            return None
        token = self._copy_passage(match, newest, 1)[0]
        self._guess = _NgramGuess(self.length + 1, match.length, token)
        chance = self.rates.acceptance_chance(match.length)
        return None if chance < LEAST_CHANCE else CopiedPassage(chance, match.length == LONG)

    def copy_tokens(self, newest: int, count: int) -> list[int]:
        """Copy the `count` tokens after the match; a copy that reaches the end of the text repeats.

        Empty where nothing matches.
        """
        match = self.ngrams.find_match(newest)
        return [] if match is None else self._copy_passage(match, newest, count)

    def _copy_passage(self, match: PassageMatch, newest: int, count: int) -> list[int]:
        """Copy `count` tokens from `match.place` on; behind `newest` start there again."""
        tokens = [*self.ngrams.tokens[match.place : match.place + count], newest]
        period = self.length + 1 - match.place
        return [tokens[n % period] for n in range(count)]

    def _check_guess(self, newest: int) -> None:
        """Count the last guess as right or wrong, if the token at its position is known now."""
        guess, self._guess = self._guess, None
        if guess is None or guess.position > self.length:
            return
        known = newest if guess.position == self.length else self.ngrams.tokens[guess.position]
        self.rates.add_guess(guess.length, is_hit=guess.token == known)
