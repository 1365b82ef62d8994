"""LFM2 (arXiv 2511.23404), dense or with experts: short convolutions and some attention layers."""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_model
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import ShortConvolutionSpec


class Lfm2(NativeFamily):
    """LFM2 (model types `lfm2`, `lfm2_moe`): short convolutions and some attention layers."""

    renames: ClassVar = {
        "embedding_norm": "norm",
        "operator_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "self_attn.out_proj": "self_attn.o_proj",
        "self_attn.q_layernorm": "self_attn.q_norm",
        "self_attn.k_layernorm": "self_attn.k_norm",
        "feed_forward": "mlp",
        "feed_forward.w1": "mlp.gate_proj",
        "feed_forward.w2": "mlp.down_proj",
        "feed_forward.w3": "mlp.up_proj",
        "feed_forward.expert_bias": "mlp.gate.e_score_correction_bias",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = replace(plain_attention(fields), qk_norm="head")
        convolution = ShortConvolutionSpec(
            width=fields.count("hidden_size"),
            taps=fields.count("conv_L_cache", 3, maximum=2**10),
            bias=fields.flag("conv_bias", default=False),
        )
        has_experts = any(kind.startswith("lfm2_moe") for kind in fields.model_types)
        dense = FeedForwardSpec(_feed_forward_width(fields, is_rounded=not has_experts))
        feeds: list[FeedForwardSpec | ExpertsSpec] = [dense] * fields.layers()
        if has_experts:
            first = fields.count("num_dense_layers", 2, minimum=0)
            feeds[first:] = [_experts_spec(fields)] * len(feeds[first:])
        blocks = [
            BlockSpec(attention if attends else convolution, feed)
            for attends, feed in zip(_attention_layers(fields), feeds, strict=True)
        ]
        tied = fields.flag("tie_word_embeddings", default=True)
        return replace(
            plain_model(fields, blocks),
            eps=fields.number("norm_eps", 1e-5),
            tied=fields.flag("tie_embedding", default=tied),
        )


def _attention_layers(fields: ConfigFields) -> list[bool]:
    """For each layer whether it has attention, from `layer_types` or `full_attn_idxs`."""
    kinds, listed = fields.layer_types("conv", "full_attention"), fields.counts("full_attn_idxs")
    if kinds:
        return [kind == "full_attention" for kind in kinds]
    has_list = fields.has("full_attn_idxs")
    return [not has_list or layer in listed for layer in range(fields.layers())]


def _feed_forward_width(fields: ConfigFields, *, is_rounded: bool) -> int:
    """Width of LFM2's dense feed-forwards; configs of dense models give it before rounding."""
    named = "block_ff_dim" if fields.has("block_ff_dim") else "intermediate_size"
    inner = fields.count(named)
    if not is_rounded or not fields.flag("block_auto_adjust_ff_dim", default=True):
        return inner
    inner = int(fields.number("block_ffn_dim_multiplier", 1.0) * int(2 * inner / 3))
    multiple = fields.count("block_multiple_of", 256)
    return -(-inner // multiple) * multiple


def _experts_spec(fields: ConfigFields) -> ExpertsSpec:
    count = fields.count("num_experts", 32, maximum=2**16)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", 4, maximum=count),
        feed=FeedForwardSpec(fields.count("moe_intermediate_size")),
        score="sigmoid",
        choice_bias=fields.flag("use_expert_bias", default=True),
        normalise=fields.flag("norm_topk_prob", default=True),
        scale=fields.number("routed_scaling_factor", 1.0),
    )
