"""Drafts with models published apart: a small model, DFlash, EAGLE-3, Gemma 4's assistant.

A small model has the target's tokens and reads nothing else; the others read what the target
computes, which then runs with features beside its hidden states (models/drafters). A small model
and EAGLE-3 draft as an MTP head does (mtp.py).
"""

from dataclasses import dataclass

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.cache.joint import ConversationCaches
from mlx_engine.drafting.contract import (
    DEEPEST,
    Draft,
    DrafterSnapshot,
    DraftOffer,
    DraftRequest,
    TargetRows,
    empty_draft,
)
from mlx_engine.drafting.drafter import FLUSH_ROWS, MOST_WAITING, Drafter
from mlx_engine.drafting.mtp import HeadDrafter, MtpDraft
from mlx_engine.models.contract import Model
from mlx_engine.models.drafters.eagle3 import Eagle3
from mlx_engine.models.drafters.target import FeatureDrafter, FeatureModel, FeatureReader
from mlx_engine.models.layers import Linear
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.sampling.sampler import DraftPicks, Sampler
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.options import CacheBits, DraftOptions


def draft_with(
    draft_model: Model | FeatureReader, options: DraftOptions, vocabulary: int, bits: CacheBits = 16
) -> Drafter:
    """Make the drafter of an opened draft model for one conversation.

    vocabulary: rows of the target's logits. bits: of the draft model's keys and values. Raises
    UnsupportedModel where its cache cannot have so few bits.
    """
    if bits != 16 and draft_model.packed_cache is not None:
        raise UnsupportedModel(
            "The draft model cannot have a cache of {bits} bits. {words} Set head_bits to 16.",
            bits=bits,
            words=draft_model.packed_cache.words,
        )
    match draft_model:
        case Eagle3() as head:
            return MtpDraft([head], options, source="model", target=head.target, bits=bits)
        case FeatureDrafter() as reader:
            return FeatureDraft(reader, options, bits)
        case FeatureReader():
            raise AssertionError(type(draft_model).__name__)
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
        """Make empty caches for all layers of the small model. bits: of keys and values."""
        return self.model.make_caches(bits)

    def mtp_forward(
        self,
        tokens: mx.array,
        hidden: mx.array,
        caches: LayerCaches | ConversationCaches,
        pictures: PictureRows | None = None,
    ) -> mx.array:
        """Tokens [1, T] -> the small model's states; tokens it lacks are read as its last one."""
        del hidden, pictures
        known = mx.minimum(tokens, self.model.vocabulary - 1)
        if isinstance(caches, LayerCaches):
            return self.model.forward(known, caches)
        assert self.model.joint_forward is not None
        return self.model.joint_forward(known, caches)

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """The small model's states [1, T, H] -> logits [1, T, V]; -inf for tokens it lacks."""
        del output
        logits = self.model.logits(hidden)
        missing = self.vocabulary - logits.shape[-1]
        if missing <= 0:
            return logits[..., : self.vocabulary]
        return mx.pad(logits, [(0, 0), (0, 0), (0, missing)], constant_values=-mx.inf)


class SmallModelDraft(HeadDrafter):
    """Drafts with a second, smaller model that has the target's tokens.

    Committed rows and the newest token are read in the pass that makes a round's first draft, so a
    draft of k tokens costs k passes. vocabulary: rows of the target's logits. bits: of the small
    model's keys and values. Raises UnsupportedModel for one that cannot take back what the target
    rejects.
    """

    def __init__(
        self, model: Model, vocabulary: int, options: DraftOptions, bits: CacheBits = 16
    ) -> None:
        if model.why_no_drafts is not None:
            raise UnsupportedModel(
                "This draft model cannot draft: some of its layers cannot take back rejected "
                "tokens. Use another draft model."
            )
        self.can_follow = model.joint_forward is not None
        head = SmallModelHead(model, vocabulary)
        super().__init__([head], options, DEEPEST, "model", bits, can_share_passes=self.can_follow)
        self._newest = _no_states(1)

    @override
    def commit(self, rows: TargetRows, count: int | RowCount) -> None:
        super().commit(rows._replace(hidden=_no_states(rows.tokens.shape[0])), count)

    def _limit_unread_rows(self, *, has_draft: bool) -> None:
        del has_draft
        if self._memories[0].unread >= (MOST_WAITING if self.is_paused else FLUSH_ROWS):
            self._prefill_unread_rows()

    def _prefill_unread_rows(self) -> None:
        if self._memories[0].unread:
            mx.async_eval(self._memories[0].read_rows())  # type: ignore[no-untyped-call]

    @override
    def snapshot(self) -> DrafterSnapshot:
        self._resolve_length()
        self._undo_draft()
        self._prefill_unread_rows()
        return super().snapshot()._replace(newest=None)

    @override
    def restore(self, snapshot: DrafterSnapshot) -> None:
        super().restore(snapshot)
        self._newest = _no_states(1)


def _no_states(rows: int) -> mx.array:
    """Return zeros [1, rows, 1] in the place of the target's hidden states."""
    return mx.zeros((1, rows, 1))


class FeatureDraft(Drafter):
    """Drafts with a model that remembers what the target has computed (DFlash, Gemma's assistant).

    Features of committed rows that come while no draft is near are kept, and read together later.
    """

    reads_hidden = True

    def __init__(self, model: FeatureDrafter, options: DraftOptions, bits: CacheBits = 16) -> None:
        super().__init__(options, model.make_caches(bits))
        self.limit = model.limit
        self.offer = DraftOffer("model", limit=model.limit)
        self.target: FeatureModel = model.target
        self._model = model
        self._waiting: list[mx.array] = []

    def commit(self, rows: TargetRows, count: int | RowCount) -> None:
        """Keep committed rows for later, or have the draft model read them.

        hidden: the target's hidden states and features [1, R, H and features].
        """
        super().commit(rows, count)
        assert isinstance(count, int)
        target, hidden = self.target, rows.first_rows(count).hidden
        self._waiting.append(target.features(hidden))
        self._newest = mx.contiguous(self._model.newest_state(hidden[:, -1:]))
        unread = self.length - self.caches[0].length
        if unread >= (MOST_WAITING if self.is_paused else FLUSH_ROWS):
            self._remember_unread_rows()
            mx.eval(self.caches[0].arrays())

    def _remember_unread_rows(self) -> None:
        if self._waiting:
            self._model.append_features(mx.concatenate(self._waiting, axis=1), self.caches[0])
            self._waiting = []

    @override
    def draft(self, request: DraftRequest, sampler: Sampler) -> Draft:
        depth = min(request.depth, self.limit)
        if depth == 0 or not self.length:
            return empty_draft()
        self._remember_unread_rows()
        picks = DraftPicks(sampler, request.position, depth, self.options)
        caches = self.caches[0]
        passes = self._model.draft(request.last, self._newest, caches, depth, picks.pick)
        return Draft(picks.tokens(), passes)

    @override
    def snapshot(self) -> DrafterSnapshot:
        self._remember_unread_rows()
        return super().snapshot()

    @override
    def restore(self, snapshot: DrafterSnapshot) -> None:
        super().restore(snapshot)
        self._waiting = []

    @override
    def arrays(self) -> list[mx.array]:
        return [*super().arrays(), *self._waiting]
