"""A target whose hidden states carry features beside its own, for draft models that read them."""

from collections.abc import Callable

import mlx.core as mx

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.contract import Adapter
from mlx_engine.models.mlx_lm_trunk.adapters import Headless

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
