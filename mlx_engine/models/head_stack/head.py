"""One head: what joins token and hidden state, a decoder layer, a norm, an output head."""

from __future__ import annotations

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.head_stack.definition import StackDefinition
from mlx_engine.models.layers import Linear, Norm
from mlx_engine.models.mlx_lm_trunk.trunk import Trunk
from mlx_engine.models.weights import WeightTable


class StackHead:
    """models/contract.py's MtpHead. `layer` takes (x, mask, cache); it is put in afterwards.

    window: tokens a row sees, its own included; None for all.
    """

    layer: Module

    def __init__(
        self,
        definition: StackDefinition,
        fields: ConfigFields,
        table: WeightTable,
        number: int,
        trunk: Trunk,
    ) -> None:
        name, eps = f"layers.{number}", fields.number(definition.eps, 1e-6)
        hidden, self.vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
        sizes = definition.sizes(fields, number)
        self._definition, self.window, self._embed = definition, sizes.window, trunk.embed
        self._embedding_norm = Norm.take(table, f"{name}.enorm", hidden, eps)
        self._hidden_norm = Norm.take(table, f"{name}.hnorm", hidden, eps)
        self._join = Linear.take(table, f"{name}.join", hidden, 2 * hidden)
        self._norm = Norm.take(table, f"{name}.norm", hidden, eps)
        self.mtp_output: Linear = (
            Linear.take(table, f"{name}.output", self.vocabulary, hidden)
            if sizes.has_output
            else trunk.output_matrix
        )

    def make_head_caches(self) -> LayerCaches:
        """An empty cache for the decoder layer."""
        return LayerCaches([AttentionCache() if self.window is None else WindowCache(self.window)])

    def mtp_forward(self, tokens: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        """Tokens [1, T] and the hidden states before them [1, T, H] -> the head's states."""
        (cache,) = caches.layers
        assert isinstance(cache, AttentionCache | WindowCache)
        both = [self._embedding_norm(self._embed(tokens)), self._hidden_norm(hidden)]
        ordered = both if self._definition.is_embedding_first else both[::-1]
        joined = self._join(mx.concatenate(ordered, axis=-1))
        state: mx.array = self.layer(joined, cache.make_mask(tokens.shape[1]), cache)
        return self._norm(state) if self._definition.chain_state == "normed" else state

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """The head's states through its output head or another, float32 [1, T, rows of it]."""
        is_normed = self._definition.chain_state == "normed"
        normed = hidden if is_normed else self._norm(hidden)
        return (output or self.mtp_output)(normed).astype(mx.float32)
