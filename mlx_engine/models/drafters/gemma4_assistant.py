"""Gemma 4's assistant: a few layers that attend to keys and values of the target.

Published apart, as `*-assistant`; transformers' Gemma4Assistant is the reference. The input is
[embedding of the newest token, state], the target's width each; blocks have queries only and read
the target's last full and last sliding layer; the position is that of the newest token, for every
token of a draft. The state for the next one is the normed output, projected back to the target's
width; the first state is the target's after its final norm. An ordered output head looks only into
the clusters of tokens whose centroids fit best.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from typing_extensions import override

from mlx_engine.cache.attention import AttentionCache, KeysValues, Mask
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.window import WindowCache
from mlx_engine.models.attention import KeyValueCache, Masks
from mlx_engine.models.blocks import DecoderBlock
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.decoder import Decoder
from mlx_engine.models.drafters.target import FeatureDrafter, FeatureModel, TokenPick, check_widths
from mlx_engine.models.families.gemma4 import (
    FULL,
    SLIDING,
    Gemma4,
    fields_of_layer,
    layer_type_rope,
)
from mlx_engine.models.families.llama import plain_model
from mlx_engine.models.feed_forward_specs import FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, Shapes, why_16bit_cache
from mlx_engine.models.layers import Embedding, Linear, Norm
from mlx_engine.models.model_spec import AssistantLayers, BlockSpec, ModelSpec
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.options import MAX_DEPTH, CacheBits
from mlx_engine.values.words import Words


class SharedKvLayer(NamedTuple):
    """A target's layer whose keys and values Gemma 4's assistant reads, [1, heads, T, size].

    window: tokens that a query sees; the context length where it sees all.
    """

    heads: int
    size: int
    window: int

    @property
    def width(self) -> int:
        """Numbers that the layer's keys and values have for one token."""
        return 2 * self.heads * self.size

    def split_keys_values(self, rows: mx.array) -> KeysValues:
        """Split rows [1, T, width] into keys and values, [1, heads, T, size] each."""
        parts = rows.reshape(1, rows.shape[1], 2, self.heads, self.size)
        return KeysValues(*parts.transpose(2, 0, 3, 1, 4))


def assistant_name(name: str) -> str:
    """Rename a tensor of a published Gemma 4 assistant as DecoderBlock reads it."""
    plain = name.removeprefix("model.")
    layer, _, norm = plain.removesuffix(".weight").rpartition(".")
    if not layer.startswith("layers.") or norm not in Gemma4.renames:
        return plain
    return f"{layer}.{Gemma4.renames[norm]}.weight"


@dataclass(frozen=True, slots=True)
class AssistantConfig:
    """Sizes of a Gemma 4 assistant, a draft model whose attention has queries only.

    target_hidden: width of the target's states. centroids: clusters of the vocabulary, 0 for a
    plain output head; chosen: how many clusters are looked into.
    """

    target_hidden: int
    spec: ModelSpec
    centroids: int
    chosen: int

    @staticmethod
    def read(config: Mapping[str, object], origin: str) -> "AssistantConfig":
        """Read the config of a Gemma 4 assistant.

        Raises BadModelFile for a wrong key, UnsupportedModel for variants that are not run.
        """
        fields = ConfigFields(config, origin)
        if fields.count("hidden_size_per_layer_input", 0, minimum=0) or fields.flag(
            "enable_moe_block", default=False
        ):
            raise UnsupportedModel(
                "{origin}: assistants with experts or embeddings of each layer are not run.",
                origin=origin,
            )
        types = fields.layer_types(FULL, SLIDING)
        if not types:
            raise fields.bad_field("layer_types", None, Words("the kind of every layer"))
        blocks = [_assistant_block_spec(fields, number, kind) for number, kind in enumerate(types)]
        vocabulary = fields.count("vocab_size")
        ordered = fields.flag("use_ordered_embeddings", default=False)
        centroids = fields.count("num_centroids", 2048) if ordered else 0
        chosen = fields.count("centroid_intermediate_top_k", 32)
        if centroids and (vocabulary % centroids or chosen > centroids):
            raise BadModelFile(
                "{origin}: {centroids} centroids, {chosen} of them looked into, do not go with a "
                "vocabulary of {vocabulary}. Get the config again.",
                origin=origin,
                centroids=centroids,
                chosen=chosen,
                vocabulary=vocabulary,
            )
        spec = plain_model(fields, blocks)
        return AssistantConfig(fields.count("backbone_hidden_size"), spec, centroids, chosen)

    @property
    def attention_specs(self) -> tuple[AttentionSpec, ...]:
        """Attention spec of each block; with a window where it reads the target's sliding layer."""
        mixers = (block.mixer for block in self.spec.blocks)
        return tuple(mixer for mixer in mixers if isinstance(mixer, AttentionSpec))

    def tensors(self) -> Shapes:
        """Tensor name -> shape for all tensors of a Gemma 4 assistant."""
        hidden, target = self.spec.hidden, self.target_hidden
        made: Shapes = {
            "pre_projection.weight": (hidden, 2 * target),
            "post_projection.weight": (target, hidden),
            "norm.weight": (hidden,),
            "embed_tokens.weight": (self.spec.vocabulary, hidden),
        }
        if self.centroids:
            made["masked_embedding.centroids.weight"] = (self.centroids, hidden)
        for number, block in enumerate(self.spec.blocks):
            shapes = block.tensors(hidden)
            made |= {f"layers.{number}.{name}": shape for name, shape in shapes.items()}
        return made


