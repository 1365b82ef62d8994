"""Drafts with models made to read what their target computes: DFlash, and Gemma 4's assistant.

Their target runs with features beside its hidden states (models/drafters). EAGLE-3 is one of them
too, but drafts as an MTP head does (mtp.py).
"""

from abc import abstractmethod
from typing import Self

import mlx.core as mx

from mlx_engine.cache.attention import AttentionCache, KeysValues
from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.cache.window import WindowCache
from mlx_engine.drafting.drafter import (
    DEEPEST,
    Draft,
    Drafter,
    Offer,
    Proposal,
    ReadRows,
    SourceSnapshot,
    Step,
    Steps,
    empty_draft,
)
from mlx_engine.drafting.model_drafter import FLUSH_ROWS, MOST_WAITING, ModelDrafter
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.drafting.small_model import SmallModelDraft
from mlx_engine.models.contract import Model
from mlx_engine.models.drafters import Drafter as DraftModel
from mlx_engine.models.drafters.dflash import DFlash
from mlx_engine.models.drafters.eagle3 import Eagle3
from mlx_engine.models.drafters.gemma4_assistant import (
    Gemma4Assistant,
    SeenRows,
    SharedLayer,
    TargetRows,
)
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.options import CacheBits, DraftOptions


def draft_with(
    opened: Model | DraftModel, options: DraftOptions, vocabulary: int, bits: CacheBits = 16
) -> Drafter:
    """The source that drafts with an opened draft model; vocabulary: the target's; bits: of the
    draft model's keys and values. UnsupportedModel where it cannot have them so.
    """
    if bits != 16 and opened.packed_cache is not None:
        raise UnsupportedModel(
            "The draft model cannot have a cache of {bits} bits. {words} Set head_bits to 16.",
            bits=bits,
            words=opened.packed_cache.words,
        )
    match opened:
        case Eagle3() as head:
            return MtpDraft([head], options, by="model", target=head.target, bits=bits)
        case Gemma4Assistant() as assistant:
            return SharedCacheDraft(assistant, options, bits)
        case DFlash() as drafter:
            return BlockDraft(drafter, options, bits)
        case model:
            return SmallModelDraft(model, vocabulary, options, bits)


class FeatureDraft(ModelDrafter):
    """Remembers what the target has computed; rows that come while it rests wait, and are taken in
    together.
    """

    reads_hidden = True
    _waiting: tuple[mx.array, ...] = ()

    @abstractmethod
    def take_in(self, features: mx.array) -> None:
        """Remember the features [1, T, F] of the rows that have waited."""

    def _take_waiting(self) -> None:
        if self._waiting:
            self.take_in(mx.concatenate(list(self._waiting), axis=1))
            self._waiting = ()

    def snapshot(self) -> SourceSnapshot:
        """Everything observed, taken in."""
        self._take_waiting()
        return super().snapshot()

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._waiting = ()

    def arrays(self) -> list[mx.array]:
        """What is remembered, and what waits."""
        return [*super().arrays(), *self._waiting]


