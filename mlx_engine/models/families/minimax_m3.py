"""MiniMax-M3 (`minimax_m3_vl`): block-sparse attention with an indexer, gpt-oss's feed-forwards.

Text part. Late layers attend to the blocks of tokens that an indexer selects for each key head, the
first ones to all; experts are routed as in MiniMax-M2, beside a shared one, and norms hold w for
1 + w. MTP heads are one after the other: a sparse layer each, whose residual is passed on and goes
through the head's norm for its logits. The public checkpoint ships none, whatever its config
declares, so heads were compared in the layout that vLLM loads; EAGLE-3 drafts for it.

References disagree, and no published weights were run:

- vLLM's heads read a zero embedding at position 0, as no other reading of a head does here; only
acceptance is at stake.
- Without `partial_rotary_factor`, whole heads are rotated in transformers, `rotary_dim` elements
in mlx-lm, llama.cpp and here.
- Scores of blocks are in float32 in transformers and mlx-lm, in the rows' type here, which may
select another of blocks that score alike.
- llama.cpp attends to all tokens without flash attention.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_model, rotary_dim_share
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, GroupIndexSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.tensor_names import HeadNames

_MOE = "block_sparse_moe"
_BIAS = "mlp.gate.e_score_correction_bias"
_OF_INDEXER = {
    "sparse_num_index_heads": "index_n_heads",
    "sparse_index_dim": "index_head_dim",
    "sparse_block_size": "index_block_size",
    "sparse_topk_blocks": "index_topk_blocks",
    "sparse_local_block": "index_local_blocks",
}
"""Fields of `sparse_attention_config` -> their names in configs that transformers 5 saved."""


class MiniMaxM3(NativeFamily):
    """MiniMax-M3 (`minimax_m3_vl`): attention to selected blocks of tokens."""

    renames: ClassVar = {
        _MOE: "mlp",
        f"{_MOE}.e_score_correction_bias": _BIAS,
        f"{_MOE}.shared_experts": "mlp.shared_expert",
        **{
            f"self_attn.index_{part}_{kind}": f"self_attn.indexer.{part}_{kind}"
            for part in "qk"
            for kind in ("proj", "norm")
        },
    }
    head_names = HeadNames({"eh_proj": "join", "final_layernorm": "norm"})
    norms = "1+w"

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        if (sparse := fields.section("sparse_attention_config")) is not None:
            index = {ours: sparse.count(n) for n, ours in _OF_INDEXER.items() if sparse.has(n)}
            flags = list(sparse.counts("sparse_attention_freq"))
            fields = fields.with_values(**index, sparse_attention_freq=flags)
        plain = replace(
            plain_attention(fields, rotated_share=rotary_dim_share(fields)), qk_norm="head"
        )
        limit = fields.number("swiglu_limit", 7.0)
        dense = FeedForwardSpec(fields.count("dense_intermediate_size"), "oai", limit)
        experts, indexed = _experts(fields, limit), replace(plain, index=_index(fields, plain))
        chosen = _flags(fields, "layer_types", "minimax_m3_sparse", "sparse_attention_freq")
        routed = _flags(fields, "mlp_layer_types", "sparse", "moe_layer_freq")
        blocks = [
            BlockSpec(indexed if has_index else plain, experts if has_experts else dense)
            for has_index, has_experts in zip(
                chosen or (False,) * fields.layers(),
                routed or (True,) * fields.layers(),
                strict=True,
            )
        ]
        heads = MtpHeadsSpec(
            (BlockSpec(indexed, experts),) * max(1, fields.count("num_mtp_modules", 1, minimum=0)),
            chain_state="residual",
        )
        return replace(plain_model(fields, blocks), heads=heads)


def _flags(fields: ConfigFields, named: str, kind: str, listed: str) -> Sequence[bool]:
    """For each layer whether it is of a kind, by names or by 0 and 1; empty without either."""
    others = {"layer_types": "full_attention", "mlp_layer_types": "dense"}
    kinds = fields.layer_types(kind, others[named], name=named)
    if kinds:
        return [layer_kind == kind for layer_kind in kinds]
    flags = fields.counts(listed)
    if flags and len(flags) < fields.layers():
        raise fields.bad_field(listed, list(flags), "0 or 1 for each layer")
    return [bool(flag) for flag in flags[: fields.layers()]]


def _index(fields: ConfigFields, attention: AttentionSpec) -> GroupIndexSpec:
    """Read the indexer that selects blocks; it has as many heads as there are key heads."""
    heads, most = fields.count("index_n_heads", 4), fields.count("index_topk_blocks", 16)
    if heads != attention.kv_heads:
        raise fields.bad_field("index_n_heads", heads, f"{attention.kv_heads}, one a key head")
    size, rope = fields.count("index_head_dim", 128), attention.rope
    if rope is not None and size < rope.width:
        raise fields.bad_field("index_head_dim", size, f"at least {rope.width}")
    return GroupIndexSpec(
        heads=heads,
        size=size,
        block=fields.count("index_block_size", 128),
        most=most,
        local=fields.count("index_local_blocks", 1, maximum=most),
    )


def _experts(fields: ConfigFields, limit: float) -> ExpertsSpec:
    count = fields.count("num_local_experts", maximum=2**16)
    shared = fields.count("shared_intermediate_size")
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", maximum=count),
        feed=FeedForwardSpec(fields.count("intermediate_size"), "oai", limit),
        score="sigmoid",
        choice_bias=True,
        scale=fields.number("routed_scaling_factor", 2.0),
        shared=FeedForwardSpec(shared, "oai", limit),
    )
