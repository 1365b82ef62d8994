"""Drafts with a second, smaller model that has the same tokens.

Its caches hold true tokens only: a round's committed tokens and the newest are read in the pass
that makes the next round's first draft, so a draft of k tokens costs k passes. Rows of the draft
are forgotten after each round.
"""

from dataclasses import dataclass

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.cache.joint import JointCaches
from mlx_engine.drafting.drafter import (
    DEEPEST,
    Offer,
    ReadRows,
    Rows,
    SourceSnapshot,
    Step,
    Steps,
    run_alone,
)
from mlx_engine.drafting.model_drafter import (
    FLUSH_ROWS,
    MOST_WAITING,
    HeadMemory,
    MemoryDrafter,
)
from mlx_engine.models.contract import Model
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.options import CacheBits, DraftOptions


@dataclass(frozen=True, slots=True)
class _Forward:
    """A whole model in the place of a head: the target's hidden states are of no use to it."""

    model: Model

    def __call__(
        self, tokens: mx.array, hidden: mx.array, caches: LayerCaches | JointCaches
    ) -> mx.array:
        """Tokens [1, T] -> states; tokens that it lacks are read as its last one."""
        del hidden
        known = mx.minimum(tokens, self.model.vocabulary - 1)
        if isinstance(caches, LayerCaches):
            return self.model.forward(known, caches)
        assert self.model.joint is not None
        return self.model.joint(known, caches)


class SmallModelDraft(MemoryDrafter):
    """Goes on from the small model's own tokens.

    vocabulary: rows of the target's logits; the small model may have more or fewer unused ones.
    bits: of its keys and values. UnsupportedModel for a small model that cannot take back what the
    target rejects.
    """

    def __init__(
        self, model: Model, vocabulary: int, options: DraftOptions, bits: CacheBits = 16
    ) -> None:
        if model.plain_only is not None:
            raise UnsupportedModel(
                "This draft model cannot draft: some of its layers cannot take back rejected "
                "tokens. Use another draft model."
            )
        can_join = model.joint is not None
        self._memory = HeadMemory(_Forward(model), model.make_caches(bits), can_join=can_join)
        super().__init__(options, [self._memory], DEEPEST)
        self._model = model
        self._vocabulary = vocabulary
        self._newest = _no_states(1)

    @property
    def can_follow(self) -> bool:
        """Where its layers are ours."""
        return self._model.joint is not None

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """Have the committed tokens wait."""
        super().commit(rows._replace(hidden=_no_states(rows.tokens.shape[0])), count)

    def _limit_waiting(self, *, has_draft: bool) -> None:
        del has_draft
        if self._memory.unread >= (MOST_WAITING if self.rests else FLUSH_ROWS):
            self._read_waiting()

    def _read_waiting(self) -> None:
        if self._memory.unread:
            mx.async_eval(run_alone(self._memory.read_waiting()))  # type: ignore[no-untyped-call]

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """A draft, anywhere."""
        del newest
        return (Offer("model", limit=DEEPEST),)

    def draft_logits(self, state: mx.array) -> Steps[mx.array]:
        """Logits [1, V] of the target's vocabulary; what the small model lacks is -inf."""
        found = yield Step((state,), self._model.logits, self._model.logits)
        logits = found.squeeze(0)
        missing = self._vocabulary - logits.shape[1]
        if missing <= 0:
            return logits[:, : self._vocabulary]
        return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)

    def read_drafted(self, token: mx.array, state: mx.array) -> Steps[mx.array]:
        """The state after one more token."""
        del state
        self._memory.wait_only([Rows(token, _no_states(1))])
        return self._memory.read_waiting()

    def snapshot(self) -> SourceSnapshot:
        """Everything committed, read into the caches."""
        self._resolve()
        self._undo_draft()
        self._read_waiting()
        return super().snapshot()._replace(newest=None)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._memory.wait_only([])
        self._newest = _no_states(1)


def _no_states(rows: int) -> mx.array:
    """In the place of the target's hidden states, [1, rows, 1]."""
    return mx.zeros((1, rows, 1))
