"""Drafts with a second, smaller model that has the same tokens.

Its caches stand after true tokens only: a round's accepted tokens and the newest are read in the
pass that makes the next round's first draft, so a draft of k tokens costs k passes. Rows of the
draft are forgotten after each round.
"""

import mlx.core as mx

from mlx_engine.drafting.contract import (
    DEEPEST,
    FLUSH_ROWS,
    MOST_WAITING,
    Draft,
    DraftSource,
    Offer,
    Proposal,
    SourceSnapshot,
    draft_chain,
    empty_draft,
)
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.options import DraftOptions


class SmallModelDraft(DraftSource):
    """Goes on from the small model's own tokens.

    vocabulary: rows of the target's logits; the small model may have more or fewer unused ones.
    UnsupportedModel for a small model that cannot take back what the target rejects.
    """

    def __init__(self, model: Model, vocabulary: int, options: DraftOptions) -> None:
        if model.plain_only is not None:
            raise UnsupportedModel(
                "This draft model cannot draft: some of its layers keep a block of tokens whole or "
                "not at all, and the target rejects parts of blocks. Give another draft model."
            )
        self._own = model.make_caches()
        super().__init__(options, self._own)
        self._model = model
        self._vocabulary = vocabulary
        self._waiting: list[mx.array] = []
        self._is_ahead = False

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T]; the hidden states are of no use."""
        super().observe(tokens, hidden)
        unread = tokens[1:] if self._is_ahead else tokens  # the last draft has read its newest
        if unread.shape[0]:
            self._waiting.append(unread)
        self._is_ahead = False
        if self.length - self._own.length >= (MOST_WAITING if self.rests else FLUSH_ROWS):
            self._read_waiting()

    def offers(self, last: int) -> tuple[Offer, ...]:
        """A draft, anywhere."""
        del last
        return (Offer("model", limit=DEEPEST),)

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """`wanted.depth` tokens, lazy unless min_probability is set."""
        if wanted.depth == 0:
            return empty_draft()
        state = self._read([*self._waiting, mx.array([wanted.last])])
        self._waiting = []
        self._is_ahead = True
        true_tokens = self._own.snapshot()
        draft = draft_chain(self, state, wanted, sampler, self.options)
        self._own.restore(true_tokens)
        return draft

    def draft_logits(self, state: mx.array) -> mx.array:
        """Logits [1, V] of the target's vocabulary; what the small model lacks is -inf."""
        logits = self._model.logits(state).squeeze(0)
        missing = self._vocabulary - logits.shape[1]
        if missing <= 0:
            return logits[:, : self._vocabulary]
        return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)

    def read_drafted(self, token: mx.array, state: mx.array) -> mx.array:
        """The state after one more token."""
        del state
        return self._read([token])

    def _read(self, parts: list[mx.array]) -> mx.array:
        """Read tokens and remember them; the state after the newest [1, 1, H]."""
        tokens = mx.concatenate(parts)
        known = mx.minimum(tokens, self._model.vocabulary - 1)
        hidden = self._model.forward(known[None], self._own)
        self._own.keep(tokens.shape[0])
        return hidden[:, -1:]

    def _read_waiting(self) -> None:
        if self._waiting:
            self._read(self._waiting)
            self._waiting = []
            mx.async_eval(self._own.arrays())  # type: ignore[no-untyped-call]

    def snapshot(self) -> SourceSnapshot:
        """Everything observed, read into the caches."""
        assert not self._is_ahead
        self._read_waiting()
        return super().snapshot()

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._waiting = []
        self._is_ahead = False
