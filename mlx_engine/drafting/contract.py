"""What a draft source does: follow the conversation, propose tokens, go back to a checkpoint."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Self

import mlx.core as mx

from mlx_engine.cache.contract import CachesSnapshot, LayerCaches, RowCount
from mlx_engine.drafting.steps import Steps
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, DraftedBy, DraftOptions, DraftOutput

FLUSH_ROWS = 64
"""Rows that may wait for a model's next draft before it reads them without one."""

MOST_WAITING = 2048
"""The same while the source rests."""

FEW_WAITING = 32
"""Rows that a draft reads in its own pass; more are read before, to stay there if it is withdrawn.
"""

ROWS_OF_A_REST = 16
"""The newest rows, all that a head reads for its next draft which has rested for longer. With none
but these before it first drafts are accepted as often as with all of 400 (0.65 and 0.65 on a
trained toy, 0.66 and 0.67 on the built-in model; with 4 rows 0.63 and 0.58), and to read all that
has waited would cost a processor as much as never to have rested.
"""

ROWS_OF_A_PROMPT = 256
"""The newest rows of what comes before an answer, all that a head reads of it. Of prompts of 1,100
tokens no more drafts are accepted with all rows: first to third ones 0.80, 0.69 and 0.61 of the
built-in model (0.80, 0.68, 0.62 with these), 0.54, 0.27 and 0.15 of a trained toy (0.53, 0.29,
0.17).
"""

DEEPEST = 15
"""Tokens of a draft at most, of a source that makes long ones cheaply: 16 rows with the newest."""


class Draft(NamedTuple):
    """Proposed tokens, int32 [k]; lazy where the source is a model.

    passes: passes of a head or small model that went into it, also when nothing came of them.
    """

    tokens: mx.array
    passes: int = 0

    @property
    def depth(self) -> int:
        """k, known without evaluating."""
        return int(self.tokens.shape[0])


def empty_draft(passes: int = 0) -> Draft:
    """No proposal: the round decodes plainly."""
    return Draft(mx.zeros((0,), dtype=mx.int32), passes)


class Offer(NamedTuple):
    """What could draft now.

    chance: the source's own estimate that a token is accepted, None when it has none. is_long: it
    repeats a long piece of text, and so is to be preferred. limit: the deepest draft it can make.
    """

    by: DraftedBy
    chance: float | None = None
    is_long: bool = False
    limit: int = MAX_DEPTH


class Proposal(NamedTuple):
    """What a draft is asked for.

    last: the newest token of the conversation, which no model has read yet, int32 [1]; it may still
    be on its way. position: the index in the conversation of the first token to draft. by: whose
    offer was taken, None for the first.
    """

    depth: int
    last: mx.array
    position: int
    by: DraftedBy | None = None


class Rows(NamedTuple):
    """Rows for a head: tokens int [T] and the hidden states of the positions before [1, T, H]."""

    tokens: mx.array
    hidden: mx.array

    def last(self, rows: int) -> "Rows":
        """The newest of them, so many or all, which do not keep the others alive."""
        if self.tokens.shape[0] <= rows:
            return self
        return Rows(self.tokens[-rows:], mx.contiguous(self.hidden[:, -rows:]))


