"""Draft models that read inner states of their target: base classes, and the wrapped target."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import mlx.core as mx
import numpy as np

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.models.contract import JointForward, Model, ModelWithoutMtp
from mlx_engine.models.decoder import Decoder
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.values.errors import BadModelFile, Reason, UnsupportedModel
from mlx_engine.values.options import CacheBits

WideForward = Callable[..., mx.array]
"""Tokens [1, T], caches and perhaps pictures, as a model's `forward` takes them -> the model's
hidden states, and features appended to each, [1, T, H + F].
"""


class FeatureModel(ModelWithoutMtp):
    """A target model whose hidden states have features for a draft model appended; no MTP heads.

    The decode loop treats the wide states [1, T, H + F] as hidden states, so a token's features are
    committed and rolled back with its hidden state.
    """

    def __init__(
        self, model: Model, forward: WideForward, joint_forward: JointForward | None = None
    ) -> None:
        self._model = model
        self._forward = forward
        self.joint_forward = joint_forward
        self.vocabulary = model.vocabulary
        self.hidden_size = model.hidden_size
        self.why_no_drafts, self.packed_cache = model.why_no_drafts, model.packed_cache
        self.output_matrix, self.why_no_lookahead = model.output_matrix, model.why_no_lookahead

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create empty KV caches for the target model's trunk."""
        return self._model.make_caches(bits)

    def forward(
        self, tokens: mx.array, caches: LayerCaches, pictures: PictureRows | None = None
    ) -> mx.array:
        """Run the target on int tokens [1, T]; returns states and features [1, T, H + F], lazy."""
        return self._forward(tokens, caches, **({} if pictures is None else {"pictures": pictures}))

    def logits(self, hidden: mx.array) -> mx.array:
        """Float32 logits [1, T, V] of hidden states [1, T, H] or wide states [1, T, H + F]."""
        return self._model.logits(hidden[..., : self.hidden_size])

    def switch_to_bfloat16(self) -> bool:
        """Have the target compute in bfloat16, if it computes in float16."""
        return self._model.switch_to_bfloat16()

    def features(self, hidden: mx.array) -> mx.array:
        """Cut the features [1, T, F] from wide states [1, T, H + F]."""
        return hidden[..., self.hidden_size :]


class TokenPick(Protocol):
    """Picks the next token of a draft."""

    def __call__(self, logits: mx.array, probability: mx.array | None = None) -> mx.array:
        """Logits [1, V] -> token int32 [1].

        probability: [1], that the token is accepted, where the draft model knows it better than by
        its logits.
        """


class FeatureReader(ABC):
    """Base of draft models for one target, whose inner hidden states or keys and values they read.

    target: the wrapped target, which runs while this model drafts. arrays: all weights, lazy.
    packed_cache: why the draft model's KV cache must stay in 16 bits; None where it may be
    quantised.
    """

    target: FeatureModel
    arrays: Sequence[mx.array]
    packed_cache: Reason | None

    def check_tensor_values(self) -> None:
        """Raise BadModelFile for tensor values out of range; reads the arrays."""
        return


class FeatureDrafter(FeatureReader):
    """Base of draft models that keep the target's features of all tokens in their own caches.

    limit: the most tokens of a draft.
    """

    limit: int

    @abstractmethod
    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create the draft model's empty caches for features of the target's tokens."""

    @abstractmethod
    def append_features(self, features: mx.array, caches: LayerCaches) -> None:
        """Append the target's features [1, T, F] to the draft model's caches, and commit them."""

    def newest_state(self, hidden: mx.array) -> mx.array:
        """Cut the state that `draft` reads, [1, 1, H], from the target's newest [1, 1, H + F]."""
        return hidden[..., : self.target.hidden_size]

    @abstractmethod
    def draft(
        self,
        token: mx.array,
        hidden: mx.array | None,
        caches: LayerCaches,
        depth: int,
        pick: TokenPick,
    ) -> int:
        """Draft `depth` tokens, each picked from logits [1, V]; returns the number of passes.

        token: the newest one, int [1]. hidden: newest_state of the token before it [1, 1, H]; None
        where that is not known.
        """


class SmallModel:
    """A model that can draft for the target model, read from its files when it is first used.

    read_model: returns a model with the target's tokens, or a FeatureReader. size_share: its
    weights over the target's. misfit_reason: why it cannot draft for this target.
    """

    def __init__(
        self,
        read_model: Callable[[], Model | FeatureReader],
        size_share: float = 0.0,
        misfit_reason: Reason | None = None,
    ) -> None:
        self._read, self.share, self.why_not = read_model, size_share, misfit_reason

    @cached_property
    def loaded_model(self) -> Model | FeatureReader:
        """The draft model in memory, read on first use. Raises EngineError."""
        return self._read()


