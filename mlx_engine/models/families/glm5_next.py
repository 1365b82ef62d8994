"""GLM-5.3-Flash (`glm5_next`): Kimi Delta Attention and latent attention, behind hyper-connections.

Four residual streams are mixed with one another around each layer, and averaged at the end. Three
of four layers are Kimi Delta Attention; the others latent attention without positions, which sees
the pools of tokens that an indexer selects. SwiGLU is limited in all feed-forwards.

The MTP head, layer 45, has such a layer of latent attention with a single stream and an indexer of
its own; it reads hidden states after the final norm and passes on its own after its norm. As in
vLLM and mlx-vlm, the embedding that it reads first is zero. mlx-vlm drafts two tokens with it at
most. vLLM may let a round's further drafts use the first one's selection
(`index_share_for_mtp_iteration`), which is not done here: only acceptance is at stake.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import (
    feed_forwards,
    indexer_spec,
    indexers_by_layer,
    latent_attention,
)
from mlx_engine.models.families.llama import plain_model
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import LatentAttentionSpec
from mlx_engine.models.model_spec import (
    MOST_STREAMS,
    BlockSpec,
    ModelSpec,
    MtpHeadsSpec,
    WholeStreamsSpec,
)
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import KimiDeltaSpec
from mlx_engine.models.tensor_names import CONNECTION_NAMES, CONNECTION_NORMS, NEXTN_NAMES
from mlx_engine.models.tensor_recipes import Recipes, Rows, fused_recipes

_SPARSE = ("full_attention", "indexed_attention", "deepseek_sparse_attention")


class Glm5Next(NativeFamily):
    """GLM-5.3-Flash (`glm5_next`), a hybrid with hyper-connections and pooled index keys."""

    renames: ClassVar = {
        **CONNECTION_NAMES,
        "norm": "hyper_connection_mixer.norm",
        "self_attn.indexer.index_kpool_compress_gate": "self_attn.indexer.pool_gate.weight",
        "self_attn.indexer.index_kpool_compress_ape": "self_attn.indexer.pool_places",
    }
    head_names = replace(
        NEXTN_NAMES, renames={**NEXTN_NAMES.renames, **{name: name for name in CONNECTION_NORMS}}
    )

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        fields.require_multiple("index_topk", "index_kpool")
        plain = replace(latent_attention(fields), eps=fields.number("rms_norm_eps", 1e-5))
        pool = fields.count("index_kpool", maximum=2**16)
        indexer = indexer_spec(fields, plain.rope)
        indexer = replace(indexer, most=indexer.most // pool, pool=pool)
        limit = fields.non_negative_number("swiglu_limit")
        *feeds, head = (feed.with_gate_limit(limit) for feed in feed_forwards(fields))
        streams = WholeStreamsSpec(
            fields.count("hc_mult", 4, minimum=2, maximum=MOST_STREAMS),
            magnitude=2.0,
            eps=fields.number("hc_eps", 1e-6),
            exchange_steps=fields.count("hc_sinkhorn_iters", 20, maximum=1000),
            ends="mean",
        )
        delta = _delta_spec(fields)
        kinds = fields.layer_types("linear_attention", *_SPARSE) or tuple(
            _SPARSE[0] if layer % 4 == 3 else "linear_attention" for layer in range(fields.layers())
        )
        blocks = [
            BlockSpec(
                delta if kind == "linear_attention" else replace(plain, indexer=layer_indexer),
                feed,
                streams=streams,
            )
            for kind, layer_indexer, feed in zip(
                kinds, indexers_by_layer(fields, indexer), feeds, strict=True
            )
        ]
        heads = MtpHeadsSpec((BlockSpec(replace(plain, indexer=indexer), head),), zero_first=True)
        return replace(plain_model(fields, blocks), heads=heads)

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How tensors are built: experts stacked, and split what mlx-vlm's conversions join."""
        listed = list(names)
        made = dict(super().tensor_recipes(listed))
        joined = {n: rows for block in self.spec.blocks for n, rows in _joined(block).items()}
        for name, rows in joined.items():
            axis = -3 if name.endswith("conv") else -2
            made |= fused_recipes(listed, name, rows, row_axis=axis)
        return made


def _joined(block: BlockSpec) -> dict[str, Rows]:
    """Tensors that mlx-vlm joins in a block: name within the layer -> parts from the top."""
    mixer, feed, made = block.mixer, block.feed, dict[str, Rows]()
    if isinstance(mixer, KimiDeltaSpec):
        width, low = mixer.width, {"f_a": mixer.rank, "b": mixer.heads, "g_a": mixer.rank}
        made["self_attn.qkv_proj"] = [(f"self_attn.{part}_proj", width) for part in "qkv"]
        made["self_attn.qkv_conv.conv"] = [(f"self_attn.{part}_conv1d", width) for part in "qkv"]
        made["self_attn.fbg_a_proj"] = [(f"self_attn.{n}_proj", rows) for n, rows in low.items()]
    if isinstance(mixer, LatentAttentionSpec):
        ranks = {"q_a_proj": mixer.q_rank or 0, "kv_a_proj_with_mqa": mixer.kv_rank}
        made["self_attn.qkv_a_proj"] = [(f"self_attn.{n}", rank) for n, rank in ranks.items()]
    shared = feed.shared if isinstance(feed, ExpertsSpec) else None
    for base, dense in (("mlp", feed), ("mlp.shared_expert", shared)):
        if isinstance(dense, FeedForwardSpec):
            halves = [(f"{base}.{part}_proj", dense.inner) for part in ("gate", "up")]
            made[f"{base}.gate_up_proj"] = halves
    return made


def _delta_spec(fields: ConfigFields) -> KimiDeltaSpec:
    linear = fields.section("linear_attn_config") or _with_published_names(fields)
    size, bound = linear.count("head_dim", 128), "gate_lower_bound"
    is_bounded = linear.flag("safe_gate", default=True) or bound not in linear or linear.has(bound)
    return KimiDeltaSpec(
        heads=linear.count("num_heads", 64),
        head_dim=size,
        taps=linear.count("short_conv_kernel_size", 4, maximum=2**10),
        least_log=linear.negative_number(bound, -5.0) if is_bounded else 0.0,
        rank=size,
    )


def _with_published_names(fields: ConfigFields) -> ConfigFields:
    """Give fields of linear attention, as transformers has them, their published names."""
    bound = "linear_lower_bound"
    return fields.with_values(
        head_dim=fields.count("linear_head_dim", 128),
        num_heads=fields.count("linear_num_heads", 64),
        short_conv_kernel_size=fields.count("linear_conv_kernel_dim", 4),
        safe_gate=bound not in fields,
        gate_lower_bound=fields.negative_number(bound, -5.0) if fields.has(bound) else None,
    )
