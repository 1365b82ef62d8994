"""Repeats what followed the newest tokens when they stood in the conversation before.

Prompt lookup (Saxena 2023): no model is asked, so a draft costs the rows that check it and nothing
else. What keeps it from wasting those is probation: every guess is compared with the text that
came, drafted or not, and matches of a length whose guesses fail are not offered until they come
true again. That knowledge stays when the conversation goes back to an earlier place. Beside a
model, a copy is preferred where the match is long, and the model drafts otherwise.
"""

from collections.abc import Iterable, Sequence
from sys import getsizeof
from typing import NamedTuple, Self

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.drafting.drafter import (
    DEEPEST,
    Draft,
    Drafter,
    Offer,
    Proposal,
    ReadRows,
    SourceSnapshot,
    Steps,
    empty_draft,
)
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftedBy, DraftOptions, DraftOutput

SHORTEST = 3
"""Tokens that two places must share; pairs are met again in any text."""

LONGEST = 32
"""Longer matches tell no more."""

CANDIDATES = 24
"""Earlier places looked at for the longest match; the rest of a very repetitive text is left."""

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


_NOWHERE = -1


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
                self._before.append(_NOWHERE)
                continue
            key = tuple(self.tokens[-SHORTEST:])
            self._before.append(self._newest.get(key, _NOWHERE))
            self._newest[key] = end

    def shorten(self, length: int) -> None:
        """Drop all tokens from `length` on."""
        while len(self.tokens) > length:
            before = self._before.pop()
            if len(self.tokens) >= SHORTEST:
                key = tuple(self.tokens[-SHORTEST:])
                if before == _NOWHERE:
                    del self._newest[key]
                else:
                    self._newest[key] = before
            self.tokens.pop()

    def match(self, last: int) -> Match | None:
        """The longest earlier place that ends like the tokens with `last` after them."""
        if len(self.tokens) < SHORTEST:
            return None
        place = self._newest.get((*self.tokens[1 - SHORTEST :], last), _NOWHERE)
        ending = [*self.tokens[1 - LONGEST :], last]
        best: Match | None = None
        for _ in range(CANDIDATES):
            if place == _NOWHERE or (best is not None and best.length == len(ending)):
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


class PromptLookupDraft(Drafter):
    """Follows the text on the host; works with any model."""

    reads_words = True

    def __init__(self, options: DraftOptions) -> None:
        super().__init__(options)
        self._index = NgramIndex()
        self._guess: _Guess | None = None
        self.probation = Probation()

    @property
    def nbytes(self) -> int:
        """Host bytes of the index."""
        return self._index.nbytes

    def append(self, tokens: Sequence[int]) -> None:
        """Index the words."""
        self._index.extend(tokens)

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """A copy of what followed, if such copies have been right lately."""
        self._judge(newest)
        match = self._index.match(newest)
        if match is None:
            return ()
        token = self._copy(match, newest, 1)[0]
        self._guess = _Guess(self._known + 1, match.length, token)
        chance = self.probation.chance(match.length)
        if chance < LEAST_CHANCE:
            return ()
        is_long = match.length >= LONG
        return (Offer("prompt-lookup", chance, is_long, DEEPEST),)

    def draft(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """The tokens after the match; a copy that reaches its own end goes round."""
        yield from ()
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
        """Words before the newest."""
        return len(self._index.tokens)

    def _copy(self, match: Match, last: int, count: int) -> list[int]:
        """`count` tokens from `match.place` on, as if the copy were already part of the text."""
        tokens = [*self._index.tokens[match.place : match.place + count], last]
        period = self._known + 1 - match.place
        return [tokens[n % period] for n in range(count)]

    def _judge(self, last: int) -> None:
        """Compare the last guess with what came; `last` is the newest token."""
        guess, self._guess = self._guess, None
        if guess is None or guess.position > self._known:
            return
        came = last if guess.position == self._known else self._index.tokens[guess.position]
        self.probation.learn(guess.length, came_true=guess.token == came)

    def join(self, other: Self, snapshot: SourceSnapshot) -> None:
        """Know no text of its own."""
        del other
        self.restore(SourceSnapshot(0))
        self._length = snapshot.length

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Forget the text after it."""
        super().restore(snapshot)
        self._index.shorten(snapshot.length)
        self._guess = None


class CombinedDraft(Drafter):
    """The words of every token go to both sources, the token to that with a model, whichever of
    them drafts.
    """

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
        """As the model, which has to have made the draft."""
        return self.model.can_follow and not self._copies

    @property
    def length(self) -> int:
        """As the model."""
        return self.model.length

    @property
    def held(self) -> tuple[LayerCaches, ...]:
        """Those of the model."""
        return self.model.held

    @property
    def runs_a_model(self) -> bool:
        """It does."""
        return True

    @property
    def nbytes(self) -> int:
        """Of both."""
        return self.lookup.nbytes + self.model.nbytes

    @property
    def is_lost(self) -> bool:
        """Whether the model is."""
        return self.model.is_lost

    @property
    def output(self) -> DraftOutput | None:
        """Of the model."""
        return self.model.output

    def prepare(self) -> None:
        """Bring the model into memory. Raises EngineError."""
        self.model.prepare()

    def rest(self, *, rests: bool) -> None:
        """The model does; text is followed at any time."""
        super().rest(rests=rests)
        self.model.rest(rests=rests)

    def follow(self, options: DraftOptions) -> None:
        """What the model takes over."""
        self.model.follow(options)

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """By the model; the text is told its words."""
        self.model.commit(rows, count)

    def skip(self, rows: ReadRows) -> None:
        """The model may leave them out."""
        self.model.skip(rows)

    def append(self, tokens: Sequence[int]) -> None:
        """Tell both; a copy may come from anywhere."""
        self.lookup.append(tokens)
        self.model.append(tokens)

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """The copy first where its match is long, else last."""
        copies, models = self.lookup.offers(newest), self.model.offers(newest)
        is_long = any(copy.is_long for copy in copies)
        both = (*copies, *models) if is_long else (*models, *copies)
        self._first = both[0].by if both else None
        return both

    def draft(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """By whose offer was taken, or was the first."""
        by = wanted.by or self._first
        if by is None:
            return empty_draft()
        self._copies = by == "prompt-lookup"
        drafter = self.lookup if self._copies else self.model
        return (yield from drafter.draft(wanted, sampler))

    def snapshot(self) -> SourceSnapshot:
        """That of the model; of the text its length is enough."""
        return self.model.snapshot()

    def flush(self) -> int:
        """As the model does."""
        return self.model.flush()

    def earlier(self, length: int) -> SourceSnapshot | None:
        """As the model can; a text can be shortened to any length."""
        return self.model.earlier(length)

    def join(self, other: Self, snapshot: SourceSnapshot) -> None:
        """Both."""
        self.lookup.join(other.lookup, snapshot)
        self.model.join(other.model, snapshot)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Both back to a snapshot."""
        self.lookup.restore(SourceSnapshot(snapshot.length))
        self.model.restore(snapshot)

    def arrays(self) -> list[mx.array]:
        """Of the model."""
        return self.model.arrays()
