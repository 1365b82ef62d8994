"""DFlash, DFlash 2, DSpark and LiLiCorr: small models that draft a whole block in one pass.

For each token read, fc and a norm join residuals of the target into one state, of which each layer
makes keys and values. A block holds the newest token and mask tokens; its rows attend to those keys
and to one another, and row i predicts token i of the block; DSpark's newest token is a row that
predicts, too. Embedding and output head are the target's, or its own with rows for a part of the
tokens. DFlash 2 (z-lab, 2026) convolves along the block; it, DSpark and LiLiCorr choose each token
by the one before (block_choice.py, lattice_choice.py).
"""

from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.attention import AttentionCache, KeysValues
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.models.drafters.block_choice import (
    BlockChoice,
    CandidateSelector,
    IndependentRows,
    MarkovHead,
)
from mlx_engine.models.drafters.dflash_config import (
    ConvolutionSizes,
    DFlashConfig,
    MarkovSizes,
    SelectorSizes,
)
from mlx_engine.models.drafters.lattice_choice import LatticeChoice, LatticeSizes
from mlx_engine.models.drafters.target import (
    DraftTarget,
    DraftVocabulary,
    FeatureDrafter,
    TokenPick,
    check_widths,
)
from mlx_engine.models.layers import Embedding, GatedFeedForward, Linear, Norm, RotaryEmbedding
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.options import CacheBits

LONGEST_BLOCK = 15
"""Tokens that are used of a block at most: the target verifies them in a pass of 16 rows."""

ContextCache = AttentionCache | WindowCache


class _ConvolutionTaps(NamedTuple):
    """Rows [1, T, H] before a layer, and the dynamic taps [1, T, K, G] of its result."""

    rows: mx.array
    finish: mx.array


class _Convolution:
    """DFlash 2's causal convolution along a block, before and behind attention or feed-forward.

    Taps are learnt ones plus dynamic ones, which each row's normed state yields for both ends:
    out[t] = sum over o of (base[o] + dynamic[t, o, group]) * x[t - o], with zeros before the block.
    """

    def __init__(self, part: Part, sizes: ConvolutionSizes) -> None:
        self._sizes = sizes
        self._base = part.vector("base_kernel")
        self._taps = Linear.read(part, "kernel_projection")

    def compute_taps(self, x: mx.array) -> _ConvolutionTaps:
        """Convolve normed rows [1, T, H]; also return their dynamic taps for `finish`."""
        taps = self._taps(x).reshape(1, x.shape[1], 2, self._sizes.taps, -1)
        return _ConvolutionTaps(self._convolve(x, taps[:, :, 0], self._base[0]), taps[:, :, 1])

    def apply_taps(self, x: mx.array, taps: mx.array) -> mx.array:
        """Convolve the layer's output rows [1, T, H]."""
        return self._convolve(x, taps, self._base[1])

    def _convolve(self, x: mx.array, dynamic_taps: mx.array, static_taps: mx.array) -> mx.array:
        rows, group = x.shape[1], self._sizes.group
        padded = mx.pad(x, [(0, 0), (self._sizes.taps - 1, 0), (0, 0)])
        made = mx.zeros_like(x).reshape(1, rows, -1, group)
        for offset in range(self._sizes.taps):
            start = self._sizes.taps - 1 - offset
            shifted = padded[:, start : start + rows].reshape(made.shape)
            kernel = static_taps[offset].reshape(1, 1, -1, group).astype(x.dtype)
            made = made + (kernel + dynamic_taps[:, :, offset, :, None]) * shifted
        return made.reshape(x.shape)