@dataclass(frozen=True, slots=True)
class DraftTarget:
    """A target model, and the parts of it that draft models use.

    layers: how many the model has. embed: int tokens [..., T] -> [..., T, H], unscaled.
    with_features: makes a FeatureModel whose features are the residuals after these layers,
    from -1 (the embedding) on, in this order. caps_logits: whether the model's logits are capped.
    """

    model: Model
    layers: int
    embed: Callable[[mx.array], mx.array]
    with_features: Callable[[Sequence[int]], FeatureModel]
    caps_logits: bool

    def with_layer_outputs(self, after_layers: Sequence[int], origin: str) -> FeatureModel:
        """Wrap the target as a FeatureModel whose features are the residuals after these layers.

        Raises BadModelFile for layers that the target does not have.
        """
        beyond = [layer for layer in after_layers if not -1 <= layer < self.layers]
        if beyond:
            raise BadModelFile(
                "{origin}: this draft model reads layer {beyond} of its target, which has "
                "{layers}. It was made for another model: take the one for this model.",
                origin=origin,
                beyond=beyond[0],
                layers=self.layers,
            )
        return self.with_features(after_layers)


def make_draft_target(model: Model, origin: str) -> DraftTarget:
    """Make the DraftTarget of a model; raises UnsupportedModel for one in mlx-lm's own classes."""
    if isinstance(model, Decoder):

        def with_tapped_states(after_layers: Sequence[int]) -> FeatureModel:
            forward = partial(model.forward_with_residuals, residual_layers=after_layers)
            return FeatureModel(model, forward, None if model.joint_forward is None else forward)

        has_cap = bool(model.spec.logit_cap)
        return DraftTarget(model, model.layers, model.embed, with_tapped_states, has_cap)
    raise UnsupportedModel(
        "{origin}: draft models of this kind read hidden states of inner layers, which this "
        "version does not provide for this architecture. Draft with a small model or prompt "
        "lookup.",
        origin=origin,
    )


class DraftVocabulary:
    """The part of a target's vocabulary that a draft model's output head has rows for.

    d2t: int [rows], token of row i minus i; None where the head has a row for every token.
    """

    def __init__(self, d2t: mx.array | None, rows: int, vocabulary: int, origin: str) -> None:
        """Raise BadModelFile where `rows` are not all tokens and d2t does not tell which."""
        self._d2t, self._vocabulary, self._origin = d2t, vocabulary, origin
        if rows != vocabulary and (d2t is None or d2t.shape != (rows,)):
            raise BadModelFile(
                "{origin}: the tensor d2t [{draft_vocabulary}] is missing or of another shape, "
                "so nobody knows which tokens it drafts. Get the file again.",
                origin=origin,
                draft_vocabulary=rows,
            )
        self.arrays = () if d2t is None else (d2t,)
        self._rows: mx.array | None = None
        if d2t is not None:
            self._rows = mx.full((vocabulary,), d2t.shape[0], dtype=mx.int32)
            numbers = mx.arange(d2t.shape[0], dtype=mx.int32)
            self._rows[numbers + d2t] = numbers

    def check_token_map(self) -> None:
        """Raise BadModelFile if d2t maps a row of the output head to no token; reads d2t."""
        if self._d2t is None:
            return
        tokens = np.array(mx.arange(self._d2t.shape[0]) + self._d2t)
        least, most = int(tokens.min()), int(tokens.max())
        if least < 0 or most >= self._vocabulary:
            raise BadModelFile(
                "{origin}: d2t names token {what} of a vocabulary "
                "of {vocabulary}. The file is damaged or for another model: get it again.",
                origin=self._origin,
                what=least if least < 0 else most,
                vocabulary=self._vocabulary,
            )

    def scatter_logits(self, logits: mx.array) -> mx.array:
        """Logits [..., rows] -> [..., V] of the target's tokens, -inf for those without a row."""
        if self._rows is None:
            return logits
        unknown = mx.full((*logits.shape[:-1], 1), -mx.inf, logits.dtype)
        return mx.take(mx.concatenate([logits, unknown], axis=-1), self._rows, axis=-1)


def check_widths(
    hidden: int, vocabulary: int, model: Model, origin: str, **further_pairs: tuple[int, int]
) -> None:
    """Raise BadModelFile where a width in a draft model's config is not that of its target.

    further_pairs: more to compare, by what they are: the draft model's width and the target's.
    """
    pairs = {
        "hidden states are": (
            hidden,
            model.spec.hidden if isinstance(model, Decoder) else model.hidden_size,
        ),
        "vocabulary is": (vocabulary, model.vocabulary),
        **further_pairs,
    }
    for what, (wanted, there) in pairs.items():
        if wanted != there:
            raise BadModelFile(
                "{origin}: was made for a target whose {what} {wanted} wide; here it is {there}. "
                "It belongs to another model: take the one for this model.",
                origin=origin,
                what=what,
                wanted=wanted,
                there=there,
            )
