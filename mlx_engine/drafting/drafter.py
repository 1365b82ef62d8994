"""A drafter follows one conversation, drafts its next tokens, and goes back to earlier places."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.contract import CachesSnapshot, LayerCaches, RowCount
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, DraftedBy, DraftOptions, DraftOutput

DEEPEST = 15
"""The longest draft of drafters that make long ones cheaply; the target verifies 16 rows then."""

ROWS_OF_A_REST = 16
"""Newest rows that a head reads for its first draft after a rest.

With only these before it first drafts are accepted as often as with all of 400 (0.65 and 0.65 on a
trained toy, 0.66 and 0.67 on the built-in model; with 4 rows 0.63 and 0.58), and to read all that
waits would cost a processor as much as never to have rested.
"""

ROWS_OF_A_PROMPT = 256
"""Newest rows of a prompt that a head reads.

With all rows of prompts of 1,100 tokens no more drafts are accepted: first to third ones 0.80, 0.69
and 0.61 of the built-in model (0.80, 0.68, 0.62 with these), 0.54, 0.27 and 0.15 of a trained toy
(0.53, 0.29, 0.17).
"""

NO_TOKEN = -2
"""Stands for a drafted token that may not be accepted: equal to no token, nor to the -1 of a row
whose logits are not finite.
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """Drafted tokens for the target to read, int32 [k]; lazy where a model drafts.

    passes: number of passes of a head or small model. likely: bool [k], whether a token may be
    accepted; None where all may. depth: k.
    """

    tokens: mx.array
    passes: int = 0
    likely: mx.array | None = None
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", self.tokens.shape[0])

    @property
    def candidates(self) -> mx.array:
        """The drafted tokens that may be accepted, int32 [k]; NO_TOKEN in the place of others."""
        return self.tokens if self.likely is None else mx.where(self.likely, self.tokens, NO_TOKEN)


def empty_draft() -> Draft:
    """A draft without tokens: the round decodes plainly."""
    return Draft(mx.zeros((0,), dtype=mx.int32))


class Offer(NamedTuple):
    """A drafter's offer to draft in the next round.

    chance: the drafter's estimate that a token is accepted, None when it has none. is_long: the
    draft would repeat a long earlier passage, and is preferred. limit: the deepest draft.
    """

    by: DraftedBy
    chance: float | None = None
    is_long: bool = False
    limit: int = MAX_DEPTH


class Proposal(NamedTuple):
    """A request to a drafter for `depth` tokens after the newest token of a conversation.

    last: the newest token of the conversation, which no model has read yet, int32 [1]; lazy.
    position: index in the conversation of the first token to draft. by: whose offer was taken, None
    for the first.
    """

    depth: int
    last: mx.array
    position: int
    by: DraftedBy | None = None


class ReadRows(NamedTuple):
    """Tokens that the target has read in its last pass or a prompt, and what it computed; lazy.

    tokens: int [R]. hidden: hidden states [1, R, H]. picked: the target's next token after each
    row, int32 [R], -1 where a logit of the row is not finite; None in a prompt.
    """

    tokens: mx.array
    hidden: mx.array
    picked: mx.array | None = None

    def first(self, count: int) -> "ReadRows":
        """Return the first `count` rows: their tokens, hidden states and picked tokens; lazy."""
        if count == self.tokens.shape[0]:
            return self
        picked = None if self.picked is None else self.picked[:count]
        return ReadRows(self.tokens[:count], self.hidden[:, :count], picked)


class Rows(NamedTuple):
    """Input of an MTP head: tokens int [T], hidden states of the positions before [1, T, H]."""

    tokens: mx.array
    hidden: mx.array

    def last(self, count: int) -> "Rows":
        """Copy the newest `count` rows (tokens and hidden states), so that the others are freed."""
        if self.tokens.shape[0] <= count:
            return self
        return Rows(self.tokens[-count:], mx.contiguous(self.hidden[:, -count:]))


