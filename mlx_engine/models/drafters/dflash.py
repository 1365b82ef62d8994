"""DFlash: a small model that drafts a whole block in one pass (z-lab's DFlash, 2025).

For each token read, fc and a norm join residuals of the target into one state, of which each layer
makes keys and values. A block holds the newest token and mask tokens; its rows attend to those keys
and to one another, and row i predicts token i of the block. Embedding and output head are the
target's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.attention import AttentionCache, KeysValues
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.models import layer_specs, model_spec
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.drafters.target import DraftTarget, FeatureDrafter, check_widths
from mlx_engine.models.families.llama import plain_feed_forward
from mlx_engine.models.layers import GatedFeedForward, Linear, Norm, RotaryEmbedding
from mlx_engine.models.rope import rope_spec
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.options import CacheBits

_KINDS = ("full_attention", "sliding_attention")
LONGEST_BLOCK = 15
"""Tokens that are used of a block at most: the target verifies them in a pass of 16 rows."""

_NEWER = ("selector_rank", "conv_kernel_size")
"""Keys of DFlash 2, whose layers have convolutions."""


@dataclass(frozen=True, slots=True)
class DFlashConfig:
    """Sizes of a DFlash draft model.

    layers: layers of the target whose residuals are read, in the order of `fc`. block: rows of a
    draft, the newest token's included. windows: for each layer how many tokens a row sees, None for
    all. causal: for each layer whether rows of a block see only those before them. scale,
    multiplier: of embeddings and logits; cap: of logits.
    """

    layers: tuple[int, ...]
    block: int
    mask_token: int
    hidden: int
    attention: layer_specs.AttentionSpec
    feed: layer_specs.FeedForwardSpec
    eps: float
    vocabulary: int
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    scale: float
    multiplier: float
    cap: float | None

    @staticmethod
    def read(config: Mapping[str, object], origin: str) -> "DFlashConfig":
        """Read a DFlash model's config.

        Raises BadModelFile for a wrong key, UnsupportedModel for variants that are not run.
        """
        own = config.get("dflash_config")
        flat = {**config, **(own if isinstance(own, Mapping) else {})}
        fields = ConfigFields(flat, origin)
        if any(fields.has(key) for key in _NEWER):
            raise UnsupportedModel(
                "{origin}: is a DFlash 2 model, which is not run yet.", origin=origin
            )
        fields.require({"attention_bias": False})
        kinds = fields.layer_types(*_KINDS) or (_KINDS[0],) * fields.layers()
        sliding = [kind == _KINDS[1] for kind in kinds]
        window = fields.count("sliding_window") if any(sliding) else None
        causal = fields.flag("is_causal", default=False) if fields.has("is_causal") else None
        layers = fields.counts("target_layer_ids")
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        size = fields.count("head_dim", max(1, hidden // heads))
        vocabulary = fields.count("vocab_size")
        if not layers:
            raise BadModelFile(
                "{origin}: the config names no target_layer_ids. Get it again.", origin=origin
            )
        return DFlashConfig(
            layers=layers,
            block=fields.count("block_size", 16, minimum=2, maximum=256),
            mask_token=fields.count("mask_token_id", minimum=0, maximum=vocabulary - 1),
            hidden=hidden,
            attention=layer_specs.AttentionSpec(
                heads, fields.kv_heads(heads), size, size, rope_spec(fields, size), qk_norm="head"
            ),
            feed=plain_feed_forward(fields),
            eps=fields.number("rms_norm_eps", 1e-6),
            vocabulary=vocabulary,
            windows=tuple(window if slides else None for slides in sliding),
            causal=tuple(slides if causal is None else causal for slides in sliding),
            scale=fields.number("input_embedding_scale", 1.0),
            multiplier=fields.number("output_multiplier", 1.0),
            cap=fields.number("final_logit_softcapping", 1.0)
            if fields.has("final_logit_softcapping")
            else None,
        )

    def tensors(self) -> layer_specs.Shapes:
        """Tensor name -> shape for all tensors of a DFlash model."""
        hidden = self.hidden
        block = model_spec.BlockSpec(self.attention, self.feed).tensors(hidden)
        made: layer_specs.Shapes = {
            "fc.weight": (hidden, len(self.layers) * hidden),
            "hidden_norm.weight": (hidden,),
            "norm.weight": (hidden,),
        }
        for number in range(len(self.windows)):
            made |= {f"layers.{number}.{name}": shape for name, shape in block.items()}
        return made


ContextCache = AttentionCache | WindowCache


class _Layer:
    """A DFlash decoder layer: a block's rows attend to earlier tokens and to one another."""

    def __init__(self, part: Part, sizes: DFlashConfig, number: int) -> None:
        inner, eps = part.subpart("self_attn"), sizes.eps
        assert sizes.attention.rope is not None
        self._sizes = sizes.attention
        self._window, self._causal = sizes.windows[number], sizes.causal[number]
        self._rotate = RotaryEmbedding(sizes.attention.rope)
        self._norm = Norm.read(part, "input_layernorm", eps)
        self._queries = Linear.read(inner, "q_proj")
        self._keys = Linear.read(inner, "k_proj")
        self._values = Linear.read(inner, "v_proj")
        self._out = Linear.read(inner, "o_proj")
        self._query_norm = Norm.read(inner, "q_norm", eps)
        self._key_norm = Norm.read(inner, "k_norm", eps)
        self._second_norm = Norm.read(part, "post_attention_layernorm", eps)
        self._feed_forward = GatedFeedForward.read(part.subpart("mlp"), sizes.feed)

    def remember(self, context: mx.array, cache: ContextCache) -> None:
        """Write keys and values of the target's states [1, T, H] to the cache, uncommitted."""
        cache.update_and_fetch(*self._keys_values(context, cache.length))

    def __call__(self, x: mx.array, cache: ContextCache) -> mx.array:
        """Run a draft block [1, B, H] behind the cached tokens, whose rows stay uncommitted."""
        x = x + self._attend(self._norm(x), cache)
        return self._feed_forward.add_to(x, self._second_norm(x))

    def _attend(self, x: mx.array, cache: ContextCache) -> mx.array:
        rows, start = x.shape[1], cache.length
        queries = self._query_norm(self._by_head(self._queries(x), self._sizes.heads))
        queries = self._rotate(queries.transpose(0, 2, 1, 3), start)
        seen = cache.write(*self._keys_values(x, start))
        attended = mx.fast.scaled_dot_product_attention(
            queries,
            *seen,
            scale=self._sizes.key_dim**-0.5,
            mask=self._mask(rows, start, seen.keys.shape[2] - rows),
        )
        return self._out(attended.transpose(0, 2, 1, 3).reshape(1, rows, -1))

    def _keys_values(self, x: mx.array, start: int) -> KeysValues:
        """Keys and values [1, heads, T, size] of states [1, T, H], the first at `start`."""
        kept = self._sizes.kv_heads
        keys = self._key_norm(self._by_head(self._keys(x), kept)).transpose(0, 2, 1, 3)
        values = self._by_head(self._values(x), kept).transpose(0, 2, 1, 3)
        return KeysValues(self._rotate(keys, start), values)

    def _by_head(self, x: mx.array, heads: int) -> mx.array:
        return x.reshape(1, x.shape[1], heads, self._sizes.key_dim)

    def _mask(self, rows: int, start: int, shown: int) -> mx.array | None:
        """Attention mask of window and causality, bool [rows, shown + rows]; None: all is seen."""
        if self._window is None and not self._causal:
            return None
        queries = mx.arange(start, start + rows)[:, None]
        keys = mx.arange(start - shown, start + rows)[None]
        seen = keys <= queries if self._causal else mx.ones((rows, shown + rows), dtype=mx.bool_)
        return seen if self._window is None else seen & (keys > queries - self._window)