class _Layer:
    """A DFlash decoder layer: a block's rows attend to earlier tokens and to one another."""

    def __init__(self, part: Part, sizes: DFlashConfig, layer_number: int) -> None:
        inner, eps = part.subpart("self_attn"), sizes.eps
        assert sizes.attention.rope is not None
        self._sizes = sizes.attention
        self._window, self._causal = sizes.windows[layer_number], sizes.causal[layer_number]
        self._rotate = RotaryEmbedding(sizes.attention.rope)
        self._norm = Norm.read(part, "input_layernorm", eps)
        self._queries = Linear.read(inner, "q_proj")
        self._keys = Linear.read(inner, "k_proj")
        is_shared = sizes.attention.values == "keys"
        self._values = None if is_shared else Linear.read(inner, "v_proj")
        self._value_norm = None
        if sizes.attention.value_norm:
            ones = mx.ones((sizes.attention.value_dim,))
            self._value_norm = Norm.from_weight(ones, inner, eps)
        self._out = Linear.read(inner, "o_proj")
        self._query_norm = Norm.read(inner, "q_norm", eps)
        self._key_norm = Norm.read(inner, "k_norm", eps)
        before = "pre_feedforward" if sizes.is_gemma else "post_attention"
        self._second_norm = Norm.read(part, f"{before}_layernorm", eps)
        self._later_norms, self._factor = None, None
        if sizes.is_gemma:
            behind = ("post_attention_layernorm", "post_feedforward_layernorm")
            self._later_norms = [Norm.read(part, name, eps) for name in behind]
            self._factor = part.vector("layer_scalar")
        self._feed_forward = GatedFeedForward.read(part.subpart("mlp"), sizes.feed)
        self._sinks = inner.vector("attention_sink_bias") if sizes.sinks else None
        self._convolutions = None
        if sizes.convolution is not None:
            ends = (part.subpart(name) for name in ("attention_conv", "mlp_conv"))
            self._convolutions = [_Convolution(end, sizes.convolution) for end in ends]

    def append_features(self, context: mx.array, cache: ContextCache) -> None:
        """Write keys and values of the target's states [1, T, H] to the cache, uncommitted."""
        cache.update_and_fetch(*self._keys_values(context, cache.length))

    def __call__(self, x: mx.array, cache: ContextCache) -> mx.array:
        """Run a draft block [1, B, H] behind the cached tokens, whose rows stay uncommitted."""
        if self._later_norms is not None and self._factor is not None:
            first_norm, last_norm = self._later_norms
            x = x + first_norm(self._attend(self._norm(x), cache))
            x = x + last_norm(self._feed_forward(self._second_norm(x)))
            return x * self._factor.astype(x.dtype)
        if self._convolutions is None:
            x = x + self._attend(self._norm(x), cache)
            return self._feed_forward.add_to_residual(x, self._second_norm(x))
        first, second = self._convolutions
        rows, taps = first.compute_taps(self._norm(x))
        x = x + first.apply_taps(self._attend(rows, cache), taps)
        rows, taps = second.compute_taps(self._second_norm(x))
        return x + second.apply_taps(self._feed_forward(rows), taps)

    def _attend(self, x: mx.array, cache: ContextCache) -> mx.array:
        rows, start = x.shape[1], cache.length
        queries = self._query_norm(self._split_heads(self._queries(x), self._sizes.heads))
        queries = self._rotate(queries.transpose(0, 2, 1, 3), start)
        seen = cache.write(*self._keys_values(x, start))
        attended = mx.fast.scaled_dot_product_attention(
            queries,
            *seen,
            scale=self._sizes.scale or self._sizes.key_dim**-0.5,
            mask=self._attention_mask(rows, start, seen.keys.shape[2] - rows),
            sinks=None if self._sinks is None else self._sinks.astype(x.dtype),
        )
        return self._out(attended.transpose(0, 2, 1, 3).reshape(1, rows, -1))

    def _keys_values(self, x: mx.array, start: int) -> KeysValues:
        """Keys and values [1, heads, T, size] of states [1, T, H], the first at `start`."""
        kept = self._sizes.kv_heads
        projected = self._split_heads(self._keys(x), kept)
        keys, values = self._key_norm(projected).transpose(0, 2, 1, 3), projected
        if self._values is not None:
            values = self._split_heads(self._values(x), kept)
        if self._value_norm is not None:
            values = self._value_norm(values)
        values = values.transpose(0, 2, 1, 3)
        if self._sizes.value_scale != 1.0:
            values = values * self._sizes.value_scale
        return KeysValues(self._rotate(keys, start), values)

    def _split_heads(self, x: mx.array, heads: int) -> mx.array:
        return x.reshape(1, x.shape[1], heads, self._sizes.key_dim)

    def _attention_mask(self, rows: int, start: int, context_rows: int) -> mx.array | None:
        """Attention mask of window and causality, bool [rows, shown + rows]; None: all is seen."""
        if self._window is None and not self._causal:
            return None
        queries = mx.arange(start, start + rows)[:, None]
        keys = mx.arange(start - context_rows, start + rows)[None]
        seen = (
            keys <= queries
            if self._causal
            else mx.ones((rows, context_rows + rows), dtype=mx.bool_)
        )
        return seen if self._window is None else seen & (keys > queries - self._window)


def _read_choice(
    part: Part, sizes: DFlashConfig, embed: Callable[[mx.array], mx.array]
) -> BlockChoice:
    match sizes.choice:
        case SelectorSizes(candidates=candidates):
            return CandidateSelector(part.subpart("candidate_selector"), candidates)
        case MarkovSizes(_, has, joined):
            return MarkovHead(part, has_confidence=has, joined=joined)
        case LatticeSizes() as lattice:
            return LatticeChoice(part.subpart("lilicorr"), lattice, embed)
    return IndependentRows()


