"""Prompt lookup (Saxena 2023): copies what followed the newest tokens earlier in the conversation.

No model runs, so a draft costs only the rows that verify it. To waste none, every guess is compared
with the tokens that came, drafted or not: matches of a length whose guesses fail are not offered
until they come true again. The hit rates stay when the conversation goes back to an earlier place.
Beside a model, a copy is preferred where the match is long; else the model drafts.
"""

from collections.abc import Iterable, Sequence
from sys import getsizeof
from typing import NamedTuple, Self

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.drafting.drafter import (
    DEEPEST,
    Draft,
    Drafter,
    Offer,
    Proposal,
    ReadRows,
    SourceSnapshot,
    empty_draft,
)
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftedBy, DraftOptions, DraftOutput

SHORT, LONG = 3, 8
"""Lengths of a match in tokens; a match of LONG is preferred to a model's drafts."""

LEAST_CHANCE = 0.4
"""Least hit rate for matches of a length to be offered."""

MEMORY = 0.93
"""Decay of hit rates a match: about the last fifteen matches of a length count."""

FIRST_CHANCE = 0.5
"""Hit rate of short matches before the first; of long ones it is that of short ones."""


class Match(NamedTuple):
    """An index in the conversation after which the same tokens stood as at its present end.

    place: index of the first token to copy. length: how many tokens are the same, SHORT or LONG.
    """

    place: int
    length: int


class NgramMap:
    """A conversation's tokens, and where each sequence of SHORT or LONG tokens ended last.

    `shorten` undoes `extend` exactly.
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

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens to the conversation and note where its n-grams end."""
        for token in tokens:
            self.tokens.append(token)
            for length, ends in self._ends.items():
                key = hash(tuple(self.tokens[-length:]))
                self._replaced[length].append(ends.get(key, 0))
                ends[key] = len(self.tokens)

    def shorten(self, count: int) -> None:
        """Drop all tokens of the conversation but the first `count`, with their n-grams."""
        while len(self.tokens) > count:
            for length, ends in self._ends.items():
                key, replaced = hash(tuple(self.tokens[-length:])), self._replaced[length].pop()
                if replaced:
                    ends[key] = replaced
                else:
                    del ends[key]
            self.tokens.pop()

    def match(self, last: int) -> Match | None:
        """Find the newest earlier place that ends like the conversation with `last` appended.

        Long matches first; None where there is no match.
        """
        for length, ends in self._ends.items():
            ending = (*self.tokens[1 - length :], last)
            place = ends.get(hash(ending), 0)
            if place >= length and tuple(self.tokens[place - length : place]) == ending:
                return Match(place, length)
        return None


class _Guess(NamedTuple):
    """A token guessed for `position` by a match of this length, to compare with the text."""

    position: int
    length: int
    token: int


class Probation:
    """Hit rates of prompt lookup's guesses, by the length of the match: SHORT or LONG."""

    def __init__(self) -> None:
        self._true = {SHORT: 0.0, LONG: 0.0}
        self._all = {SHORT: 0.0, LONG: 0.0}

    def chance(self, length: int) -> float:
        """Return the estimated chance that the next guess by a match of this length is right."""
        before = FIRST_CHANCE if length == SHORT else self.chance(SHORT)
        return (self._true[length] + before) / (self._all[length] + 1)

    def learn(self, length: int, *, came_true: bool) -> None:
        """Count a guessed token as right or wrong in the hit rate of its match length."""
        self._true[length] = MEMORY * self._true[length] + came_true
        self._all[length] = MEMORY * self._all[length] + 1


