"""DeepSeek-V2 to V3.2, GLM-4.5 to 5.2, Hy3, Solar Open: grouped experts and a NextN head.

DeepSeek-V3 (arXiv 2412.19437) uses latent attention and dense first layers; its MTP head is the
layer behind the last one and shares the trunk's embedding and output head, even where files repeat
them. DeepSeek-V3.2 and GLM-5 (`glm_moe_dsa`) add an indexer. GLM-4.7-Flash (`glm4_moe_lite`) is
like V3, with its own embedding and output head in the MTP head. GLM-4.5, 4.6 and 4.7 (`glm4_moe`)
and Hy3 combine the same experts and head with grouped-query attention. DeepSeek-V2 (arXiv
2405.04434) has no MTP head, and weighs experts by a softmax over all of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import (
    plain_attention,
    plain_feed_forward,
    plain_model,
)
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, IndexerSpec, LatentAttentionSpec, RopeSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.rope import rope_spec, yarn_score_scale
from mlx_engine.models.tensor_names import FINAL_NORM_NAMES, NEXTN_NAMES
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.words import Words

_SHARE: dict[str, float | None] = {"dots1": None, "hy_v3": None, "solar_open": 1.0}
"""Of a head that is rotated where a config is silent; None: whatever it says."""

_LATENT_EPS = 1e-6
"""Of the norms of latents, whatever `rms_norm_eps` is: so transformers has both families."""


class DeepseekV2(NativeFamily):
    """DeepSeek-V2 (model type `deepseek_v2`): latent attention and grouped experts, no MTP head."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        method = fields.string("topk_method", "greedy")
        if method not in ("greedy", "group_limited_greedy"):
            raise UnsupportedModel(
                "{origin}: selects experts by topk_method {method}, which this version does "
                "not support. Use another model.",
                origin=fields.origin,
                method=ascii(method)[:40],
            )
        if method == "greedy":
            fields = fields.with_values(n_group=1, topk_group=1)
        mixer, feeds = latent_attention(fields), feed_forwards(fields)
        blocks = [
            BlockSpec(mixer, _with_softmax_router(feed) if isinstance(feed, ExpertsSpec) else feed)
            for feed in feeds[:-1]
        ]
        return plain_model(fields, blocks)


def _with_softmax_router(experts: ExpertsSpec) -> ExpertsSpec:
    """Give an experts spec a softmax router without bias; a group scores as its best expert."""
    return replace(experts, score="softmax", choice_bias=False, normalise=False, best_of_group=1)


class DeepseekV3(NativeFamily):
    """DeepSeek-V3, R1, Kimi K2, GLM-4.7-Flash and Youtu: latent attention and a NextN head."""

    head_names = NEXTN_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return with_mtp_head(fields, latent_attention(fields), feed_forwards(fields))


class DeepseekV32(DeepseekV3):
    """DeepSeek-V3.2 (`deepseek_v32`), GLM-5 to 5.2 (`glm_moe_dsa`): DeepSeek-V3 with indexers.

    A layer has an indexer of its own or, in GLM-5.2, uses the selection of an earlier layer's. It
    rotates halves of heads in DeepSeek-V3.2, pairs in GLM-5 (as in transformers 5.23 and llama.cpp;
    some ports have halves). Of the MTP head only acceptance beyond `index_topk` tokens is open: it
    has its own indexer here, in vLLM and mlx-vlm, while llama.cpp attends to all tokens there, and
    vLLM may let a round's further drafts use the first one's selection
    (`index_share_for_mtp_iteration`). Latents are normed with an epsilon of 1e-6 here and in
    transformers, in llama.cpp with `rms_norm_eps`, which GLM-5 has as 1e-5.
    """

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        rotates_pairs = fields.flag(
            "indexer_rope_interleave", default=self.model_type == "glm_moe_dsa"
        )
        plain, heads = latent_attention(fields), 64 if self.model_type == "deepseek_v32" else 32
        indexer = indexer_spec(fields.with_defaults(index_n_heads=heads), plain.rope)
        if plain.rope is not None:
            indexer = replace(indexer, rope=replace(plain.rope, interleaved=rotates_pairs))
        model = with_mtp_head(fields, replace(plain, indexer=indexer), feed_forwards(fields))
        kinds = zip(model.blocks, indexers_by_layer(fields, indexer), strict=True)
        blocks = (replace(b, mixer=replace(plain, indexer=own)) for b, own in kinds)
        return replace(model, blocks=tuple(blocks))


