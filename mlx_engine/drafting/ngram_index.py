"""Where the last few tokens of a text stood before in it, found in constant time."""

from collections.abc import Iterable, Sequence
from sys import getsizeof
from typing import NamedTuple

SHORTEST = 3
"""Tokens that two places must share; pairs are met again in any text."""

LONGEST = 32
"""Longer matches tell no more."""

CANDIDATES = 24
"""Earlier places looked at for the longest match; the rest of a very repetitive text is left."""

NOWHERE = -1


class Match(NamedTuple):
    """The newest of the longest earlier places: what came next stands at `place`."""

    place: int
    length: int


class NgramIndex:
    """Tokens, and for each place the one before it where the same SHORTEST tokens ended.

    Adding and dropping a token are dictionary operations, and dropping undoes adding exactly.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._newest: dict[tuple[int, ...], int] = {}
        self._before: list[int] = []

    @property
    def nbytes(self) -> int:
        """Bytes held, keys included."""
        key = getsizeof((0,) * SHORTEST)
        lists = getsizeof(self.tokens) + getsizeof(self._before)
        return lists + getsizeof(self._newest) + key * len(self._newest)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        for token in tokens:
            self.tokens.append(token)
            end = len(self.tokens)
            if end < SHORTEST:
                self._before.append(NOWHERE)
                continue
            key = tuple(self.tokens[-SHORTEST:])
            self._before.append(self._newest.get(key, NOWHERE))
            self._newest[key] = end

    def shorten(self, length: int) -> None:
        """Drop all tokens from `length` on."""
        while len(self.tokens) > length:
            before = self._before.pop()
            if len(self.tokens) >= SHORTEST:
                key = tuple(self.tokens[-SHORTEST:])
                if before == NOWHERE:
                    del self._newest[key]
                else:
                    self._newest[key] = before
            self.tokens.pop()

    def match(self, last: int) -> Match | None:
        """The longest earlier place that ends like the tokens with `last` after them."""
        if len(self.tokens) < SHORTEST:
            return None
        place = self._newest.get((*self.tokens[1 - SHORTEST :], last), NOWHERE)
        ending = [*self.tokens[1 - LONGEST :], last]
        best: Match | None = None
        for _ in range(CANDIDATES):
            if place == NOWHERE or (best is not None and best.length == len(ending)):
                break
            length = self._shared(place, ending)
            if best is None or length > best.length:
                best = Match(place, length)
            place = self._before[place - 1]
        return best

    def _shared(self, place: int, ending: Sequence[int]) -> int:
        """How many tokens before `place` equal the end of `ending`."""
        length = SHORTEST
        most = min(place, len(ending))
        while length < most and self.tokens[place - length - 1] == ending[-length - 1]:
            length += 1
        return length
