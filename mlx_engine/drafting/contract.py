"""What a draft source does: follow the conversation, propose tokens, go back to a boundary."""

from typing import NamedTuple, Protocol

import mlx.core as mx

from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, DraftedBy


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

    chance: the source's own estimate that a token stands, None when it has none. is_long: it
    repeats a long piece of text, and so is to be preferred. limit: the deepest draft it can make.
    """

    by: DraftedBy
    chance: float | None = None
    is_long: bool = False
    limit: int = MAX_DEPTH


class Proposal(NamedTuple):
    """What a draft is asked for.

    last: the newest token of the conversation, which no model has read yet. position: the index in
    the conversation of the first token to draft. by: whose offer was taken, None for the first.
    """

    depth: int
    last: int
    position: int
    by: DraftedBy | None = None


class SourceSnapshot(Protocol):
    """A source's memory at a boundary."""

    @property
    def length(self) -> int:
        """Tokens observed at the boundary."""

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""


class DraftSource(Protocol):
    """Follows one conversation and guesses how it goes on."""

    @property
    def length(self) -> int:
        """Tokens observed."""

    @property
    def nbytes(self) -> int:
        """Bytes the source holds for this conversation."""

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Tokens int [T] that the target has committed, and its hidden states [1, T, H] of them.

        Every committed token exactly once, in order: the prompt in chunks, then round by round.
        """

    def offers(self, last: int) -> tuple[Offer, ...]:
        """Who could draft after the newest token `last`, the preferred one first.

        Asked once before every round of the answer, whether or not it then drafts.
        """

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """At most `wanted.depth` tokens; fewer, or none, when it has no good guess."""

    def snapshot(self) -> SourceSnapshot:
        """The memory at `length`."""

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a boundary taken from this very source."""

    def arrays(self) -> list[mx.array]:
        """Arrays that hold the memory, to evaluate so that no graph grows."""