def indexer_spec(fields: ConfigFields, rope: RopeSpec | None) -> IndexerSpec:
    """Read a lightning indexer from a config; rope: as of the attention beside it."""
    size = fields.count("index_head_dim", 128)
    if rope is not None and size < rope.width:
        raise fields.bad_field("index_head_dim", size, f"at least qk_rope_head_dim={rope.width}")
    fields.count("q_lora_rank")  # which indexers read
    return IndexerSpec(
        heads=fields.count("index_n_heads"),
        size=size,
        most=fields.count("index_topk", 2048),
        rope=rope,
    )


def indexers_by_layer(fields: ConfigFields, indexer: IndexerSpec) -> list[IndexerSpec]:
    """Give each layer an indexer of its own, or the use of an earlier layer's selection."""
    shared = replace(indexer, is_shared=True)
    return [shared if kind == "shared" else indexer for kind in _indexer_kinds(fields)]


def _indexer_kinds(fields: ConfigFields) -> tuple[str, ...]:
    """Which layers have an indexer, "full", and which use the last one's selection, "shared".

    From `indexer_types`, a pattern such as "FSSF", or the period of full layers after the first.
    """
    signs = fields.has("index_topk_pattern")
    if signs and not fields.has("indexer_types"):
        pattern = fields.string("index_topk_pattern", "")
        names = [{"F": "full", "S": "shared"}.get(sign, sign) for sign in pattern]
        fields = fields.with_values(indexer_types=names)
    kinds = fields.layer_types("full", "shared", name="indexer_types")
    if not kinds:
        period = fields.count("index_topk_freq", 1)
        first = fields.count("index_skip_topk_offset", 2, minimum=0) - 1
        shares = (max(layer - first, 0) % period for layer in range(fields.layers()))
        kinds = tuple("shared" if share else "full" for share in shares)
    if kinds[0] != "full":
        raise fields.bad_field("indexer_types", list(kinds), Words('"full" for the first layer'))
    return kinds


class Glm4Moe(NativeFamily):
    """GLM-4.5 to 4.7 (`glm4_moe`), dots.llm1, Solar Open: grouped-query attention, routed experts.

    GLM rotates half of each head; its MTP head is layer 46 in Air, else 92, and files repeat the
    trunk's embedding and output head. `dots1` and `solar_open` rotate whole heads.
    """

    head_names = NEXTN_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        is_dots = self.model_type in ("dots1", "hy_v3")
        bias = fields.flag("attention_bias", default=False)
        attention = replace(
            plain_attention(fields, rotated_share=_SHARE.get(self.model_type, 0.5)),
            qkv_bias=bias,
            out_bias=bias and is_dots,
            qk_norm="head" if fields.flag("use_qk_norm", default=is_dots) else "none",
        )
        model = with_mtp_head(fields, attention, feed_forwards(fields))
        late = fields.count("max_window_layers", 62, minimum=0)
        window = fields.window_size() if self.model_type == "dots1" else None
        windows = fields.layer_windows(window, lambda layer: layer >= late)
        blocks = (
            replace(block, mixer=replace(attention, window=window))
            for block, window in zip(model.blocks, windows, strict=True)
        )
        return replace(model, blocks=tuple(blocks))