class PromptLookupDraft(Drafter):
    """Drafts by copying what followed the newest tokens earlier; no model runs."""

    reads_words = True

    def __init__(self, options: DraftOptions) -> None:
        super().__init__(options)
        self._index = NgramMap()
        self._guess: _Guess | None = None
        self.probation = Probation()

    @property
    @override
    def nbytes(self) -> int:
        return self._index.nbytes

    @override
    def append(self, tokens: Sequence[int]) -> None:
        self._index.extend(tokens)

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """Offer to copy what followed an earlier match, if such copies were right lately."""
        self._check_guess(newest)
        match = self._index.match(newest)
        if match is None:
            return ()
        token = self._copy(match, newest, 1)[0]
        self._guess = _Guess(self._known + 1, match.length, token)
        chance = self.probation.chance(match.length)
        if chance < LEAST_CHANCE:
            return ()
        is_long = match.length == LONG
        return (Offer("prompt-lookup", chance, is_long, DEEPEST),)

    def draft(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """Copy the tokens after the match; a copy that reaches the end of the text repeats."""
        del sampler
        if wanted.depth == 0:  # the newest token may be on its way
            return empty_draft()
        assert wanted.position == self._known + 1
        newest: int = wanted.last.item()  # type: ignore[assignment]
        match = self._index.match(newest)
        if match is None:
            return empty_draft()
        return Draft(mx.array(self._copy(match, newest, wanted.depth), dtype=mx.int32))

    @property
    def _known(self) -> int:
        """Number of the conversation's tokens before the newest."""
        return len(self._index.tokens)

    def _copy(self, match: Match, last: int, count: int) -> list[int]:
        """Return `count` tokens from `match.place` on, as if the copy already were in the text."""
        tokens = [*self._index.tokens[match.place : match.place + count], last]
        period = self._known + 1 - match.place
        return [tokens[n % period] for n in range(count)]

    def _check_guess(self, last: int) -> None:
        """Compare the last guess with the token that came, and count it; last: the newest token."""
        guess, self._guess = self._guess, None
        if guess is None or guess.position > self._known:
            return
        came = last if guess.position == self._known else self._index.tokens[guess.position]
        self.probation.learn(guess.length, came_true=guess.token == came)

    def join(self, other: Self, snapshot: SourceSnapshot) -> None:
        """Begin empty at the snapshot's length; the tokens are then given to `append`."""
        del other
        self.restore(SourceSnapshot(0))
        self._length = snapshot.length

    @override
    def restore(self, snapshot: SourceSnapshot) -> None:
        super().restore(snapshot)
        self._index.shorten(snapshot.length)
        self._guess = None


class CombinedDraft(Drafter):
    """Prompt lookup beside a drafter with a model: both follow every token, one drafts."""

    reads_words = True

    def __init__(self, model: Drafter) -> None:
        super().__init__(model.options)
        self.lookup = PromptLookupDraft(model.options)
        self.model = model
        self.reads_hidden = model.reads_hidden
        self.target = model.target
        self._first: DraftedBy | None = None
        self._copies = False

    @property
    def can_follow(self) -> bool:
        """Whether the last draft came from the model, whose drafter can commit an unknown count."""
        return self.model.can_follow and not self._copies

    @property
    @override
    def length(self) -> int:
        return self.model.length

    @property
    @override
    def held(self) -> tuple[LayerCaches, ...]:
        return self.model.held

    @property
    @override
    def runs_a_model(self) -> bool:
        return True

    @property
    @override
    def nbytes(self) -> int:
        return self.lookup.nbytes + self.model.nbytes

    @property
    @override
    def is_lost(self) -> bool:
        return self.model.is_lost

    @property
    @override
    def output(self) -> DraftOutput | None:
        return self.model.output

    @override
    def prepare(self) -> None:
        self.model.prepare()

    @override
    def rest(self, *, rests: bool) -> None:
        super().rest(rests=rests)
        self.model.rest(rests=rests)

    @override
    def follow(self, options: DraftOptions) -> None:
        self.model.follow(options)

    @override
    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        self.model.commit(rows, count)

    @override
    def skip(self, rows: ReadRows) -> None:
        self.model.skip(rows)

    @override
    def append(self, tokens: Sequence[int]) -> None:
        self.lookup.append(tokens)
        self.model.append(tokens)

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """Return offers of prompt lookup and model: a copy first where its match is long."""
        copies, models = self.lookup.offers(newest), self.model.offers(newest)
        is_long = any(copy.is_long for copy in copies)
        both = (*copies, *models) if is_long else (*models, *copies)
        self._first = both[0].by if both else None
        return both

    @override
    def chosen(self, by: DraftedBy | None) -> Drafter:
        self._copies = (by or self._first) == "prompt-lookup"
        return self.lookup if self._copies else self.model

    @override
    def draft(self, wanted: Proposal, sampler: Sampler) -> Draft:
        return self.chosen(wanted.by).draft(wanted, sampler)

    @override
    def snapshot(self) -> SourceSnapshot:
        return self.model.snapshot()

    @override
    def flush(self) -> int:
        return self.model.flush()

    @override
    def earlier(self, length: int) -> SourceSnapshot | None:
        return self.model.earlier(length)

    @override
    def join(self, other: Self, snapshot: SourceSnapshot) -> None:
        self.lookup.join(other.lookup, snapshot)
        self.model.join(other.model, snapshot)

    @override
    def restore(self, snapshot: SourceSnapshot) -> None:
        self.lookup.restore(SourceSnapshot(snapshot.length))
        self.model.restore(snapshot)

    @override
    def arrays(self) -> list[mx.array]:
        return self.model.arrays()
