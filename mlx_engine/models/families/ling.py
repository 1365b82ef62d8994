"""Ling and Ring 1 to 3 of inclusionAI: grouped experts, also beside linear attention.

Linear variants of 2.0 (`bailing_moe_linear`) have lightning attention beside that of 2.0, no head.
2.5 and 3.0 share the model type `bailing_hybrid`: the last layer of each group, and the layers
behind the last whole group, use latent attention; the others lightning attention in 2.5 (arXiv
2510.19338), Kimi Delta Attention in 3.0, whose latent attention has a gate for each head. The MTP
head is a layer of latent attention and experts; it reads hidden states after the final norm and
passes on its own after its norm.

References disagree, and no published weights were run:

- Decay of 2.5 at layer l of n: modeling_bailing_moe_v2_5.py of the published repositories has
slopes * (1 - (l - 1) / (n - 1)), as here; mlx-lm and SGLang have l for l - 1.
- Limits of SwiGLU in late layers of 3.0 (`expert_swiglu_limit_list`): applied by SGLang, llama.cpp
and here, ignored by the published code, transformers and mlx-lm.
- vLLM's head of 2.5 reads a zero embedding at position 0, that of 3.0 and all others do not; only
acceptance is at stake.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import feed_forwards, latent_attention, with_mtp_head
from mlx_engine.models.families.llama import (
    plain_attention,
    plain_feed_forward,
    plain_model,
    rotary_dim_share,
)
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import KimiDeltaSpec, LightningSpec
from mlx_engine.models.rope import rope_spec
from mlx_engine.models.tensor_names import FINAL_NORM_NAMES
from mlx_engine.models.tensor_recipes import Recipes, expert_recipes, qkv_recipes
from mlx_engine.values.words import Words

_RENAMES = {
    "word_embeddings": "embed_tokens",
    "attention": "self_attn",
    "attention.query_key_value": "self_attn.qkv_proj",
    "attention.query_layernorm": "self_attn.q_norm",
    "attention.key_layernorm": "self_attn.k_norm",
    "attention.dense": "self_attn.o_proj",
    "mlp.gate.expert_bias": "mlp.gate.e_score_correction_bias",
    "mlp.gate.gate_proj": "mlp.gate",
}


_LIMITS = ("expert_swiglu_limit_list", "share_expert_swiglu_limit_list")
"""Limits of SwiGLU by layer, of routed and shared experts; 0 or null for none."""


class BailingMoe(NativeFamily):
    """Ling and Ring 1 and 2 (`bailing_moe`): 2.0 is GLM-4.5 with other names, 1 has no MTP head.

    Version 1 scores experts by a softmax. The MTP head is as in modeling_bailing_moe_v2.py of the
    published repositories.
    """

    renames: ClassVar = _RENAMES
    head_names = FINAL_NORM_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        fields = fields.with_values(n_routed_experts=fields.count("num_experts", maximum=2**16))
        score = fields.string("score_function", "softmax")
        if score not in ("softmax", "sigmoid"):
            raise fields.bad_field("score_function", score, Words("softmax or sigmoid"))
        attention = replace(
            plain_attention(fields, rotated_share=rotary_dim_share(fields)),
            qkv_bias=fields.flag("use_qkv_bias", default=False),
            qk_norm="head" if fields.flag("use_qk_norm", default=False) else "none",
        )
        feeds = [
            replace(
                feed,
                score="sigmoid" if score == "sigmoid" else "softmax",
                choice_bias=fields.flag("moe_router_enable_expert_bias", default=False),
                shared=_shared_expert(fields),
            )
            if isinstance(feed, ExpertsSpec)
            else feed
            for feed in feed_forwards(fields)
        ]
        return with_mtp_head(fields, attention, feeds)

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How Ling's tensors are built: fused query/key/value split, experts stacked."""
        listed = list(names)
        return qkv_recipes(listed, self.spec.blocks[0]) | expert_recipes(listed)