def _assistant_block_spec(fields: ConfigFields, layer_number: int, layer_type: str) -> BlockSpec:
    layer = fields_of_layer(fields, layer_number, layer_type)
    heads, size = layer.count("num_attention_heads"), layer.count("head_dim")
    attention = AttentionSpec(
        heads=heads,
        kv_heads=heads,
        key_dim=size,
        value_dim=size,
        rope=layer_type_rope(layer, size, layer_type),
        qk_norm="head",
        window=None if layer_type == FULL else fields.count("sliding_window", 512),
        scale=1.0,
        kv_layer=layer_number,
    )
    feed = FeedForwardSpec(fields.count("intermediate_size"), "gelu_tanh")
    return BlockSpec(attention, feed, norms="both", scaled=True)


class _MasksBehind(Masks):
    """Attention masks for a row after the cached tokens that is not written to the KV cache."""

    def attention_mask(self, cache: KeyValueCache, rows: int) -> Mask:
        """Attention mask over the cached keys alone, without the rows themselves."""
        mask = super().attention_mask(cache, rows)
        return mask[:, :-rows] if isinstance(mask, mx.array) else mask


class Gemma4Assistant(FeatureDrafter):
    """Gemma 4's assistant: drafts by attention to keys and values that the target has computed.

    It keeps a copy of those of the two layers it reads: what the target writes in place every round
    cannot be held by a draft without the target copying all of it.
    """

    limit = MAX_DEPTH

    def __init__(
        self,
        sizes: AssistantConfig,
        table: WeightTable,
        token_ordering: mx.array | None,
        target: Decoder,
        layers: AssistantLayers,
    ) -> None:
        """Build the draft model; layers: the target's whose keys and values it reads."""
        origin, spec = table.origin, sizes.spec
        self.full, self.sliding = (_shared_kv_layer(target.spec, number) for number in layers)
        self._check_target(sizes, token_ordering, target, origin)
        self.packed_cache = why_16bit_cache(self.full.size, self.sliding.size)
        self._sizes, self._origin = sizes, origin
        self._embed = target.scaled_embed
        self._token_ordering = token_ordering
        forward = partial(target.forward_with_keys, layer_numbers=layers)
        self.target = FeatureModel(target, forward, forward)
        part = Part(table, "", sizes.tensors())
        self._join = Linear.read(part, "pre_projection")
        self._project = Linear.read(part, "post_projection")
        self._blocks = [
            DecoderBlock(block, part.subpart(f"layers.{number}"), spec)
            for number, block in enumerate(spec.blocks)
        ]
        self._norm = Norm.read(part, "norm", spec.eps)
        matrix = part.matrix("embed_tokens")
        self._output, self._rows = Linear(matrix), Embedding(matrix, self._norm.weight.dtype)
        centroids = "masked_embedding.centroids"
        self._centroids = Linear.read(part, centroids) if sizes.centroids else None
        table.check_all_used()
        ordering = () if token_ordering is None else (token_ordering,)
        self.arrays = (*table.taken_arrays, *ordering)

    def _check_target(
        self, sizes: AssistantConfig, token_ordering: mx.array | None, target: Decoder, origin: str
    ) -> None:
        """Raise BadModelFile where the assistant's config and clusters do not fit the target."""
        check_widths(sizes.target_hidden, sizes.spec.vocabulary, target, origin)
        for attention in sizes.attention_specs:
            kind, shared = (
                ("full", self.full) if attention.window is None else ("sliding", self.sliding)
            )
            keys = {f"keys of {kind} layers are": (attention.key_dim, shared.size)}
            check_widths(sizes.target_hidden, sizes.spec.vocabulary, target, origin, **keys)
            if attention.heads % shared.heads:
                raise BadModelFile(
                    "{origin}: its {heads} heads cannot share the target's keys.",
                    origin=origin,
                    heads=attention.heads,
                )
        if sizes.centroids and (
            token_ordering is None or token_ordering.shape != (sizes.spec.vocabulary,)
        ):
            raise BadModelFile(
                "{origin}: the tensor masked_embedding.token_ordering [{vocabulary}] is missing "
                "or of another shape. Get the file again.",
                origin=origin,
                vocabulary=sizes.spec.vocabulary,
            )

    def check_tensor_values(self) -> None:
        """Raise BadModelFile unless token_ordering has each token once; reads that tensor."""
        if self._token_ordering is None:
            return
        if (
            np.sort(np.array(self._token_ordering)) != np.arange(self._sizes.spec.vocabulary)
        ).any():
            raise BadModelFile(
                "{origin}: token_ordering does not name every token once. The file is "
                "damaged or for another model: get it again.",
                origin=self._origin,
            )

    @override
    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        return LayerCaches([AttentionCache(bits), WindowCache(self.sliding.window, bits=bits)])

    def append_features(self, features: mx.array, caches: LayerCaches) -> None:
        """Copy the target's keys and values [1, T, F] of both layers to the assistant's caches."""
        both = mx.split(features, [self.full.width], axis=-1)
        for cache, layer, rows in zip(caches.layers, (self.full, self.sliding), both, strict=True):
            assert isinstance(cache, AttentionCache | WindowCache)
            cache.append(*layer.split_keys_values(rows))
        caches.commit(features.shape[1])

    def draft(
        self,
        token: mx.array,
        hidden: mx.array | None,
        caches: LayerCaches,
        depth: int,
        pick: TokenPick,
    ) -> int:
        """Draft `depth` tokens, in a pass each; returns the number of passes.

        Keys and values stay those of the target's tokens.
        """
        assert hidden is not None
        state = self.first_state(token, hidden, caches)
        for _ in range(depth - 1):
            state = self.next_state(pick(self.logits(state)), state, caches)
        pick(self.logits(state))
        return depth

    def first_state(self, token: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        """Run the assistant on the newest token, int [1]; returns its state [1, 1, H].

        hidden: the target's state before it [1, 1, H of the target]. caches: keys and values of all
        tokens before it, of the full and the sliding layer; nothing is written to them.
        """
        masks, (full, sliding) = _MasksBehind(), caches.layers
        x = self._join(mx.concatenate([self._embed(token[None]), hidden], axis=-1))
        for block, attention in zip(self._blocks, self._sizes.attention_specs, strict=True):
            x = block(x, [full if attention.window is None else sliding], masks)
        return self._norm(x)

    def next_state(self, token: mx.array, state: mx.array, caches: LayerCaches) -> mx.array:
        """Run the assistant on a drafted token, int [1], at the first one's position -> state."""
        return self.first_state(token, self._project(state), caches)

    def logits(self, state: mx.array) -> mx.array:
        """Float32 logits [1, V] of a state [1, 1, H]; -inf for tokens outside the best clusters."""
        if self._centroids is None or self._token_ordering is None:
            return self._output(state).squeeze(0).astype(mx.float32)
        sizes, fit = self._sizes, self._centroids(state)[0, 0]
        best = mx.argpartition(-fit, sizes.chosen - 1)[: sizes.chosen]
        tokens = self._token_ordering.reshape(sizes.centroids, -1)[best].reshape(-1)
        logits = mx.full((sizes.spec.vocabulary,), -mx.inf)
        logits[tokens] = (self._rows(tokens) @ state[0, 0]).astype(mx.float32)
        return logits[None]


def _shared_kv_layer(target: ModelSpec, layer_number: int) -> SharedKvLayer:
    mixer = target.blocks[layer_number].mixer
    assert isinstance(mixer, AttentionSpec)
    return SharedKvLayer(mixer.kv_heads, mixer.key_dim, mixer.window or target.context)
