"""What draft models have in common: what a target lends them, and the features it hands on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.models.contract import Adapter, Headless
from mlx_engine.models.decoder import Decoder
from mlx_engine.models.library.gemma4 import Gemma4Adapter
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

WideForward = Callable[[mx.array, LayerCaches], mx.array]
"""Tokens [1, T] -> the adapter's hidden states and the features behind them, [1, T, H + F]."""


class FeatureAdapter(Headless):
    """The Adapter (models/contract.py) of the same model, without MTP heads; `forward` gives more.

    What commits, verifies and drafts hands the wide states on unseen, so features stand for exactly
    the tokens that hidden states stand for.
    """

    def __init__(self, adapter: Adapter, forward: WideForward) -> None:
        self._adapter = adapter
        self._forward = forward
        self.vocabulary = adapter.vocabulary
        self.hidden_size = adapter.hidden_size
        self.plain_only = adapter.plain_only
        self.output_rows = adapter.output_rows

    def make_caches(self) -> LayerCaches:
        """Empty caches for the trunk, the same as the adapter's."""
        return self._adapter.make_caches()

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states and features [1, T, H + F]."""
        return self._forward(tokens, caches)

    def logits(self, hidden: mx.array) -> mx.array:
        """States with or without features -> float32 logits [1, T, V]."""
        return self._adapter.logits(hidden[..., : self.hidden_size])

    def features(self, hidden: mx.array) -> mx.array:
        """What stands behind the hidden states, [1, T, F]."""
        return hidden[..., self.hidden_size :]


@dataclass(frozen=True, slots=True)
class DraftTarget:
    """A model to draft for.

    layers: how many it has. embed: int tokens [..., T] -> [..., T, H], unscaled. forward_with:
    makes, for layer numbers from -1 (the embedding) on, a forward whose features are the residuals
    after these layers, in this order.
    """

    adapter: Adapter
    layers: int
    embed: Callable[[mx.array], mx.array]
    forward_with: Callable[[Sequence[int]], WideForward]

    def with_residuals(self, after: Sequence[int], origin: str) -> FeatureAdapter:
        """The target with these features; BadModelFile for layers it does not have."""
        beyond = [layer for layer in after if not -1 <= layer < self.layers]
        if beyond:
            raise BadModelFile(
                f"{origin}: this draft model reads layer {beyond[0]} of its target, which has "
                f"{self.layers}. It was made for another model: take the one for this model."
            )
        return FeatureAdapter(self.adapter, self.forward_with(after))


def draft_target(adapter: Adapter, origin: str) -> DraftTarget:
    """UnsupportedModel for families whose layers cannot be looked into yet."""
    if isinstance(adapter, Decoder | Gemma4Adapter):
        return DraftTarget(
            adapter,
            adapter.layers,
            adapter.embed,
            lambda after: lambda tokens, caches: adapter.forward_with(tokens, caches, after),
        )
    raise UnsupportedModel(
        f"{origin}: draft models of this kind read inner layers of their target, which this "
        "version cannot hand out for this architecture. Draft with a small model or prompt lookup."
    )


def check_widths(pairs: Mapping[str, tuple[int, int]], origin: str) -> None:
    """What a drafter was made for, and what is here; BadModelFile names the first misfit."""
    for what, (wanted, there) in pairs.items():
        if wanted != there:
            raise BadModelFile(
                f"{origin}: was made for a target whose {what} {wanted} wide; here it is {there}. "
                "It belongs to another model: take the one for this model."
            )