class SourceSnapshot(NamedTuple):
    """What a source remembers after `length` tokens.

    caches: those of its models, in its own order. newest: the target's hidden state [1, 1, H]
    that still waits for its token. waiting: of each head, the rows that it has not read, and one
    has those of all; empty where no head has any.
    """

    length: int
    caches: tuple[CachesSnapshot, ...] = ()
    newest: mx.array | None = None
    waiting: tuple[tuple[Rows, ...], ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        held = sum(caches.nbytes for caches in self.caches)
        held += max((sum(rows.hidden.nbytes for rows in its) for its in self.waiting), default=0)
        return held + (0 if self.newest is None else self.newest.nbytes)


class DraftSource(ABC):
    """Follows one conversation and guesses how it goes on.

    reads_hidden: it has to be there when the target reads, because it lives on hidden states; any
    other source can be told a conversation's tokens later. reads_words: what it offers depends on
    the newest token, which the host has to know; offers of any other source stay the same from
    round to round. target: the model as this source wants it run, None for as it is. length: tokens
    observed. rests: no draft is near, so it reads nothing before the next one. caches: those of its
    own models.
    """

    reads_hidden: bool = False
    reads_words: bool = False
    target: Model | None = None

    def __init__(self, options: DraftOptions, *caches: LayerCaches) -> None:
        self.options = options
        self.length = 0
        self.rests = False
        self._caches = caches
        self._newest: mx.array | None = None

    @property
    def is_lost(self) -> bool:
        """Whether it cannot draft any more in this conversation: another has to be made."""
        return False

    @property
    def can_pend(self) -> bool:
        """Whether it drafts on from rows of which only the device knows how many there are."""
        return False

    @property
    def runs_a_model(self) -> bool:
        """Whether it takes time to be told tokens."""
        return bool(self._caches)

    @property
    def held(self) -> tuple[LayerCaches, ...]:
        """The caches of its models, in the order of its snapshots."""
        return self._caches

    @property
    def nbytes(self) -> int:
        """Bytes the source holds for this conversation."""
        held = sum(caches.nbytes for caches in self._caches)
        return held if self._newest is None else held + self._newest.nbytes

    @property
    def output(self) -> DraftOutput | None:
        """The output head that MTP heads draft with; None where no MTP head drafts."""
        return None

    def prepare(self) -> None:
        """Bring what drafts into memory, before a draft is asked for. Raises EngineError."""
        return

    def rest(self, *, rests: bool) -> None:
        """Let rows wait, or read them as they come; asked before every round.

        What waits costs nothing but its memory, so a conversation without drafts is as fast as one
        without this source. A source that cannot keep so much is lost.
        """
        self.rests = rests

    def follow(self, options: DraftOptions) -> None:
        """Take over what may change between rounds: rule, min_probability, output head."""
        self.options = options

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Tokens int [T] that the target has committed, and its hidden states [1, T, H] of them.

        Every committed token exactly once, in order: the prompt in chunks, then round by round.
        """
        del hidden
        self.length += tokens.shape[0]

    def pass_over(self, tokens: mx.array, hidden: mx.array) -> None:
        """The same of tokens far before an answer. A source that can do without their states leaves
        them out, and they are never computed.
        """
        self.observe(tokens, hidden)

    def saw(self, tokens: Sequence[int]) -> None:
        """Words of the same tokens, each once and in order, as soon as the host knows them: behind
        `observe`, by a round where the next one is begun before the outcome of the last is known.
        """
        del tokens

    def flush(self) -> int:
        """Read what waits, unless no draft is near; how many rows a head has read."""
        return 0

    @abstractmethod
    def offers(self, newest: int) -> tuple[Offer, ...]:
        """Who could draft, the preferred one first; newest: the last token that the host knows.

        Asked before every round that may draft, whether or not it then does.
        """

    @abstractmethod
    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """At most `wanted.depth` tokens; fewer, or none, when it has no good guess."""

    def steps(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """The same, step by step where it asks a model."""
        yield from ()
        return self.propose(wanted, sampler)

    def withdraw(self) -> None:
        """Take back what the last `propose` has read; after it, and before `observe`."""
        return

    def pend(self, picked: mx.array, hidden: mx.array, pending: RowCount) -> None:
        """In the place of `observe`, after a draft of k tokens of its own and where `can_pend`: go
        on after as many rows as the device knows.

        picked: of all rows the target's next tokens, int32 [k + 1]; hidden: [1, k + 1, H].
        """
        del picked, hidden, pending
        raise AssertionError("this source has to be told")

    def settle(self, rows: int) -> None:
        """They were so many; a draft made since stands, and may yet be withdrawn. With none of them
        also the draft that they verified is undone.
        """
        del rows
        raise AssertionError("nothing is pending")

    def snapshot(self) -> SourceSnapshot:
        """The memory at `length`; not between a draft and its round."""
        caches = tuple(caches.snapshot() for caches in self._caches)
        return SourceSnapshot(self.length, caches, self._newest)

    def earlier(self, length: int) -> SourceSnapshot | None:
        """A place to `restore` of at most `length` tokens, as near to it as can be, without a
        snapshot taken there; None where what came before it is gone.
        """
        if not all(caches.keeps_all_rows for caches in self._caches):
            return None
        length = min([length, *(caches.length for caches in self._caches)])
        return SourceSnapshot(length, tuple(caches.at(length) for caches in self._caches))

    def join(self, other: Self, snapshot: SourceSnapshot) -> None:
        """Stand where another of its kind made a snapshot, which goes on by itself. It has still to
        be told the words up to there.
        """
        for mine, its in zip(self._caches, other._caches, strict=True):
            mine.take_over(its)
        self.restore(snapshot)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot taken from this very source."""
        for caches, memory in zip(self._caches, snapshot.caches, strict=True):
            caches.restore(memory)
        self.length, self._newest = snapshot.length, snapshot.newest

    def arrays(self) -> list[mx.array]:
        """Arrays that hold the memory, to evaluate so that no graph grows."""
        held = [array for caches in self._caches for array in caches.arrays()]
        return held if self._newest is None else [*held, self._newest]


class NoDraft(DraftSource):
    """Proposes nothing: plain decoding. It counts tokens and holds nothing."""

    is_lost = True

    def __init__(self) -> None:
        super().__init__(DraftOptions(source="none"))

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """Nothing."""
        del newest
        return ()

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """Nothing."""
        del wanted, sampler
        return empty_draft()
