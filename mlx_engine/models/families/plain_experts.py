"""ERNIE 4.5, MiniMax-M2, OLMoE and AFMoE: the standard layer with routed experts.

ERNIE's MTP head is a dense layer whose hidden states go through the trunk's final norm, as
FastDeploy by its makers runs it; a trial of eight variants on published weights also accepted most
drafts so (vMLX, 2026-09). MiniMax has published no MTP heads, whatever its configs declare.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import (
    interleaved_windows,
    plain_attention,
    plain_feed_forward,
    plain_model,
    rotary_dim_share,
)
from mlx_engine.models.family import CanonicalPart
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, Shape
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.tensor_names import HeadNames
from mlx_engine.models.tensor_recipes import Recipe, Recipes, RowChunk, StoredPiece, expert_recipes
from mlx_engine.values.errors import Reason, UnsupportedModel
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    import mlx.core as mx

_BIAS = "mlp.gate.e_score_correction_bias"


class Ernie45Moe(NativeFamily):
    """ERNIE 4.5 with experts (`ernie4_5_moe`) or without (`ernie4_5`): interleaved RoPE."""

    renames: ClassVar = {
        "mlp.moe_statics.e_score_correction_bias": _BIAS,
        "mlp.gate.moe_statics.e_score_correction_bias": _BIAS,
    }
    head_names = HeadNames(
        {"mtp_linear_proj.0": "join", "mtp_emb_norm.0": "enorm", "mtp_hidden_norm.0": "hnorm"},
        numbered=False,
    )

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        if self.model_type == "ernie4_5":
            fields = fields.with_defaults(moe_layer_start_index=fields.layers())
        attention = plain_attention(fields, interleaved=True, bias="use_bias")
        has_bias = attention.qkv_bias
        feeds = (_feed_forward_spec(fields, layer, has_bias) for layer in range(fields.layers()))
        model = plain_model(fields, (BlockSpec(attention, feed) for feed in feeds))
        dense = plain_feed_forward(fields, has_bias=has_bias)
        heads = MtpHeadsSpec((BlockSpec(attention, dense),), norm="trunk")
        has_logit_bias = has_bias and self.model_type != "ernie4_5"
        return replace(model, heads=heads, logit_bias=has_logit_bias)

    def trunk_shapes(self, stored_names: Collection[str]) -> Mapping[str, Shape]:
        """Tensor name -> shape for the trunk, without router biases where no file has them."""
        shapes = super().trunk_shapes(stored_names)
        if any(name.endswith(_BIAS) for name in stored_names):
            return shapes
        return {name: shape for name, shape in shapes.items() if not name.endswith(_BIAS)}

    def convert_stored(self, tensors: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Return ERNIE's tensors with router biases flattened, stored as [1, experts]."""
        return {n: a.reshape(-1) if n.endswith(_BIAS) else a for n, a in tensors.items()}

    def canonical_trunk(self, tensors: Mapping[str, mx.array], origin: str) -> CanonicalPart:
        """Return the trunk's tensors; for lacking router biases, zeros and a notice."""
        import mlx.core as mx

        part, shapes = (
            super().canonical_trunk(tensors, origin),
            super().trunk_shapes(tensors.keys()),
        )
        lost = {n: mx.zeros(shapes[n]) for n in shapes if n.endswith(_BIAS) and n not in tensors}
        words = Words(
            "This conversion lacks the correction of the expert selection "
            "(e_score_correction_bias): its answers differ from those of the original."
        )
        reasons = (Reason("lost-expert-correction", words),) if lost else ()
        return replace(part, arrays=part.arrays | lost, reasons=part.reasons + reasons)


def _feed_forward_spec(
    fields: ConfigFields, layer: int, has_bias: bool
) -> FeedForwardSpec | ExpertsSpec:
    """Feed-forward spec of an ERNIE layer: experts or dense.

    Every moe_layer_interval-th layer from start to end has experts; end -1 is the last layer.
    """
    start = fields.count("moe_layer_start_index", 1, minimum=0)
    end = fields.count("moe_layer_end_index", -1, minimum=-1)
    is_last = end == -1 or layer <= end
    interval = fields.count("moe_layer_interval", 1)
    if (layer + 1) % interval or layer < start or not is_last:
        return plain_feed_forward(fields, has_bias=has_bias)
    count = fields.count("moe_num_experts", maximum=2**16)
    inner = fields.count("moe_intermediate_size")
    shared = fields.count("moe_num_shared_experts", 2, minimum=0)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("moe_k", 6, maximum=count),
        feed=plain_feed_forward(fields, inner),
        choice_bias=True,
        float32_router=True,
        least_sum=fields.number("moe_norm_min", 1e-12),
        shared=plain_feed_forward(fields, shared * inner, has_bias=has_bias) if shared else None,
    )