class SourceSnapshot(NamedTuple):
    """Snapshot of a drafter after `length` tokens of a conversation.

    caches: of the drafter's models, in the order of `Drafter.held`. newest: the target's hidden
    state [1, 1, H] that has no token yet. waiting: for each head, the rows that it has not read,
    which overlap; empty where no head has any.
    """

    length: int
    caches: tuple[CachesSnapshot, ...] = ()
    newest: mx.array | None = None
    waiting: tuple[tuple[Rows, ...], ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of memory that only this drafter snapshot keeps alive."""
        held = sum(caches.nbytes for caches in self.caches)
        held += max((sum(rows.hidden.nbytes for rows in head) for head in self.waiting), default=0)
        return held + (0 if self.newest is None else self.newest.nbytes)


class Drafter(ABC):
    """Follows the tokens of one conversation and drafts the next ones; base class of all sources.

    reads_hidden: drafts need the target's hidden states, so the drafter has to be there when the
    target reads; other drafters can read a conversation's tokens later. reads_words: offers depend
    on the newest token, which the host has to know; those of other drafters stay the same from
    round to round. target: the model to run in the target's place, None for the target itself.
    rests: no draft is near, so nothing is read before the next one.
    """

    reads_hidden: bool = False
    reads_words: bool = False
    target: Model | None = None

    def __init__(self, options: DraftOptions, *caches: LayerCaches) -> None:
        self.options = options
        self.rests = False
        self._length = 0
        self._count: RowCount | None = None
        self._caches = caches
        self._newest: mx.array | None = None

    @property
    def length(self) -> int:
        """Number of committed tokens, without those of a count that the host does not know yet."""
        self._resolve()
        return self._length

    @property
    def is_lost(self) -> bool:
        """Whether this drafter cannot go on in its conversation, so that a new one is due."""
        return False

    @property
    def can_follow(self) -> bool:
        """Whether rows can be committed, and drafted after, before the host knows their number."""
        return False

    @property
    def runs_a_model(self) -> bool:
        """Whether reading a conversation's tokens takes passes of a model."""
        return bool(self._caches)

    @property
    def held(self) -> tuple[LayerCaches, ...]:
        """The caches of the drafter's models, in the order of `SourceSnapshot.caches`."""
        return self._caches

    @property
    def nbytes(self) -> int:
        """Bytes that the drafter holds for its conversation."""
        held = sum(caches.nbytes for caches in self._caches)
        return held if self._newest is None else held + self._newest.nbytes

    @property
    def output(self) -> DraftOutput | None:
        """The output head that MTP heads draft with; None where no MTP head drafts."""
        return None

    def prepare(self) -> None:
        """Read the weights that draft into memory, before the first draft. Raises EngineError."""
        return

    def rest(self, *, rests: bool) -> None:
        """Tell the drafter, before every round, whether to read committed rows now or later.

        Rows that are read later cost nothing but memory, so a conversation without drafts is as
        fast as one without this drafter.
        """
        self.rests = rests

    def follow(self, options: DraftOptions) -> None:
        """Take over draft options that may change between rounds: rule, min_probability, output."""
        self.options = options

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """Append to the conversation the first `count` rows of the target's pass.

        Called once for every committed token, in order: the prompt in chunks, then round by round.
        A RowCount (a number that only the device knows) only after a draft of this drafter, and
        where `can_follow`.
        """
        del rows
        self._resolve()
        if isinstance(count, int):
            self._length += count
        else:
            self._count = count

    def _resolve(self) -> None:
        """Add the last committed number of rows to the length, once the host knows it."""
        if self._count is not None and self._count.known is not None:
            self._length += self._count.known
            self._count = None

    def skip(self, rows: ReadRows) -> None:
        """Append rows of a long prompt far before the answer, which the drafter may leave out.

        A drafter that can do without their hidden states leaves them out; lazy, they are then never
        computed.
        """
        self.commit(rows, rows.tokens.shape[0])

    def append(self, tokens: Sequence[int]) -> None:
        """Append the ids of committed tokens, once each and in order, as the host learns them.

        One round after `commit`, where rounds are begun ahead.
        """
        del tokens

    def flush(self) -> int:
        """Read committed rows not read yet, unless resting; return how many a head has read."""
        return 0

    @abstractmethod
    def offers(self, newest: int) -> tuple[Offer, ...]:
        """Return the drafter's offers for the next round, the preferred one first.

        Called before every round that may draft, whether or not it does. newest: the last token
        that the host knows.
        """

    def chosen(self, by: DraftedBy | None) -> "Drafter":
        """Return the drafter that makes drafts of this source: this one, unless it combines two."""
        del by
        return self

    @abstractmethod
    def draft(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """Draft at most `wanted.depth` tokens; fewer, or none, without a good guess.

        A draft of which nothing was committed is undone by the next one.
        """

    def snapshot(self) -> SourceSnapshot:
        """Snapshot the drafter's caches and newest hidden state at `length`, for `restore`."""
        caches = tuple(caches.snapshot() for caches in self._caches)
        return SourceSnapshot(self.length, caches, self._newest)

    def earlier(self, length: int) -> SourceSnapshot | None:
        """Return the largest length up to `length` that `restore` can reach without a snapshot.

        None where the caches no longer hold the rows before it.
        """
        if not all(caches.keeps_all_rows for caches in self._caches):
            return None
        length = min([length, *(caches.length for caches in self._caches)])
        return SourceSnapshot(length, tuple(caches.at(length) for caches in self._caches))

    def join(self, other: Self, snapshot: SourceSnapshot) -> None:
        """Copy the state of another drafter of this kind at one of its snapshots.

        The tokens up to there have still to be given to `append`.
        """
        for mine, theirs in zip(self._caches, other._caches, strict=True):
            mine.take_over(theirs)
        self.restore(snapshot)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Take the drafter back to an earlier snapshot of it."""
        for caches, memory in zip(self._caches, snapshot.caches, strict=True):
            caches.restore(memory)
        self._length, self._newest, self._count = snapshot.length, snapshot.newest, None

    def arrays(self) -> list[mx.array]:
        """Arrays that hold the drafter's state, to evaluate so that no graph grows."""
        held = [array for caches in self._caches for array in caches.arrays()]
        return held if self._newest is None else [*held, self._newest]


class NoDraft(Drafter):
    """A drafter that drafts nothing and holds nothing: plain decoding."""

    is_lost = True

    def __init__(self) -> None:
        super().__init__(DraftOptions(source="none"))

    @override
    def offers(self, newest: int) -> tuple[Offer, ...]:
        del newest
        return ()

    @override
    def draft(self, wanted: Proposal, sampler: Sampler) -> Draft:
        del wanted, sampler
        return empty_draft()


class DraftChain:
    """A draft under way: each token is picked from logits that depend on those before it.

    With min_probability the first token that its source finds less likely, and all behind it, are
    not among the candidates: which one that is only the device knows, so the host never waits.
    """

    def __init__(
        self, wanted: Proposal, depth: int, options: DraftOptions, sampler: Sampler
    ) -> None:
        """Begin a draft of `depth` tokens, of which none is picked yet."""
        self._position = wanted.position
        self._sampler = sampler
        self._least = options.min_probability
        self._pick = sampler.pick_greedy
        if options.rule == "shared-noise" and not sampler.is_greedy:
            sampler.draw(wanted.position, depth + 1)
            self._pick = sampler.pick_draft
        self._tokens: list[mx.array] = []
        self._likely: list[mx.array] = []
        self._drafted = mx.zeros((0,), dtype=mx.int32)

    def pick(self, logits: mx.array) -> mx.array:
        """Draft the next token int32 [1] from logits [1, V]; lazy."""
        before = self._drafted
        token = self._pick(logits, self._position + len(self._tokens), before)
        if self._least > 0:
            self._likely.append(self._sampler.probability(logits, token, before) >= self._least)
        self._tokens.append(token)
        self._drafted = mx.concatenate(self._tokens) if len(self._tokens) > 1 else token
        return token

    def draft(self, passes: int) -> Draft:
        """Return the tokens picked so far as a Draft."""
        likely: mx.array | None = None
        if self._likely:
            likely = mx.cumprod(mx.concatenate(self._likely).astype(mx.int32)) > 0
        return Draft(self._drafted, passes, likely)