class HyV3(Glm4Moe):
    """Tencent Hy3 (`hy_v3`): dots.llm1 with other field names and an MTP head.

    As in vLLM and llama.cpp, the head reads hidden states after the final norm and passes on its
    own after its norm; embedding and output head are the trunk's.
    """

    renames: ClassVar = {
        "mlp.router.gate": "mlp.gate",
        "mlp.expert_bias": "mlp.gate.e_score_correction_bias",
        "mlp.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
        "mlp.shared_mlp": "mlp.shared_expert",
    }
    head_names = FINAL_NORM_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return super()._read_spec(
            fields.with_defaults(
                n_routed_experts=fields.count("num_experts", 192, maximum=2**16),
                n_shared_experts=fields.count("num_shared_experts", 1, minimum=0),
                routed_scaling_factor=fields.number("router_scaling_factor", 2.826),
                norm_topk_prob=fields.flag("route_norm", default=True),
            )
        )


def with_mtp_head(
    fields: ConfigFields,
    head_mixer: AttentionSpec | LatentAttentionSpec,
    feeds: Sequence[FeedForwardSpec | ExpertsSpec],
) -> ModelSpec:
    """Build a ModelSpec whose last feed-forward belongs to the MTP head behind the trunk."""
    *blocks, head = (BlockSpec(head_mixer, feed) for feed in feeds)
    heads = MtpHeadsSpec((head,), embedding="either", output="either")
    return replace(plain_model(fields, blocks), heads=heads)


def feed_forwards(fields: ConfigFields) -> tuple[FeedForwardSpec | ExpertsSpec, ...]:
    """Feed-forward specs of the trunk's layers, followed by that of the MTP head's layer.

    `mlp_layer_types` lists dense and sparse layers; by default the first `first_k_dense_replace`
    layers are dense.
    """
    layers = fields.layers()
    if not fields.has("n_routed_experts"):
        return (plain_feed_forward(fields),) * (layers + 1)
    first = fields.count("first_k_dense_replace", 0, minimum=0)
    kinds = fields.strings("mlp_layer_types") or ("dense",) * min(first, layers)
    experts = routed_experts(fields)
    dense = plain_feed_forward(fields) if "dense" in kinds else experts
    feeds = [dense if kind == "dense" else experts for kind in kinds[:layers]]
    return (*feeds, *[experts] * (layers + 1 - len(feeds)))


def routed_experts(fields: ConfigFields) -> ExpertsSpec:
    """Read DeepSeek-V3's routed experts from a config (arXiv 2412.19437, section 2.1.2).

    A sigmoid router selects experts by scores with a bias, and by groups.
    """
    count = fields.count("n_routed_experts", maximum=2**16)
    inner = fields.count("moe_intermediate_size")
    shared = inner * fields.count("n_shared_experts", 0, minimum=0)
    groups = fields.count("n_group", 1, maximum=count)
    if count % groups:
        raise fields.bad_field("n_group", groups, f"a divisor of the {count} experts")
    kept = fields.count("topk_group", 1, maximum=groups)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", maximum=kept * count // groups),
        feed=plain_feed_forward(fields, inner),
        score="sigmoid",
        choice_bias=True,
        float32_router=True,
        groups=groups,
        kept_groups=kept,
        normalise=fields.flag("norm_topk_prob", default=True),
        scale=fields.number("routed_scaling_factor", 1.0),
        shared=plain_feed_forward(fields, shared) if shared else None,
    )


def latent_attention(fields: ConfigFields) -> LatentAttentionSpec:
    """Read DeepSeek-V3's latent attention from a config (arXiv 2412.19437, section 2.1.1)."""
    rotated, nope = fields.count("qk_rope_head_dim", minimum=0), fields.count("qk_nope_head_dim")
    is_interleaved = fields.flag("rope_interleave", default=True)
    is_direct = not fields.has("q_lora_rank")
    return LatentAttentionSpec(
        heads=fields.count("num_attention_heads"),
        q_rank=None if is_direct else fields.count("q_lora_rank"),
        kv_rank=fields.count("kv_lora_rank"),
        nope=nope,
        value_dim=fields.count("v_head_dim"),
        rope=rope_spec(fields, rotated, interleaved=is_interleaved) if rotated else None,
        scale=(nope + rotated) ** -0.5 * yarn_score_scale(fields),
        eps=_LATENT_EPS,
        bias=fields.flag("attention_bias", default=False),
    )
