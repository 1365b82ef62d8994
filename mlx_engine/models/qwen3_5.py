"""Qwen3.5 / 3.6 and Qwen3-Next: Gated DeltaNet and gated attention, with one MTP head.

Trunk: arXiv 2412.06464 for the recurrent layers; every full_attention_interval-th layer is
grouped-query attention whose output is gated by sigmoid; feed-forwards may choose among experts,
also in the head. Head (DeepSeek-V3, arXiv 2412.19437,
section 2.2): fc([norm(embedding of x_k), norm(hidden of k-1)]), one attention layer, a norm, and
the trunk's output head. The hidden state is the one AFTER the trunk's final norm, and the head
feeds its own, after its own norm, to the next step.
"""

from collections.abc import Mapping, Sequence

import mlx.core as mx

from metal_kernels.mtp_input import Norms
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.contract import MtpHead
from mlx_engine.models.few_rows import FewRows
from mlx_engine.models.layers import Embedding, Linear, Norm
from mlx_engine.models.qwen3_5_config import Qwen35Config
from mlx_engine.models.qwen3_5_layers import (
    AttentionLayer,
    RecurrentLayer,
    blank_recurrent_cache,
    delta_rule_for,
)
from mlx_engine.models.weight_table import WeightTable


def build_qwen3_5(
    config: Mapping[str, object], trunk: WeightTable, head: WeightTable | None
) -> "Qwen35":
    """Assemble the model; BadModelFile when a tensor is missing, misshapen or left over."""
    sizes = Qwen35Config.read(config, trunk.origin)
    model = Qwen35(sizes, trunk, head)
    trunk.check_all_used()
    if head is not None:
        head.check_all_used()
    return model


class Qwen35:
    """The family's adapter (models/contract.py)."""

    def __init__(self, sizes: Qwen35Config, trunk: WeightTable, head: WeightTable | None) -> None:
        hidden, vocabulary = sizes.hidden_size, sizes.vocab_size
        self._sizes, self._delta_rule = sizes, delta_rule_for(sizes, trunk.kernels)
        matrix = trunk.take_matrix("embed_tokens", vocabulary, hidden)
        self._norm = Norm.take(trunk, "norm", hidden, sizes.rms_norm_eps)
        self._layers = [
            (RecurrentLayer if sizes.is_recurrent(n) else AttentionLayer)(
                sizes, trunk, f"layers.{n}", has_experts=sizes.has_experts(n)
            )
            for n in range(sizes.num_hidden_layers)
        ]
        dtype = matrix.dtype if matrix.mode == "dense" else self._layers[0].dtype
        self._embedding = Embedding(matrix, dtype)
        tied = sizes.tie_word_embeddings
        output = matrix if tied else trunk.take_matrix("lm_head", vocabulary, hidden)
        self._output = Linear.of(output, trunk.kernels)
        self._picks = FewRows.of(output, trunk.kernels, "pick")
        self._head = Qwen35Head(sizes, head) if head is not None else None

    @property
    def vocabulary(self) -> int:
        """Rows of the output head."""
        return self._sizes.vocab_size

    @property
    def hidden_size(self) -> int:
        """Width of the residual stream."""
        return self._sizes.hidden_size

    @property
    def mtp_depth(self) -> int:
        """One head or none."""
        return 0 if self._head is None else 1

    @property
    def later_heads(self) -> tuple[MtpHead, ...]:
        """None: the one head drafts on from its own states."""
        return ()

    @property
    def plain_only(self) -> None:
        """All its caches keep any prefix."""
        return None

    def make_caches(self) -> LayerCaches:
        """Empty caches for the trunk."""
        caches: list[LayerCache] = [
            blank_recurrent_cache(self._sizes, layer.dtype, self._delta_rule)
            if isinstance(layer, RecurrentLayer)
            else AttentionCache()
            for layer in self._layers
        ]
        return LayerCaches(caches)

    def make_head_caches(self) -> LayerCaches:
        """An empty cache for the head's one layer."""
        return LayerCaches([AttentionCache()])

    @property
    def layers(self) -> int:
        """How many the trunk has."""
        return len(self._layers)

    def embed(self, tokens: mx.array) -> mx.array:
        """Int tokens [..., T] -> [..., T, H]."""
        return self._embedding(tokens)

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states after the final norm [1, T, H]."""
        return self.forward_with(tokens, caches, ())

    def forward_with(self, tokens: mx.array, caches: LayerCaches, after: Sequence[int]) -> mx.array:
        """The same and, behind them, the residuals after these layers (-1: the embedding)."""
        x = self._embedding(tokens)
        heard = {-1: x} if after else {}
        for number, (layer, cache) in enumerate(zip(self._layers, caches.layers, strict=True)):
            x = layer(x, cache)
            if number in after:
                heard[number] = x
        hidden = self._norm(x)
        if not after:
            return hidden
        return mx.concatenate([hidden, *(heard[number] for number in after)], axis=-1)

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden [1, T, H] -> float32 logits [1, T, V]."""
        return self._output(hidden).astype(mx.float32)

    @property
    def output_rows(self) -> FewRows | None:
        """The output head for choosing without logits."""
        return self._picks

    def mtp_forward(self, tokens: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        """Tokens [1, T] and the hidden states before them [1, T, H] -> the head's states."""
        assert self._head is not None
        return self._head(self._embedding(tokens), hidden, caches.layers[0])

    @property
    def mtp_output(self) -> Linear | None:
        """The trunk's output head, which the MTP head shares."""
        return None if self._head is None else self._output

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """The head's states through the output head or another, float32 [1, T, rows of it]."""
        return (output or self._output)(hidden).astype(mx.float32)


class Qwen35Head:
    """The MTP head: one attention layer on top of token and hidden state."""

    def __init__(self, sizes: Qwen35Config, table: WeightTable) -> None:
        hidden, eps = sizes.hidden_size, sizes.rms_norm_eps
        self._embedding_norm = Norm.take(table, "pre_fc_norm_embedding", hidden, eps)
        self._hidden_norm = Norm.take(table, "pre_fc_norm_hidden", hidden, eps)
        join = table.take_matrix("fc", hidden, 2 * hidden)
        self._join = Linear.of(join, table.kernels)
        self._few_rows = FewRows.of(join, table.kernels, "mtp-input")
        self._layer = AttentionLayer(
            sizes, table, "layers.0", has_experts=sizes.experts is not None
        )
        self._norm = Norm.take(table, "norm", hidden, eps)

    def __call__(self, embedded: mx.array, hidden: mx.array, cache: LayerCache) -> mx.array:
        """Embeddings and hidden states [1, T, H] -> states for the output head [1, T, H]."""
        return self._norm(self._layer(self._joined(embedded, hidden), cache))

    def _joined(self, embedded: mx.array, hidden: mx.array) -> mx.array:
        """Both normed, side by side, projected."""
        e, h = self._embedding_norm, self._hidden_norm
        if self._few_rows is not None and self._few_rows.takes(embedded):
            norms = Norms(e.weight, h.weight, e.eps)
            return self._few_rows.join(embedded, hidden, norms)
        return self._join(mx.concatenate([e(embedded), h(hidden)], axis=-1))
