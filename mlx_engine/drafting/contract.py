"""What a draft source does: follow the conversation, propose tokens, learn what stood."""

from typing import NamedTuple, Protocol

import mlx.core as mx

from mlx_engine.sampling.sampler import Sampler


class Draft(NamedTuple):
    """Proposed tokens int32 [k], lazy where the source is a model."""

    tokens: mx.array

    @property
    def depth(self) -> int:
        """k, known without evaluating."""
        return int(self.tokens.shape[0])


class DraftSource(Protocol):
    """Follows one conversation. Positions count tokens from the start of the conversation.

    The source sees every committed token once, in order, together with the target's hidden state
    of the position before it.
    """

    @property
    def limit(self) -> int:
        """The deepest draft it can make."""

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T], and target hidden states [1, T, H] of the T positions before.

        Called for the prompt chunk by chunk, and for each round's emitted tokens.
        """

    def propose(self, depth: int, sampler: Sampler, position: int) -> Draft:
        """At most `depth` tokens for `position` onwards; at least what is certain, maybe none."""

    @property
    def length(self) -> int:
        """Committed tokens seen so far."""

    def rewind(self, length: int) -> bool:
        """Forget all tokens from `length` on; False when that boundary is not at hand."""

    def arrays(self) -> list[mx.array]:
        """Arrays to evaluate with the round."""

    @property
    def nbytes(self) -> int:
        """Bytes the source holds for this conversation."""
