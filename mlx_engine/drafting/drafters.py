"""Drafts with models published apart: a small model, DFlash, EAGLE-3, Gemma 4's assistant.

A small model has the target's tokens and reads nothing else; the others read what the target
computes, which then runs with features beside its hidden states (models/drafters). A small model
and EAGLE-3 draft as an MTP head does (mtp.py).
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import mlx.core as mx

from mlx_engine.cache.attention import AttentionCache, KeysValues
from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.cache.joint import JointCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.drafting.drafter import (
    DEEPEST,
    Draft,
    DraftChain,
    Drafter,
    Offer,
    Proposal,
    ReadRows,
    SourceSnapshot,
    empty_draft,
)
from mlx_engine.drafting.head_memory import FLUSH_ROWS, MOST_WAITING
from mlx_engine.drafting.mtp import HeadDrafter, MtpDraft
from mlx_engine.models.contract import Model
from mlx_engine.models.drafters import Drafter as DraftModel
from mlx_engine.models.drafters.dflash import DFlash
from mlx_engine.models.drafters.eagle3 import Eagle3
from mlx_engine.models.drafters.gemma4_assistant import Gemma4Assistant, SharedLayer
from mlx_engine.models.layers import Linear
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


@dataclass(frozen=True, slots=True)
class SmallModelHead:
    """A whole model in the place of an MTP head; the target's hidden states are not read.

    vocabulary: rows of the target's logits; the small model may have more or fewer unused ones.
    """

    model: Model
    vocabulary: int
    mtp_output: Linear | None = None

    def make_head_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Empty caches for all layers."""
        return self.model.make_caches(bits)

    def mtp_forward(
        self, tokens: mx.array, hidden: mx.array, caches: LayerCaches | JointCaches
    ) -> mx.array:
        """Tokens [1, T] -> states; tokens that the model lacks are read as its last one."""
        del hidden
        known = mx.minimum(tokens, self.model.vocabulary - 1)
        if isinstance(caches, LayerCaches):
            return self.model.forward(known, caches)
        assert self.model.joint is not None
        return self.model.joint(known, caches)

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """States [1, T, H] -> logits [1, T, V]; -inf for tokens that the model lacks."""
        del output
        logits = self.model.logits(hidden)
        missing = self.vocabulary - logits.shape[-1]
        if missing <= 0:
            return logits[..., : self.vocabulary]
        return mx.pad(logits, [(0, 0), (0, 0), (0, missing)], constant_values=-mx.inf)


class SmallModelDraft(HeadDrafter):
    """Drafts with a second, smaller model that has the same tokens.

    Committed rows and the newest token are read in the pass that makes a round's first draft, so a
    draft of k tokens costs k passes. vocabulary: rows of the target's logits. bits: of the small
    model's keys and values. Raises UnsupportedModel for one that cannot take back what the target
    rejects.
    """

    def __init__(
        self, model: Model, vocabulary: int, options: DraftOptions, bits: CacheBits = 16
    ) -> None:
        if model.plain_only is not None:
            raise UnsupportedModel(
                "This draft model cannot draft: some of its layers cannot take back rejected "
                "tokens. Use another draft model."
            )
        self._can_join = model.joint is not None
        head = SmallModelHead(model, vocabulary)
        super().__init__([head], options, DEEPEST, bits, can_join=self._can_join)
        self._newest = _no_states(1)

    @property
    def can_follow(self) -> bool:
        """Whether the model's layers are ours."""
        return self._can_join

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """Have the committed tokens wait."""
        super().commit(rows._replace(hidden=_no_states(rows.tokens.shape[0])), count)

    def _limit_waiting(self, *, has_draft: bool) -> None:
        del has_draft
        if self._memories[0].unread >= (MOST_WAITING if self.rests else FLUSH_ROWS):
            self._read_waiting()

    def _read_waiting(self) -> None:
        if self._memories[0].unread:
            mx.async_eval(self._memories[0].read())  # type: ignore[no-untyped-call]

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """A draft, anywhere."""
        del newest
        return (Offer("model", limit=self.limit),)

    def snapshot(self) -> SourceSnapshot:
        """Everything committed, read into the caches."""
        self._resolve()
        self._undo_draft()
        self._read_waiting()
        return super().snapshot()._replace(newest=None)

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._newest = _no_states(1)


def _no_states(rows: int) -> mx.array:
    """In the place of the target's hidden states, [1, rows, 1]."""
    return mx.zeros((1, rows, 1))


class FeatureDraft(Drafter):
    """Remembers what the target has computed.

    Rows that come while it rests wait, and are taken in together.
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

    def draft(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """Draft `wanted.depth` tokens of one block, no more than `limit`."""
        depth = min(wanted.depth, self.limit)
        if depth == 0 or not self.length:
            return empty_draft()
        self._take_waiting()
        states = self._drafter.block(wanted.last, self._remembered)
        logits = self._drafter.logits(states[:, :depth]).squeeze(0)
        chain = DraftChain(wanted, depth, self.options, sampler)
        for row in range(depth):
            chain.pick(logits[row : row + 1])
        return chain.draft(1)

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
        self._full = AttentionCache(bits)
        self._sliding = WindowCache(assistant.sliding.window, bits=bits)
        super().__init__(options, LayerCaches([self._full, self._sliding]))
        self.target = assistant.target
        self._assistant = assistant

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

    def draft(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """Draft `wanted.depth` tokens; keys and values stay those of true tokens."""
        if wanted.depth == 0 or self._newest is None:
            return empty_draft()
        self._take_waiting()
        (caches,) = self._caches
        chain = DraftChain(wanted, wanted.depth, self.options, sampler)
        state = self._assistant.first_state(wanted.last, self._newest, caches)
        for _ in range(wanted.depth - 1):
            token = chain.pick(self._assistant.logits(state))
            state = self._assistant.next_state(token, state, caches)
        chain.pick(self._assistant.logits(state))
        return chain.draft(wanted.depth)

    def join(self, other: Self, snapshot: SourceSnapshot) -> None:
        """Stand where another of its kind made a snapshot."""
        self._full, self._sliding = other._full.fork(), other._sliding.fork()
        self._caches = (LayerCaches([self._full, self._sliding]),)
        self.restore(snapshot)


def _by_head(rows: mx.array, layer: SharedLayer) -> KeysValues:
    """[1, T, width] -> keys and values [1, heads, T, size]."""
    count = rows.shape[1]
    both = rows.reshape(1, count, 2, layer.heads, layer.size).transpose(2, 0, 3, 1, 4)
    return KeysValues(both[0], both[1])
