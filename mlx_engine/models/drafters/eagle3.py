"""EAGLE-3: one layer that reads three inner layers of its target (arXiv 2503.01840).

fc joins the residuals after three layers of the target into one state; the layer attends over
[norm(embedding of x_k), norm(state of k-1)], embedding first, and adds to the state itself. What
it gives, before its norm, is its state for the next draft. Its output head knows a part of the
vocabulary; row i of it is token i + d2t[i].
"""

from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.drafters.eagle3_config import Eagle3Config
from mlx_engine.models.drafters.feature_adapter import FeatureAdapter
from mlx_engine.models.drafters.rotation import Rotation
from mlx_engine.models.drafters.target import DraftTarget, check_widths
from mlx_engine.models.layers import Embedding, GatedFeedForward, Linear, Norm
from mlx_engine.models.weights import WeightTable
from mlx_engine.values.errors import BadModelFile


@dataclass(frozen=True, slots=True)
class _Layer:
    """The one decoder layer; its attention reads twice the width."""

    sizes: Eagle3Config
    rotation: Rotation
    embedding_norm: Norm
    state_norm: Norm
    queries: Linear
    keys: Linear
    values: Linear
    out: Linear
    second_norm: Norm
    feed_forward: GatedFeedForward

    @staticmethod
    def take(table: WeightTable, sizes: Eagle3Config, rotation: Rotation) -> "_Layer":
        name, hidden, eps = "layers.0", sizes.hidden, sizes.eps
        inner = f"{name}.self_attn"
        all_heads, kept = sizes.heads * sizes.head_size, sizes.kv_heads * sizes.head_size
        return _Layer(
            sizes,
            rotation,
            Norm.take(table, f"{name}.input_layernorm", hidden, eps),
            Norm.take(table, f"{name}.hidden_norm", hidden, eps),
            Linear.take(table, f"{inner}.q_proj", all_heads, 2 * hidden),
            Linear.take(table, f"{inner}.k_proj", kept, 2 * hidden),
            Linear.take(table, f"{inner}.v_proj", kept, 2 * hidden),
            Linear.take(table, f"{inner}.o_proj", hidden, all_heads),
            Norm.take(table, f"{name}.post_attention_layernorm", hidden, eps),
            GatedFeedForward.take(table, f"{name}.mlp", hidden, sizes.inner),
        )

    def __call__(self, embedded: mx.array, state: mx.array, cache: AttentionCache) -> mx.array:
        """Both [1, T, H] -> [1, T, H]."""
        normed = self.state_norm(state)
        residual = normed if self.sizes.norm_before_residual else state
        joined = mx.concatenate([self.embedding_norm(embedded), normed], axis=-1)
        x = residual + self._attend(joined, cache)
        return self.feed_forward.onto(x, self.second_norm(x))

    def _attend(self, x: mx.array, cache: AttentionCache) -> mx.array:
        sizes, rows = self.sizes, x.shape[1]

        def by_head(part: Linear, heads: int) -> mx.array:
            return part(x).reshape(1, rows, heads, sizes.head_size).transpose(0, 2, 1, 3)

        queries = self.rotation(by_head(self.queries, sizes.heads), cache.length)
        keys = self.rotation(by_head(self.keys, sizes.kv_heads), cache.length)
        seen = cache.write(keys, by_head(self.values, sizes.kv_heads))
        attended = mx.fast.scaled_dot_product_attention(
            queries,
            seen.keys,
            seen.values,
            scale=sizes.head_size**-0.5,
            mask="causal" if rows > 1 else None,
        )
        return self.out(attended.transpose(0, 2, 1, 3).reshape(1, rows, -1))


