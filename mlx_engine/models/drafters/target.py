"""What draft models that read their target have in common: the target's features, a base class."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.models.contract import Headless, JointForward, Model
from mlx_engine.models.decoder import Decoder
from mlx_engine.values.errors import BadModelFile, Reason, UnsupportedModel
from mlx_engine.values.options import CacheBits

WideForward = Callable[[mx.array, LayerCaches], mx.array]
"""Tokens [1, T] -> the model's hidden states and the features behind them, [1, T, H + F]."""


class FeatureModel(Headless):
    """The same Model (models/contract.py) without MTP heads, whose `forward` gives more.

    What commits, verifies and drafts hands the wide states on unseen, so features stand for exactly
    the tokens that hidden states stand for.
    """

    def __init__(
        self, model: Model, forward: WideForward, joint: JointForward | None = None
    ) -> None:
        self._model = model
        self._forward = forward
        self.joint = joint
        self.vocabulary = model.vocabulary
        self.hidden_size = model.hidden_size
        self.plain_only, self.packed_cache = model.plain_only, model.packed_cache
        self.output_rows = model.output_rows

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Empty caches for the trunk, the same as the model's."""
        return self._model.make_caches(bits)

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states and features [1, T, H + F], written down together."""
        return self._forward(tokens, caches)

    def logits(self, hidden: mx.array) -> mx.array:
        """States with or without features -> float32 logits [1, T, V]."""
        return self._model.logits(hidden[..., : self.hidden_size])

    def features(self, hidden: mx.array) -> mx.array:
        """What stands behind the hidden states, [1, T, F]."""
        return hidden[..., self.hidden_size :]


class FeatureReader(ABC):
    """A draft model of one target, which reads hidden states that the target computes.

    target: to be run in the target's place while this drafts. arrays: all weights, lazy.
    packed_cache: why keys and values are kept in 16 bits only; None: in any.
    """

    target: FeatureModel
    arrays: Sequence[mx.array]
    packed_cache: Reason | None

    def check_values(self) -> None:
        """Raise BadModelFile for values that headers do not tell; reads a few arrays."""
        return


class FeatureDrafter(FeatureReader):
    """A draft model that remembers the features of all tokens in caches of its own.

    limit: the deepest draft.
    """

    limit: int

    @abstractmethod
    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Empty caches for what is remembered of the target's tokens."""

    @abstractmethod
    def remember(self, features: mx.array, caches: LayerCaches) -> None:
        """Write what the target's features [1, T, F] mean, and keep it."""

    @abstractmethod
    def draft(
        self,
        token: mx.array,
        hidden: mx.array | None,
        caches: LayerCaches,
        depth: int,
        pick: Callable[[mx.array], mx.array],
    ) -> int:
        """Make `depth` drafts, each picked from logits [1, V]; return the number of passes.

        token: the newest one, int [1]. hidden: the target's state before it [1, 1, H]; None where
        that is not known. pick: takes the next token int32 [1].
        """


class SmallModel:
    """A model that can draft for the target, read when it is first used.

    read: a whole model with the target's tokens, or one that reads what the target computes. share:
    its weights over those of the target. why_not: why it cannot draft for this target.
    """

    def __init__(
        self,
        read: Callable[[], Model | FeatureReader],
        share: float = 0.0,
        why_not: Reason | None = None,
    ) -> None:
        self._read, self.share, self.why_not = read, share, why_not

    @cached_property
    def opened(self) -> Model | FeatureReader:
        """The model in memory. Raises EngineError."""
        return self._read()


@dataclass(frozen=True, slots=True)
class DraftTarget:
    """A model to draft for.

    layers: how many it has. embed: int tokens [..., T] -> [..., T, H], unscaled. with_features:
    the model whose features are the residuals after these layers, from -1 (the embedding) on, in
    this order.
    """

    model: Model
    layers: int
    embed: Callable[[mx.array], mx.array]
    with_features: Callable[[Sequence[int]], FeatureModel]

    def with_residuals(self, after: Sequence[int], origin: str) -> FeatureModel:
        """The target with these features; BadModelFile for layers it does not have."""
        beyond = [layer for layer in after if not -1 <= layer < self.layers]
        if beyond:
            raise BadModelFile(
                "{origin}: this draft model reads layer {beyond} of its target, which has "
                "{layers}. It was made for another model: take the one for this model.",
                origin=origin,
                beyond=beyond[0],
                layers=self.layers,
            )
        return self.with_features(after)


def draft_target(model: Model, origin: str) -> DraftTarget:
    """UnsupportedModel for families whose layers cannot be looked into yet."""
    if isinstance(model, Decoder):

        def with_features(after: Sequence[int]) -> FeatureModel:
            forward = partial(model.forward_with, after=after)
            return FeatureModel(model, forward, None if model.joint is None else forward)

        return DraftTarget(model, model.layers, model.embed, with_features)
    raise UnsupportedModel(
        "{origin}: draft models of this kind read hidden states of inner layers, which this "
        "version does not provide for this architecture. Draft with a small model or prompt "
        "lookup.",
        origin=origin,
    )


def check_widths(
    hidden: int, vocabulary: int, model: Model, origin: str, **further: tuple[int, int]
) -> None:
    """What a drafter was made for, and what is here; BadModelFile names the first misfit."""
    pairs = {
        "hidden states are": (hidden, model.hidden_size),
        "vocabulary is": (vocabulary, model.vocabulary),
        **further,
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
