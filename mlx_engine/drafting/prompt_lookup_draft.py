"""Repeats what followed the newest tokens when they stood in the conversation before.

Prompt lookup (Saxena 2023): no model is asked, so a draft costs the rows that check it and nothing
else. What keeps it from wasting those is probation: every guess is compared with the text that
came, drafted or not, and matches of a length whose guesses fail are not offered until they come
true again. That knowledge stays when the conversation goes back to an earlier place.
"""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.drafting.contract import Draft, Offer, Proposal, SourceSnapshot, empty_draft
from mlx_engine.drafting.ngram_index import LONGEST, SHORTEST, Match, NgramIndex
from mlx_engine.drafting.no_draft import LengthSnapshot
from mlx_engine.sampling.sampler import Sampler

LONG = 8
"""Tokens of a match that is preferred to a model's own drafts."""

LEAST_CHANCE = 0.4
"""Matches of a length that come true less often are not offered."""

MEMORY = 0.9
"""Weight of the past in what is known of a length: about its last ten matches."""

FIRST_CHANCE = 0.5
"""What matches of the shortest length are believed to be worth at first."""

SHORTER_WEIGHT = 1.0
"""Matches that the belief is worth that a length is as good as the one below it."""


class _Guess(NamedTuple):
    """A guess waiting for the text: the token at `position`, by a match of this length."""

    position: int
    length: int
    token: int


class Probation:
    """How often guesses came true, for each class of match lengths (3, 4-7, 8-15, 16-31, 32)."""

    def __init__(self) -> None:
        classes = _class_of(LONGEST) + 1
        self._true = [0.0] * classes
        self._all = [0.0] * classes

    def chance(self, length: int) -> float:
        """Of the next guess by a match of this length."""
        chance = FIRST_CHANCE
        for n in range(_class_of(length) + 1):
            true = self._true[n] + SHORTER_WEIGHT * chance
            chance = true / (self._all[n] + SHORTER_WEIGHT)
        return chance

    def learn(self, length: int, *, came_true: bool) -> None:
        """What became of a guess."""
        n = _class_of(length)
        self._true[n] = MEMORY * self._true[n] + came_true
        self._all[n] = MEMORY * self._all[n] + 1


def _class_of(length: int) -> int:
    return length.bit_length() - SHORTEST.bit_length()


class PromptLookupDraft:
    """Follows the text on the host; works with any model."""

    def __init__(self) -> None:
        self._index = NgramIndex()
        self._guess: _Guess | None = None
        self.probation = Probation()

    @property
    def length(self) -> int:
        """Tokens observed."""
        return len(self._index.tokens)

    @property
    def nbytes(self) -> int:
        """Host bytes of the index."""
        return self._index.nbytes

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Index the tokens; the hidden states are of no use."""
        del hidden
        committed: list[int] = tokens.tolist()  # type: ignore[assignment]
        self._index.extend(committed)

    def offers(self, last: int) -> tuple[Offer, ...]:
        """A copy of what followed, if such copies have been right lately."""
        self._judge(last)
        match = self._index.match(last)
        if match is None:
            return ()
        token = self._copy(match, last, 1)[0]
        self._guess = _Guess(self.length + 1, match.length, token)
        chance = self.probation.chance(match.length)
        if chance < LEAST_CHANCE:
            return ()
        return (Offer("prompt-lookup", chance=chance, is_long=match.length >= LONG),)

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """The tokens after the match; a copy that reaches its own end goes round."""
        del sampler
        match = self._index.match(wanted.last)
        if match is None or wanted.depth == 0:
            return empty_draft()
        return Draft(mx.array(self._copy(match, wanted.last, wanted.depth), dtype=mx.int32))

    def _copy(self, match: Match, last: int, count: int) -> list[int]:
        """`count` tokens from `match.place` on, as if the copy were already part of the text."""
        tokens = [*self._index.tokens[match.place : match.place + count], last]
        period = self.length + 1 - match.place
        return [tokens[n % period] for n in range(count)]

    def _judge(self, last: int) -> None:
        """Compare the last guess with what came; `last` is the newest token."""
        guess, self._guess = self._guess, None
        if guess is None or guess.position > self.length:
            return
        came = last if guess.position == self.length else self._index.tokens[guess.position]
        self.probation.learn(guess.length, came_true=guess.token == came)

    def snapshot(self) -> LengthSnapshot:
        """The text up to here."""
        return LengthSnapshot(self.length)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Forget the text after a boundary."""
        self._index.shorten(snapshot.length)
        self._guess = None

    def arrays(self) -> list[mx.array]:
        """None."""
        return []