class BailingMoeLinear(BailingMoe):
    """Ring and Ling linear 2.0 (`bailing_moe_linear`): lightning attention in most layers.

    The last layer of each group, and those behind the last whole group, use attention as in 2.0.
    """

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        plain, bias = super()._read_spec(fields), fields.flag("use_qkv_bias", default=False)
        linear = (replace(_lightning_spec(fields, n), bias=bias) for n in range(fields.layers()))
        blocks = (
            block if is_full else replace(block, mixer=mixer)
            for block, mixer, is_full in zip(
                plain.blocks, linear, _full_layers(fields), strict=True
            )
        )
        return replace(plain, blocks=tuple(blocks), heads=None)

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How tensors are built: query/key/value split in layers of attention, experts stacked."""
        listed = list(names)
        made = expert_recipes(listed)
        for layer, block in enumerate(self.spec.blocks):
            if isinstance(block.mixer, AttentionSpec):
                fused = (name for name in listed if name.startswith(f"layers.{layer}.self_attn."))
                made |= qkv_recipes(fused, block)
        return made


class BailingHybrid(NativeFamily):
    """Ling 2.5 and 3.0 (`bailing_hybrid`): latent beside linear attention, and an MTP head."""

    renames: ClassVar = _RENAMES
    head_names = FINAL_NORM_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        listed = {name: self.config.get(name) for name in _LIMITS}
        given = {name: limits for name, limits in listed.items() if isinstance(limits, list)}
        without_nulls = {name: [one or 0 for one in limits] for name, limits in given.items()}
        fields = _with_defaults(fields.with_values(**without_nulls))
        is_lightning = fields.has("group_norm_size") and not fields.has("kda_lower_bound")
        latent = replace(latent_attention(fields), gate="none" if is_lightning else "head")
        linear = _lightning_spec if is_lightning else _kimi_delta_spec
        mixers = [
            latent if is_full else linear(fields, layer)
            for layer, is_full in enumerate(_full_layers(fields))
        ]
        feeds = [_with_clipping_limits(fields, *feed) for feed in enumerate(feed_forwards(fields))]
        *blocks, head = map(BlockSpec, [*mixers, latent], feeds)
        heads = MtpHeadsSpec((head,), embedding="either", output="either")
        return replace(plain_model(fields, blocks), heads=heads)


def _with_defaults(fields: ConfigFields) -> ConfigFields:
    """Fill in what transformers names otherwise, and takes where a config of Ling 3.0 is silent."""
    shared = fields.count("n_shared_experts", 1, minimum=0)
    experts = fields.count("num_local_experts", 512, maximum=2**16)
    return fields.with_defaults(
        n_routed_experts=fields.count("num_experts", experts, maximum=2**16),
        num_shared_experts=shared,
        num_experts_per_tok=fields.count("num_experts_per_token", 8),
        norm_topk_prob=fields.flag("moe_renormalize", default=True),
        n_group=fields.count("num_expert_group", 8),
        topk_group=4,
        routed_scaling_factor=2.5,
        first_k_dense_replace=2,
        layer_group_size=6,
        rope_theta=6e6,
        max_position_embeddings=fields.count("model_max_length", 262144),
    )


def _full_layers(fields: ConfigFields) -> list[bool]:
    """Whether each layer uses latent attention instead of linear attention."""
    kinds = fields.layer_types("full_attention", "linear_attention")
    if kinds:
        return [kind == "full_attention" for kind in kinds]
    layers, group = fields.layers(), fields.count("layer_group_size")
    whole = layers // group * group
    return [(layer + 1) % group == 0 or layer >= whole for layer in range(layers)]


def _shared_expert(fields: ConfigFields) -> FeedForwardSpec | None:
    inner = fields.count("moe_intermediate_size")
    each = fields.count("moe_shared_expert_intermediate_size", inner)
    shared = each * fields.count("num_shared_experts", 0, minimum=0)
    return plain_feed_forward(fields, shared) if shared else None


def _with_clipping_limits(
    fields: ConfigFields, layer: int, feed_forward: FeedForwardSpec | ExpertsSpec
) -> FeedForwardSpec | ExpertsSpec:
    """Give experts the layer's limits of SwiGLU, and the shared expert as Ling names its size."""
    if not isinstance(feed_forward, ExpertsSpec):
        return feed_forward
    own, shared_limit = (
        next(iter(fields.numbers(name)[layer : layer + 1]), 0.0) for name in _LIMITS
    )
    shared = _shared_expert(fields)
    if shared is not None:
        shared = replace(shared, limit=shared_limit)
    return replace(feed_forward, feed=replace(feed_forward.feed, limit=own), shared=shared)


def _kimi_delta_spec(fields: ConfigFields, layer: int) -> KimiDeltaSpec:
    del layer
    heads, size = fields.count("num_attention_heads"), fields.count("head_dim", 128)
    is_bounded = fields.flag("kda_safe_gate", default=True)
    return KimiDeltaSpec(
        heads=fields.count("linear_num_heads", heads),
        head_dim=fields.count("linear_head_dim", size),  # transformers' head_dim is the rotated
        taps=fields.count("short_conv_kernel_size", 4, maximum=2**10),
        least_log=fields.negative_number("kda_lower_bound", -5.0) if is_bounded else 0.0,
    )


def _lightning_spec(fields: ConfigFields, layer: int) -> LightningSpec:
    fields.require({"linear_silu": False})
    heads = fields.count("num_attention_heads")
    size = fields.count("head_dim", fields.count("hidden_size") // heads)
    groups = fields.count("group_norm_size")
    if heads * size % groups:
        raise fields.bad_field("group_norm_size", groups, f"a divisor of {heads * size}")
    share = 1 - (layer - 1) / max(1, fields.layers() - 1) + 1e-5
    return LightningSpec(
        heads=heads,
        head_dim=size,
        groups=groups,
        log_decays=tuple(-slope * share for slope in _decay_slopes(heads)),
        rope=rope_spec(fields, size, rotated_share=fields.count("rotary_dim", size // 2) / size),
        qk_norm=fields.flag("use_qk_norm", default=True),
    )


def _decay_slopes(heads: int) -> list[float]:
    """Slopes of ALiBi (arXiv 2108.12409): 2^(-8 i / heads) for powers of two, others between."""
    whole = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * number / whole) for number in range(1, whole + 1)]
    return slopes + ([] if heads == whole else _decay_slopes(2 * whole)[::2][: heads - whole])
