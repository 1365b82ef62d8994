"""Values that pass between the drafters, the depth policy and the rounds of decoding."""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import CachesSnapshot
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import MAX_DEPTH, DraftedBy

DEEPEST = 15
"""The longest draft of drafters that make long ones cheaply; the target verifies 16 rows then."""

ROWS_AFTER_PAUSE = 16
"""Newest rows that a head reads for its first draft after a pause.

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


class Draft(NamedTuple):
    """Drafted tokens for the target to verify, int32 [k]; lazy where a model drafts.

    passes: number of passes of a head or small model, also for a draft of no tokens.
    """

    tokens: mx.array
    passes: int = 0


def empty_draft() -> Draft:
    """A draft without tokens: the round decodes plainly."""
    return Draft(mx.zeros((0,), dtype=mx.int32))


class DraftOffer(NamedTuple):
    """A drafter's offer to draft in the next round.

    chance: the drafter's estimate that a token is accepted, None when it has none. is_long: the
    draft would repeat a long earlier passage, and is preferred. limit: the deepest draft.
    """

    by: DraftedBy
    chance: float | None = None
    is_long: bool = False
    limit: int = MAX_DEPTH


class DraftChoice(NamedTuple):
    """How many tokens a round drafts (`depth`), and why no more where more was asked for.

    auto: the depth that would be fastest, where the user has fixed another. by: the source that
    drafts.
    """

    depth: int
    why: Reason | None
    auto: int | None = None
    by: DraftedBy | None = None


class BatchLimits(NamedTuple):
    """What shared passes of the target allow one chat: the other chats in them, deepest draft."""

    other_chats: int = 0
    deepest: int = DEEPEST


ALONE = BatchLimits()


class DraftRequest(NamedTuple):
    """A request to a drafter for `depth` tokens after the newest token of a conversation.

    last: the newest token of the conversation, which no model has read yet, int32 [1]; lazy.
    position: index in the conversation of the first token to draft. by: the draft source, as in
    statistics.
    """

    depth: int
    last: mx.array
    position: int
    by: DraftedBy | None = None


class TargetRows(NamedTuple):
    """Tokens that the target has read in its last pass or a prompt, and what it computed; lazy.

    tokens: int [R]. hidden: hidden states [1, R, H]. picked: the target's next token after each
    row, int32 [R], -1 where a logit of the row is not finite; None in a prompt. pictures: what
    stands in a prompt's rows of pictures; None without pictures.
    """

    tokens: mx.array
    hidden: mx.array
    picked: mx.array | None = None
    pictures: PictureRows | None = None

    def first_rows(self, count: int) -> "TargetRows":
        """Return the first `count` rows: their tokens, hidden states and picked tokens; lazy."""
        if count == self.tokens.shape[0]:
            return self
        picked = None if self.picked is None else self.picked[:count]
        return TargetRows(self.tokens[:count], self.hidden[:, :count], picked)


class UnreadRowArrays(NamedTuple):
    """Input of an MTP head: tokens int [T], hidden states of the positions before [1, T, H]."""

    tokens: mx.array
    hidden: mx.array

    def newest_rows(self, count: int) -> "UnreadRowArrays":
        """Copy the newest `count` rows (tokens and hidden states), so that the others are freed."""
        if self.tokens.shape[0] <= count:
            return self
        return UnreadRowArrays(self.tokens[-count:], mx.contiguous(self.hidden[:, -count:]))


class DrafterSnapshot(NamedTuple):
    """Snapshot of a drafter after `length` tokens of a conversation.

    caches: of the drafter's models, in the order of `Drafter.caches`. newest: the target's hidden
    state [1, 1, H] that has no token yet. waiting: for each head, the rows that it has not read,
    which overlap; empty where no head has any.
    """

    length: int
    caches: tuple[CachesSnapshot, ...] = ()
    newest: mx.array | None = None
    waiting: tuple[tuple[UnreadRowArrays, ...], ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of memory that only this drafter snapshot keeps alive."""
        nbytes = sum(caches.nbytes for caches in self.caches)
        heads = (sum(rows.hidden.nbytes for rows in waiting) for waiting in self.waiting)
        nbytes += max(heads, default=0)
        return nbytes + (0 if self.newest is None else self.newest.nbytes)
