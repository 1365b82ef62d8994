"""Repeats what followed the newest tokens when they stood in the conversation before.

Prompt lookup (Saxena 2023): no model is asked, so a draft costs the rows that verify it and nothing
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
    empty_draft,
)
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftedBy, DraftOptions, DraftOutput

SHORT, LONG = 3, 8
"""Tokens that two places must share: pairs are met again in any text; a match of LONG is preferred
to a model's own drafts.
"""

LEAST_CHANCE = 0.4
"""Matches of a length that come true less often are not offered."""

MEMORY = 0.93
"""Weight of the past in what is known of a length: about its last fifteen matches."""

FIRST_CHANCE = 0.5
"""What short matches are believed to be worth before the first; long ones, what short ones are."""


class Match(NamedTuple):
    """What came next stands at `place`; length: SHORT or LONG."""

    place: int
    length: int


class NgramMap:
    """Tokens, and for their last SHORT and LONG ones the newest place where the same ended.

    Dropping a token undoes adding it exactly.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._ends: dict[int, dict[int, int]] = {LONG: {}, SHORT: {}}
        self._replaced: dict[int, list[int]] = {LONG: [], SHORT: []}

    @property
    def nbytes(self) -> int:
        """Bytes held, the numbers in there included."""
        lists = [self.tokens, *self._replaced.values()]
        return sum(map(getsizeof, (*lists, *self._ends.values()))) + 64 * len(self.tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        for token in tokens:
            self.tokens.append(token)
            for length, ends in self._ends.items():
                key = hash(tuple(self.tokens[-length:]))
                self._replaced[length].append(ends.get(key, 0))
                ends[key] = len(self.tokens)

    def shorten(self, count: int) -> None:
        """Drop all tokens but the first."""
        while len(self.tokens) > count:
            for length, ends in self._ends.items():
                key, replaced = hash(tuple(self.tokens[-length:])), self._replaced[length].pop()
                if replaced:
                    ends[key] = replaced
                else:
                    del ends[key]
            self.tokens.pop()

    def match(self, last: int) -> Match | None:
        """The newest place that ends like the tokens with `last` after them, a long match first."""
        for length, ends in self._ends.items():
            ending = (*self.tokens[1 - length :], last)
            place = ends.get(hash(ending), 0)
            if place >= length and tuple(self.tokens[place - length : place]) == ending:
                return Match(place, length)
        return None


class _Guess(NamedTuple):
    """A guess waiting for the text: the token at `position`, by a match of this length."""

    position: int
    length: int
    token: int


class Probation:
    """How often guesses came true, by the length of the match."""

    def __init__(self) -> None:
        self._true = {SHORT: 0.0, LONG: 0.0}
        self._all = {SHORT: 0.0, LONG: 0.0}

    def chance(self, length: int) -> float:
        """Of the next guess by a match of this length."""
        before = FIRST_CHANCE if length == SHORT else self.chance(SHORT)
        return (self._true[length] + before) / (self._all[length] + 1)

    def learn(self, length: int, *, came_true: bool) -> None:
        """What became of a guess."""
        self._true[length] = MEMORY * self._true[length] + came_true
        self._all[length] = MEMORY * self._all[length] + 1


class PromptLookupDraft(Drafter):
    """Follows the text on the host; works with any model."""

    reads_words = True

    def __init__(self, options: DraftOptions) -> None:
        super().__init__(options)
        self._index = NgramMap()
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
        is_long = match.length == LONG
        return (Offer("prompt-lookup", chance, is_long, DEEPEST),)

    def draft(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """The tokens after the match; a copy that reaches its own end goes round."""
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

    def chosen(self, by: DraftedBy | None) -> Drafter:
        """The source whose offer was taken, or was the first."""
        self._copies = (by or self._first) == "prompt-lookup"
        return self.lookup if self._copies else self.model

    def draft(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """Draft with the source whose offer was taken, or was the first."""
        return self.chosen(wanted.by).draft(wanted, sampler)

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
