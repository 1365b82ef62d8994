"""Configs of our families field by field, against what transformers' classes of configs know."""

import json
from collections.abc import Iterator
from dataclasses import fields

import pytest
import transformers as hf
from parity_sweep import base_of, known_to, settings_of

from mlx_engine.models.model_spec import ModelSpec
from mlx_engine.models.registry import FAMILIES, family_for
from mlx_engine.values.errors import EngineError

NOT_RUN = ("minimax", "step3p5")
"""Types whose published configs are another class's, or under other names."""

KINDS = [
    kind
    for name in FAMILIES
    for kind in (name, f"{name}_text")
    if kind in hf.models.auto.configuration_auto.CONFIG_MAPPING
    and name not in NOT_RUN
    and "text_config" not in known_to(kind)
]
FOR_ALL = {field.name for field in fields(hf.PreTrainedConfig)}
SIZES = ("head_dim", "num_key_value_heads", "q_lora_rank", "num_experts", "num_local_experts")
SIZES += ("vocab_size", "tie_word_embeddings", "n_routed_experts", "n_shared_experts", "moe_k")
SIZES += (
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "n_inner",
    "num_shared_experts",
    "mamba_d_ssm",
    "moe_shared_expert_intermediate_size",
)
"""Fields that a silent config does not pass over, because tensors have another shape then."""

HARMLESS = {
    "attention_softmax_in_fp32",
    "embedding_initializer_range",
    "enable_moe_fp32_combine",
    "initializer_range",
    "is_decoder",
    "mamba_chunk_size",
    "mamba_d_head",
    "num_mtp_layers",
    "output_router_logits",
    "pretraining_tp",
    "reorder_and_upcast_attn",
    "rope_parameters",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "scale_attention_softmax_in_fp32",
    "tie_word_embeddings",
    "use_cache",
}
"""Fields that do not change the result, or that other tests are about."""

_OF_INDEXERS = {"head_dim", "layer_types", "mlp_bias", "num_key_value_heads"}
OF_TYPES = {
    "kimi_linear": {"num_key_value_heads"},
    "bailing_hybrid": {"mtp_loss_scaling_factor", "num_key_value_heads", "rope_theta"},
    "deepseek_v32": _OF_INDEXERS,
    "deepseek_v4": {"norm_topk_prob", "num_nextn_predict_layers", "partial_rotary_factor"},
    "hy_v4": _OF_INDEXERS | {"learnable_sink_init"},
    "glm_moe_dsa": _OF_INDEXERS,
    "longcat_flash": {"head_dim", "num_key_value_heads", "qk_head_dim"},
    "deepseek_v2": {"head_dim", "norm_topk_prob", "num_key_value_heads"},
    "deepseek_v3": {"num_key_value_heads"},
    "glm4_moe_lite": {"num_key_value_heads"},
    "falcon_h1": {
        "num_logits_to_keep",
        "ssm_multipliers",
        "mlp_multipliers",
        *(f"{part}_multiplier" for part in ("attention_out", "ssm_in", "ssm_out")),
        *(f"{part}_multiplier" for part in ("embedding", "lm_head")),
    },
    "gpt2": {
        *("reorder_and_upcast_attn", "summary_activation", "summary_proj_to_labels"),
        *("summary_type", "summary_use_proj"),
    },
    "glm5_next_text": {"head_dim", "num_key_value_heads"},
    "gpt_oss": {"hidden_act"},
    "inkling_text": {"log_scaling_alpha", "rms_norm_eps_moe_gate"},
    "minimax_m3_vl_text": {"hidden_act"},  # swigluoai in published configs
    "nemotron_h": {
        *("chunk_size", "expand", "mamba_proj_bias", "mamba_ssm_cache_dtype", "num_logits_to_keep"),
        *("moe_shared_expert_overlap", "rescale_prenorm_residual", "residual_in_fp32"),
        *("time_step_floor", "time_step_max", "time_step_min", "use_mamba_kernels"),
        *("attention_bias", "num_nextn_predict_layers"),
    },
    "olmo_hybrid": {
        *("linear_a_log_max", "linear_a_log_min", "linear_dt_init_floor", "linear_dt_max"),
        "linear_dt_min",
    },
    "qwen4_exp_text": {"split_ngram_parts"},
    "smollm3": {"sliding_window"},
    "youtu": {"num_key_value_heads"},
}
"""Fields of a type that transformers' model does not look at, or not beside those that are run, or
that are multiplied into matrices.
"""

