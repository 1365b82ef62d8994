"""Drafts with Gemma 4's assistant, which attends to keys and values the target has computed.

It keeps a copy of the two layers it reads: what the target writes in place every round cannot be
held by a draft without the target copying all of it.
"""

from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.attention import AttentionCache, KeysValues
from mlx_engine.cache.layer_caches import CachesSnapshot, LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.drafting.chain import Picking, draft_chain
from mlx_engine.drafting.contract import Draft, Offer, Proposal, SourceSnapshot, empty_draft
from mlx_engine.models.drafters.gemma4_assistant import Gemma4Assistant, SeenRows, TargetRows
from mlx_engine.models.mlx_lm_trunk.gemma4 import SharedLayer
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftRule


class SharedCacheSnapshot(NamedTuple):
    """Both layers and the newest hidden state, which waits for its token."""

    length: int
    caches: CachesSnapshot
    newest: mx.array | None

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        return self.caches.nbytes + (0 if self.newest is None else self.newest.nbytes)


class SharedCacheDraft:
    """Chains on the assistant's own states; picking may change between rounds."""

    def __init__(
        self,
        assistant: Gemma4Assistant,
        rule: DraftRule = "shared-noise",
        min_probability: float = 0.0,
    ) -> None:
        window = assistant.sliding.window
        assert window is not None
        self._assistant = assistant
        self._window = window
        self._full, self._sliding = AttentionCache(), WindowCache(window)
        self._caches = LayerCaches([self._full, self._sliding])
        self._newest: mx.array | None = None
        self._rows: TargetRows | None = None
        self.picking = Picking(rule, min_probability)

    @property
    def length(self) -> int:
        """Tokens observed."""
        return self._caches.length

    @property
    def nbytes(self) -> int:
        """Bytes of the copies."""
        return self._caches.nbytes

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T]; hidden [1, T, H and the keys and values of both layers]."""
        drafter = self._assistant
        wide = drafter.target.features(hidden)
        full, sliding = mx.split(wide, [drafter.full.width], axis=-1)
        self._full.update_and_fetch(*_by_head(full, drafter.full))
        self._sliding.update_and_fetch(*_by_head(sliding, drafter.sliding))
        self._caches.keep(tokens.shape[0])
        self._newest = hidden[:, -1:, : drafter.target.hidden_size]

    def offers(self, last: int) -> tuple[Offer, ...]:
        """A chain, at any place but the very first."""
        del last
        return () if self._newest is None else (Offer("model"),)

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """A chain of `wanted.depth` tokens, lazy unless min_probability is set."""
        if wanted.depth == 0 or self._newest is None:
            return empty_draft()
        self._rows = self._seen()
        last = mx.array([wanted.last])
        state = self._assistant.first_state(last, self._newest, self._rows)
        draft = draft_chain(self, state, wanted, sampler, self.picking)
        self._rows = None  # views of buffers that the next rows are written to in place
        return draft

    def draft_logits(self, state: mx.array) -> mx.array:
        """Through the assistant's output head, [1, V]."""
        return self._assistant.logits(state)

    def read_drafted(self, token: mx.array, state: mx.array) -> mx.array:
        """One more step; keys and values stay those of true tokens."""
        assert self._rows is not None
        return self._assistant.next_state(token, state, self._rows)

    def _seen(self) -> TargetRows:
        """What a row at the next position sees: all before it, and those within the window."""
        length = self.length
        full = self._full.shown()
        sliding = self._sliding.shown()
        count = sliding.keys.shape[2]
        positions = mx.arange(length - count, length)[None]
        mask = None if length < self._window else positions > length - self._window
        return TargetRows(SeenRows(*full, None), SeenRows(*sliding, mask), length)

    def snapshot(self) -> SharedCacheSnapshot:
        """Everything observed."""
        return SharedCacheSnapshot(self.length, self._caches.snapshot(), self._newest)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a boundary."""
        assert isinstance(snapshot, SharedCacheSnapshot)
        self._caches.restore(snapshot.caches)
        self._newest = snapshot.newest

    def arrays(self) -> list[mx.array]:
        """Copies and the newest hidden state."""
        return [*self._caches.arrays(), *([] if self._newest is None else [self._newest])]


def _by_head(rows: mx.array, layer: SharedLayer) -> KeysValues:
    """[1, T, width] -> keys and values [1, heads, T, size]."""
    count = rows.shape[1]
    both = rows.reshape(1, count, 2, layer.heads, layer.size).transpose(2, 0, 3, 1, 4)
    return KeysValues(both[0], both[1])
