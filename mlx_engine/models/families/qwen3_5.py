"""Qwen3.5, 3.6, 3.8 and Qwen3-Next, dense and with experts: Gated DeltaNet and gated attention.

Every full_attention_interval-th layer has attention with a sigmoid gate, unless `layer_types` says
otherwise; the others are recurrent. The MTP head (`mtp.*`) is an attention layer that reads hidden
states after the final norm and passes on its own after its norm. Hugging Face stores norms as w and
convolutions as [C, 1, K], MLX as 1 + w and [C, K, 1] (mlx-lm #1442).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import DeltaNetSpec
from mlx_engine.models.rope import context_length, interleaved_axes, rope_spec
from mlx_engine.models.tensor_names import MTP_NAMES
from mlx_engine.models.tensor_recipes import Recipe, Recipes, expert_recipes, fused_recipes

if TYPE_CHECKING:
    import mlx.core as mx

_WITH_EXPERTS = ("qwen3_5_moe", "qwen3_8_moe", "qwen3_next")
_CONVOLUTION = ".linear_attn.conv1d.weight"


class Qwen35(NativeFamily):
    """Qwen3.5 to 3.8 (`qwen3_5`, `qwen3_8`, `..._moe`) and Qwen3-Next (`qwen3_next`)."""

    head_names = MTP_NAMES
    heads_key = "mtp_num_hidden_layers"
    norms = "either"

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        layers = fields.layers()
        interval = fields.count("full_attention_interval", 4)
        kinds = fields.layer_types("linear_attention", "full_attention") or tuple(
            "full_attention" if layer % interval == interval - 1 else "linear_attention"
            for layer in range(layers)
        )
        attention, delta = gated_attention(fields), delta_net_spec(fields)
        feeds = [feed_forward(fields, layer) for layer in range(layers)]
        blocks = tuple(
            BlockSpec(delta if kind == "linear_attention" else attention, feed)
            for kind, feed in zip(kinds, feeds, strict=True)
        )
        experts = next((feed for feed in feeds if isinstance(feed, ExpertsSpec)), feeds[0])
        return ModelSpec(
            hidden=fields.count("hidden_size"),
            vocabulary=fields.count("vocab_size"),
            context=context_length(fields),
            eps=fields.number("rms_norm_eps", 1e-6),
            blocks=blocks,
            tied=fields.ties_embeddings(),
            heads=MtpHeadsSpec((BlockSpec(attention, experts),)),
        )

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How tensors are built: experts stacked, Qwen3-Next's fused projections split."""
        listed = list(names)
        mixers = (block.mixer for block in self.spec.blocks)
        delta = next((mixer for mixer in mixers if isinstance(mixer, DeltaNetSpec)), None)
        experts = expert_recipes(listed)
        return experts if delta is None else experts | _projection_recipes(listed, delta)

    def expected_norm_shift(self, tensors: Mapping[str, mx.array]) -> int | None:
        """Norm shift by the shape of convolutions: 0 in Hugging Face's files, 1 in MLX's."""
        for name, array in tensors.items():
            if name.endswith(_CONVOLUTION) and array.ndim == 3 and array.shape[1] != array.shape[2]:
                return 0 if array.shape[1] == 1 else 1
        return None


def gated_attention(fields: ConfigFields, rotated_share: float = 0.25) -> AttentionSpec:
    """Attention of Qwen3.5; rotated_share: of a head, where config.json does not tell."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    head = fields.count("head_dim", hidden // heads)
    fields.require_multiple("num_attention_heads", "num_key_value_heads")
    bias = fields.flag("attention_bias", default=False)
    rope = rope_spec(fields, head, rotated_share=rotated_share)
    return AttentionSpec(
        heads=heads,
        kv_heads=fields.count("num_key_value_heads"),
        key_dim=head,
        value_dim=head,
        rope=replace(rope, axes=interleaved_axes(fields, rope.width // 2)),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm="head",
        gate="element",
    )


def delta_net_spec(fields: ConfigFields) -> DeltaNetSpec:
    """Gated DeltaNet of Qwen3.5 from config.json."""
    fields.require_multiple("linear_num_value_heads", "linear_num_key_heads")
    return DeltaNetSpec(
        key_heads=fields.count("linear_num_key_heads"),
        value_heads=fields.count("linear_num_value_heads"),
        key_dim=fields.count("linear_key_head_dim"),
        value_dim=fields.count("linear_value_head_dim"),
        taps=fields.count("linear_conv_kernel_dim", 4),
        tiled=fields.flag("linear_value_heads_tiled", default=False),
    )


def feed_forward(fields: ConfigFields, layer: int) -> FeedForwardSpec | ExpertsSpec:
    """Feed-forward spec of a layer, with routed experts or dense.

    Every decoder_sparse_step-th layer except mlp_only_layers has experts.
    """
    step = fields.count("decoder_sparse_step", 1)
    is_dense = layer in fields.counts("mlp_only_layers") or (layer + 1) % step != 0
    if is_dense or not _has_experts(fields):
        return FeedForwardSpec(fields.count("intermediate_size"))
    count = fields.count("num_experts", maximum=2**16)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", maximum=count),
        feed=FeedForwardSpec(fields.count("moe_intermediate_size")),
        normalise=fields.flag("norm_topk_prob", default=True),
        shared=FeedForwardSpec(fields.count("shared_expert_intermediate_size")),
        shared_gate=True,
    )


def _has_experts(fields: ConfigFields) -> bool:
    """Whether a Qwen3.5 model has experts, by its model_type or by `num_experts`."""
    named = any(kind.removesuffix("_text") in _WITH_EXPERTS for kind in fields.model_types)
    return named or (fields.has("num_experts") and fields.count("num_experts", minimum=0) > 0)


def _projection_recipes(names: Sequence[str], delta: DeltaNetSpec) -> dict[str, Recipe]:
    """How Qwen3-Next's projections are split from fused ones with a block of rows per key head.

    A block of `in_proj_qkvz` holds a query, a key, its group's values and their gates; a block of
    `in_proj_ba` holds the group's betas and decays.
    """
    group, key = delta.value_heads // delta.key_heads, ("in_proj_qkv", delta.key_dim)
    values = group * delta.value_dim
    parts = (key, key, ("in_proj_qkv", values), ("in_proj_z", values))
    gates = ("in_proj_b", group), ("in_proj_a", group)
    return fused_recipes(names, "in_proj_qkvz", parts, delta.key_heads) | fused_recipes(
        names, "in_proj_ba", gates, delta.key_heads
    )