class BlockDraft(FeatureDraft):
    """DFlash: all tokens of a draft in one pass over a block of masks."""

    def __init__(self, drafter: DFlash, options: DraftOptions, bits: CacheBits = 16) -> None:
        super().__init__(options, drafter.make_caches(bits))
        self.target = drafter.target
        self._drafter = drafter
        self.limit = min(DEEPEST, drafter.most)

    @property
    def _remembered(self) -> LayerCaches:
        return self._caches[0]

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """Take in committed rows; hidden [1, R, H and features]."""
        super().commit(rows, count)
        assert isinstance(count, int)
        self._waiting = (*self._waiting, self._drafter.target.features(rows.first(count).hidden))
        unread = self.length - self._remembered.length
        if unread >= (MOST_WAITING if self.rests else FLUSH_ROWS):
            self._take_waiting()
            mx.eval(self._remembered.arrays())

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """A block, at any place but the very first."""
        del newest
        return (Offer("model", limit=self.limit),) if self.length else ()

    def draft(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """`wanted.depth` tokens of one block."""
        if wanted.depth == 0 or not self.length:
            return empty_draft()
        self._take_waiting()
        states = self._drafter.block(wanted.last, self._remembered)
        few = wanted._replace(depth=min(wanted.depth, self.limit))
        draft = yield from self.chain(states, few, sampler)
        return draft._replace(passes=1)

    def draft_logits(self, state: mx.array) -> Steps[mx.array]:
        """Of the first of the states [1, rows left, H], [1, V]."""
        logits = yield Step((state[:, :1],), self._drafter.logits, self._drafter.logits)
        return logits.squeeze(0)

    def read_drafted(self, token: mx.array, state: mx.array) -> Steps[mx.array]:
        """The states left; what was drafted does not change them."""
        del token
        yield from ()
        return state[:, 1:]

    def take_in(self, features: mx.array) -> None:
        """As above."""
        self._drafter.remember(features, self._remembered)


class SharedCacheDraft(FeatureDraft):
    """Gemma 4's assistant, which attends to keys and values that the target has computed.

    It keeps a copy of the two layers it reads: what the target writes in place every round cannot
    be held by a draft without the target copying all of it.
    """

    def __init__(
        self, assistant: Gemma4Assistant, options: DraftOptions, bits: CacheBits = 16
    ) -> None:
        window = assistant.sliding.window
        self._full, self._sliding = AttentionCache(bits), WindowCache(window, bits=bits)
        super().__init__(options, LayerCaches([self._full, self._sliding]))
        self.target = assistant.target
        self._assistant = assistant
        self._window = window
        self._rows: TargetRows | None = None

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """Take in committed rows; hidden [1, R, H and the keys and values of both layers]."""
        super().commit(rows, count)
        assert isinstance(count, int)
        target, hidden = self._assistant.target, rows.first(count).hidden
        self._waiting = (*self._waiting, target.features(hidden))
        self._newest = mx.contiguous(hidden[:, -1:, : target.hidden_size])
        if not self.rests or self.length - self._full.length >= MOST_WAITING:
            self._take_waiting()

    def take_in(self, features: mx.array) -> None:
        """As above."""
        drafter = self._assistant
        full, sliding = mx.split(features, [drafter.full.width], axis=-1)
        self._full.write(*_by_head(full, drafter.full))
        self._sliding.write(*_by_head(sliding, drafter.sliding))
        self._caches[0].commit(features.shape[1])

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """A draft, at any place but the very first."""
        del newest
        return () if self._newest is None else (Offer("model"),)

    def draft(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """`wanted.depth` tokens."""
        if wanted.depth == 0 or self._newest is None:
            return empty_draft()
        self._take_waiting()
        self._rows = self._seen()
        state = self._assistant.first_state(wanted.last, self._newest, self._rows)
        draft = yield from self.chain(state, wanted, sampler)
        self._rows = None  # views of buffers that the next rows are written to in place
        return draft

    def join(self, other: Self, snapshot: SourceSnapshot) -> None:
        """Stand where another of its kind made a snapshot."""
        self._full, self._sliding = other._full.fork(), other._sliding.fork()
        self._caches = (LayerCaches([self._full, self._sliding]),)
        self.restore(snapshot)

    def draft_logits(self, state: mx.array) -> Steps[mx.array]:
        """Through the assistant's output head, [1, V]."""
        yield from ()
        return self._assistant.logits(state)

    def read_drafted(self, token: mx.array, state: mx.array) -> Steps[mx.array]:
        """One more step; keys and values stay those of true tokens."""
        yield from ()
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


def _by_head(rows: mx.array, layer: SharedLayer) -> KeysValues:
    """[1, T, width] -> keys and values [1, heads, T, size]."""
    count = rows.shape[1]
    both = rows.reshape(1, count, 2, layer.heads, layer.size).transpose(2, 0, 3, 1, 4)
    return KeysValues(both[0], both[1])