class DFlash(FeatureDrafter):
    """DFlash, DFlash 2, DSpark or LiLiCorr draft model: drafts a block of tokens in one pass."""

    def __init__(
        self, sizes: DFlashConfig, table: WeightTable, d2t: mx.array | None, target: DraftTarget
    ) -> None:
        origin, vocabulary = table.origin, sizes.vocabulary
        check_widths(sizes.hidden, vocabulary, target.model, origin)
        self._tokens = DraftVocabulary(d2t, sizes.rows or vocabulary, vocabulary, origin)
        self._sizes, self.packed_cache = sizes, sizes.attention.packed_cache
        self.limit = min(LONGEST_BLOCK, sizes.drafts)
        self._embed: Callable[[mx.array], mx.array] = target.embed
        self.target = target.with_layer_outputs(sizes.layers, origin)
        part = Part(table, "", sizes.tensors(table.untaken_names))
        if "embed_tokens.weight" in part:
            matrix = part.matrix("embed_tokens")
            self._embed = Embedding.from_matrix(matrix, matrix.dtype, part.kernels)
        self._fc = Linear.read(part, "fc")
        self._join_norm = Norm.read(part, "hidden_norm", sizes.eps)
        self._layers = [
            _Layer(part.subpart(f"layers.{n}"), sizes, n) for n in range(len(sizes.windows))
        ]
        self._norm = Norm.read(part, "norm", sizes.eps)
        self._choice = _read_choice(part, sizes, target.embed)
        self._cap = sizes.cap if sizes.rows is not None or not target.caps_logits else None
        self._output = None if sizes.rows is None else Linear.read(part, "lm_head")
        table.check_all_used()
        self.arrays = (*table.taken_arrays, *self._tokens.arrays)

    @override
    def check_tensor_values(self) -> None:
        self._tokens.check_token_map()

    @override
    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        return LayerCaches(
            [AttentionCache(bits) if window is None else WindowCache(window, bits=bits)
             for window in self._sizes.windows]
        )  # fmt: skip

    @override
    def newest_state(self, hidden: mx.array) -> mx.array:
        if not self._choice.reads_whole_block:
            return super().newest_state(hidden)
        return self._join_features(self.target.features(hidden))

    def _join_features(self, features: mx.array) -> mx.array:
        return self._join_norm(self._fc(features))

    @override
    def append_features(self, features: mx.array, caches: LayerCaches) -> None:
        context = self._join_features(features)
        for layer, cache in zip(self._layers, caches.layers, strict=True):
            assert isinstance(cache, AttentionCache | WindowCache)
            layer.append_features(context, cache)
        caches.commit(features.shape[1])

    def draft(
        self,
        token: mx.array,
        hidden: mx.array | None,
        caches: LayerCaches,
        depth: int,
        pick: TokenPick,
    ) -> int:
        """Draft `depth` tokens in one pass; returns 1, the number of passes."""
        states = self.draft_block_states(token, caches)
        states = states if self._choice.reads_whole_block else states[:, :depth]
        logits = self._row_logits(states).squeeze(0)
        scores, before = self._choice.score_block(logits, states.squeeze(0), hidden), token
        for row in range(depth):
            sure = self._choice.confidence(states[:, row], before)
            before = pick(self._tokens.scatter_logits(scores(row, before)), sure)
        return 1

    def draft_block_states(self, token: mx.array, caches: LayerCaches) -> mx.array:
        """Run the newest token, int [1], and masks; returns the drafts' states [1, drafts, H].

        Always a whole block, as the model was trained, however few tokens are wanted.
        """
        unread = 0 if self._sizes.from_newest else 1
        masks = mx.full((self._sizes.drafts - 1 + unread,), self._sizes.mask_token, token.dtype)
        x = self._embed(mx.concatenate([token, masks])[None]) * self._sizes.scale
        for layer, cache in zip(self._layers, caches.layers, strict=True):
            assert isinstance(cache, AttentionCache | WindowCache)
            x = layer(x, cache)
        caches.commit(0)
        return self._norm(x)[:, unread:]

    def logits(self, states: mx.array) -> mx.array:
        """Float32 logits [1, T, V] of draft states [1, T, H], -inf for what cannot be drafted."""
        return self._tokens.scatter_logits(self._row_logits(states))

    def _row_logits(self, states: mx.array) -> mx.array:
        """Float32 logits of the output head's rows: the target's, or the draft model's own."""
        head, cap = self._output, self._cap
        logits = self.target.logits(states) if head is None else head(states).astype(mx.float32)
        logits = logits * self._sizes.multiplier
        return logits if cap is None else mx.tanh(logits / cap) * cap