class MiniMaxM2(NativeFamily):
    """MiniMax-M2 (`minimax_m2`, in MLX conversions `minimax`): a sigmoid router."""

    renames: ClassVar = {
        "block_sparse_moe": "mlp",
        "block_sparse_moe.e_score_correction_bias": _BIAS,
        "mlp.e_score_correction_bias": _BIAS,
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        if "linear_attention" in fields.strings("layer_types") or 0 in fields.counts(
            "attn_type_list"
        ):
            raise UnsupportedModel(
                "{origin}: MiniMax-Text-01, M1 or VL-01, whose lightning attention this version "
                "does not run. Take MiniMax-M2 or another model.",
                origin=fields.origin,
            )
        attention = replace(
            plain_attention(fields, rotated_share=rotary_dim_share(fields)),
            qk_norm="whole" if fields.flag("use_qk_norm", default=True) else "none",
        )
        count = fields.count("num_local_experts", maximum=2**16)
        experts = ExpertsSpec(
            count=count,
            per_token=fields.count("num_experts_per_tok", maximum=count),
            feed=plain_feed_forward(fields),
            score="sigmoid",
            choice_bias=True,
        )
        return plain_model(fields, [BlockSpec(attention, experts)] * fields.layers())


class Olmoe(NativeFamily):
    """OLMoE (`olmoe`, arXiv 2409.02060): query and key norms over all heads, a softmax router."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = replace(plain_attention(fields, bias="attention_bias"), qk_norm="whole")
        named = "num_experts" if fields.has("num_experts") else "num_local_experts"
        count = fields.count(named, 64, maximum=2**16)
        experts = ExpertsSpec(
            count=count,
            per_token=fields.count("num_experts_per_tok", 8, maximum=count),
            feed=plain_feed_forward(fields),
            normalise=fields.flag("norm_topk_prob", default=False),
        )
        return plain_model(fields, [BlockSpec(attention, experts)] * fields.layers())


class Afmoe(NativeFamily):
    """Trinity (`afmoe`): gated attention, norms before and after, a sigmoid router.

    Sliding layers use RoPE; every fourth layer has full attention without it. The attention gate is
    a separate matrix, whose rows are interleaved with those of the queries head by head.
    """

    renames: ClassVar = {
        "post_attention_layernorm": "mixer_out_norm",
        "pre_mlp_layernorm": "post_attention_layernorm",
        "post_mlp_layernorm": "feed_out_norm",
        "self_attn.q_proj": "self_attn.query_proj",
        "mlp.router.gate": "mlp.gate",
        "mlp.expert_bias": _BIAS,
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        full = replace(plain_attention(fields), qk_norm="head", gate="element")
        dense, sparse = plain_feed_forward(fields), _afmoe_experts(fields)
        first = fields.count("num_dense_layers", 1, minimum=0)
        fields = fields.with_values(
            sliding_window_pattern=fields.count("global_attn_every_n_layers", 4)
        )
        blocks = [
            BlockSpec(
                replace(full, window=window, rope=full.rope if window else None),
                dense if layer < first else sparse,
                norms="both",
            )
            for layer, window in enumerate(interleaved_windows(fields))
        ]
        scale = fields.count("hidden_size") ** 0.5
        is_scaled = fields.flag("mup_enabled", default=False)
        return replace(plain_model(fields, blocks), embed_scale=scale if is_scaled else 1.0)

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How Trinity's query and gate rows are interleaved, and its experts stacked."""
        listed, mixer = list(names), self.spec.blocks[0].mixer
        made = expert_recipes(listed)
        assert isinstance(mixer, AttentionSpec)
        for gate in (name for name in listed if ".self_attn.gate_proj." in name):
            both = gate.replace(".gate_proj.", ".query_proj."), gate
            heads = (RowChunk(head, mixer.heads) for head in range(mixer.heads))
            pieces = tuple(StoredPiece(name, head) for head in heads for name in both)
            made[gate.replace(".gate_proj.", ".q_proj.")] = Recipe(pieces, form="joined")
        return made


def _afmoe_experts(fields: ConfigFields) -> ExpertsSpec:
    count = fields.count("num_experts", 64, maximum=2**16)
    inner = fields.count("moe_intermediate_size")
    shared = fields.count("num_shared_experts", 2, minimum=0)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", 6, maximum=count),
        feed=plain_feed_forward(fields, inner),
        score="sigmoid",
        choice_bias=True,
        scale=fields.number("route_scale", 1.0),
        shared=plain_feed_forward(fields, shared * inner) if shared else None,
    )