class DFlash(FeatureDrafter):
    """DFlash draft model: drafts a block of tokens in one pass, `block` - 1 of them at most."""

    def __init__(self, sizes: DFlashConfig, table: WeightTable, target: DraftTarget) -> None:
        origin = table.origin
        check_widths(sizes.hidden, sizes.vocabulary, target.model, origin)
        self._sizes, self.packed_cache = sizes, sizes.attention.packed_cache
        self.limit = min(LONGEST_BLOCK, sizes.block - 1)
        self._embed = target.embed
        self.target = target.with_residuals(sizes.layers, origin)
        part = Part(table, "", sizes.tensors())
        self._fc = Linear.read(part, "fc")
        self._join_norm = Norm.read(part, "hidden_norm", sizes.eps)
        self._layers = [
            _Layer(part.subpart(f"layers.{n}"), sizes, n) for n in range(len(sizes.windows))
        ]
        self._norm = Norm.read(part, "norm", sizes.eps)
        table.check_all_used()
        self.arrays = table.taken_arrays

    @override
    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        return LayerCaches(
            [AttentionCache(bits) if window is None else WindowCache(window, bits=bits)
             for window in self._sizes.windows]
        )  # fmt: skip

    @override
    def remember(self, features: mx.array, caches: LayerCaches) -> None:
        context = self._join_norm(self._fc(features))
        for layer, cache in zip(self._layers, caches.layers, strict=True):
            assert isinstance(cache, AttentionCache | WindowCache)
            layer.remember(context, cache)
        caches.commit(features.shape[1])

    def draft(
        self,
        token: mx.array,
        hidden: mx.array | None,
        caches: LayerCaches,
        depth: int,
        pick: Callable[[mx.array], mx.array],
    ) -> int:
        """Draft `depth` tokens in one pass; returns 1, the passes. `hidden` is not read."""
        del hidden
        logits = self.logits(self.block(token, caches)[:, :depth]).squeeze(0)
        for row in range(depth):
            pick(logits[row : row + 1])
        return 1

    def block(self, token: mx.array, caches: LayerCaches) -> mx.array:
        """Run the newest token, int [1], and masks; returns the drafts' states [1, block - 1, H].

        Always a whole block, as the model was trained, however few tokens are wanted.
        """
        masks = mx.full((self._sizes.block - 1,), self._sizes.mask_token, dtype=token.dtype)
        x = self._embed(mx.concatenate([token, masks])[None]) * self._sizes.scale
        for layer, cache in zip(self._layers, caches.layers, strict=True):
            assert isinstance(cache, AttentionCache | WindowCache)
            x = layer(x, cache)
        caches.commit(0)
        return self._norm(x)[:, 1:]

    def logits(self, states: mx.array) -> mx.array:
        """Float32 logits [1, T, V] of draft states [1, T, H], through the target's output head."""
        logits, cap = self.target.logits(states) * self._sizes.multiplier, self._sizes.cap
        return logits if cap is None else mx.tanh(logits / cap) * cap