class Eagle3:
    """The drafter of one target; `target` is to be run in its place while this drafts.

    It is driven like an MTP head (the head's half of models/contract.py): its states are what it
    gives before its norm. d2t: int [rows of the output head]; None where it knows all tokens.
    """

    def __init__(
        self, sizes: Eagle3Config, table: WeightTable, d2t: mx.array | None, target: DraftTarget
    ) -> None:
        origin, hidden = table.origin, sizes.hidden
        _check_sizes(sizes, d2t, target, origin)
        self._origin = origin
        self._hidden = hidden
        self._vocabulary = target.adapter.vocabulary
        self._d2t = d2t
        self.target: FeatureAdapter = target.with_residuals(sizes.layers, origin)
        joined = len(sizes.layers) * sizes.target_hidden
        self._fc = Linear.take(table, "fc", hidden, joined)
        rotation = Rotation.read(sizes.config, sizes.head_size, origin)
        self._layer = _Layer.take(table, sizes, rotation)
        self._norm = Norm.take(table, "norm", hidden, sizes.eps)
        self._output = Linear.take(table, "lm_head", sizes.draft_vocabulary, hidden)
        self._embed = target.embed
        if "embed_tokens.weight" in table:
            matrix = table.take_matrix("embed_tokens", self._vocabulary, hidden)
            self._embed = Embedding(matrix, self._norm.weight.dtype)
        elif hidden != target.adapter.hidden_size:
            raise BadModelFile(
                f"{origin}: the tensor embed_tokens.weight is missing, and that of the target is "
                f"{target.adapter.hidden_size} wide, not {hidden}. Get the file again."
            )
        table.check_all_used()
        self.arrays = (*table.handed_out, *(() if d2t is None else (d2t,)))
        self._rows = None if d2t is None else _rows_of_tokens(d2t, self._vocabulary)

    def check_values(self) -> None:
        """BadModelFile when a row of the output head stands for no token; reads d2t."""
        if self._d2t is None:
            return
        tokens = np.array(mx.arange(self._d2t.shape[0]) + self._d2t)
        least, most = int(tokens.min()), int(tokens.max())
        if least < 0 or most >= self._vocabulary:
            raise BadModelFile(
                f"{self._origin}: d2t names token {least if least < 0 else most} of a vocabulary "
                f"of {self._vocabulary}. The file is damaged or for another model: get it again."
            )

    @property
    def vocabulary(self) -> int:
        """Of the target."""
        return self._vocabulary

    @property
    def mtp_output(self) -> Linear:
        """Its own output head."""
        return self._output

    def make_head_caches(self) -> LayerCaches:
        """An empty cache for the one layer."""
        return LayerCaches([AttentionCache()])

    def mtp_forward(self, tokens: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        """Tokens [1, T] and the states before them -> its states [1, T, H].

        The states are the target's with features, or, in a chain, its own.
        """
        is_own = hidden.shape[-1] == self._hidden
        state = hidden if is_own else self._fc(self.target.features(hidden))
        cache = caches.layers[0]
        assert isinstance(cache, AttentionCache)
        return self._layer(self._embed(tokens), state, cache)

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """Its states -> float32 logits [1, T, V]; tokens it does not know are -inf."""
        logits = (output or self._output)(self._norm(hidden)).astype(mx.float32)
        if self._rows is None:
            return logits
        unknown = mx.full((*logits.shape[:-1], 1), -mx.inf)
        return mx.take(mx.concatenate([logits, unknown], axis=-1), self._rows, axis=-1)


def _rows_of_tokens(d2t: mx.array, vocabulary: int) -> mx.array:
    """For every token its row of the output head, the one past the last for those without."""
    count = d2t.shape[0]
    rows = mx.full((vocabulary,), count, dtype=mx.int32)
    rows[mx.arange(count) + d2t] = mx.arange(count, dtype=mx.int32)
    return rows


def _check_sizes(
    sizes: Eagle3Config, d2t: mx.array | None, target: DraftTarget, origin: str
) -> None:
    adapter = target.adapter
    pairs = {
        "hidden states are": (sizes.target_hidden, adapter.hidden_size),
        "vocabulary is": (sizes.vocabulary, adapter.vocabulary),
    }
    check_widths(pairs, origin)
    is_reduced = sizes.draft_vocabulary != sizes.vocabulary
    if is_reduced and (d2t is None or d2t.shape != (sizes.draft_vocabulary,)):
        raise BadModelFile(
            f"{origin}: the tensor d2t [{sizes.draft_vocabulary}] is missing or of another shape, "
            "so nobody knows which tokens it drafts. Get the file again."
        )