CONTEXTS: tuple[dict[str, object], ...] = (
    {},
    {"use_sliding_window": True, "sliding_window": 8, "layer_types": None, "max_window_layers": 2},
    {"layer_types": None, "no_rope_layers": None, "mlp_layer_types": None},
    {"topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 2},
    {"mlp_only_layers": [0]},
    {"mamba_rms_norm": True},
    {
        "num_hidden_layers": 3,
        "num_kv_shared_layers": 1,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    },
    {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 8},
    {"block_auto_adjust_ff_dim": True, "intermediate_size": 9999, "block_multiple_of": 8},
    {"layers_block_type": ["attention", "mlp"]},
    {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0}},
    {
        **{"indexer_n_heads": 4, "indexer_head_dim": 512, "indexer_kv_heads": 1},
        **{"indexer_budget": 8, "indexer_compress_ratio": 4, "ple_layer_ids": [1]},
        "eos_token_id": 3,
    },
)
"""Changes to a config with which fields count that do not otherwise."""


def read(kind: str, config: dict[str, object]) -> ModelSpec | str:
    """What a family makes of a config, or why it does not."""
    try:
        family = family_for(kind, {"model_type": kind, **config}, "config.json")
        return family.spec  # type: ignore[attr-defined,no-any-return]
    except EngineError as error:
        return str(error)


def told_by(settings: hf.PreTrainedConfig) -> dict[str, object]:
    told: dict[str, object] = json.loads(settings.to_json_string(use_diff=False))
    return {key: value for key, value in told.items() if value is not None}


@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_config_means_what_transformers_takes(kind: str) -> None:
    few = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1}
    given = few if kind in ("dots1", "deepseek_v2") else {}
    if kind.startswith("glm4"):
        given = {"head_dim": 128}
    settings = settings_of(kind)(**given)
    told = told_by(settings)
    wanted = read(kind, told)
    assert isinstance(wanted, ModelSpec)
    for name in known_to(kind) - FOR_ALL - {*SIZES, *few}:
        found = read(kind, {key: value for key, value in told.items() if key != name})
        assert found == wanted or isinstance(found, str), name
    base = told.get("rope_theta", settings.default_theta)
    if isinstance(base, float) and "rope_theta" in told.get("rope_parameters", {}):
        for rope in ({"rope_type": "default"}, told["rope_parameters"] | {"rope_theta": base}):
            kept = {k: v for k, v in rope.items() if k != "rope_theta"}
            assert read(kind, told | {"rope_parameters": kept}) == read(
                kind, told | {"rope_parameters": kept | {"rope_theta": base}}
            )


def others_than(value: object) -> Iterator[object]:
    """Values that a field might have in the place of this one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value * 2, max(1, value // 2), value + 1, 0)
    elif isinstance(value, float):
        yield value * 3 + 0.1
    elif isinstance(value, str):
        yield "mish"
    elif isinstance(value, list):
        yield from ([0], [1], value[::-1], ["full_attention"] * 9, ["dense"] * 9)
    else:
        yield from (True, 2, 7.0, "mish", [0], [1, 0, 1], ["sliding_attention"] * 9)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_read_or_refused(kind: str) -> None:
    """Another value makes another model, or none, if not always then beside other values."""
    told = told_by(settings_of(kind)(**base_of(kind)))
    unread = known_to(kind) - FOR_ALL - HARMLESS - OF_TYPES.get(kind, set())
    unread = {n for n in unread if not n.endswith(("dropout", "_pdrop", "token_id"))}
    unread = {n for n in unread if not n.startswith("summary_")}
    assert isinstance(read(kind, told), ModelSpec)
    for context in CONTEXTS:
        config = told | context
        before = read(kind, config)
        for name in sorted(unread):
            others = others_than(config.get(name))
            if any(read(kind, {**config, name: other}) != before for other in others):
                unread.discard(name)
    assert not unread
