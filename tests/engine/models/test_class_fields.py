"""What classes of mlx-lm take of a config, against what transformers' configs know."""

import ast
import dataclasses
import inspect
from collections.abc import Mapping
from importlib import import_module

import pytest
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from mlx_engine import UnsupportedModel
from mlx_engine.models.library import mlx_lm_family
from mlx_engine.models.library.class_fields import DEFAULTS, FIXED, class_fields
from mlx_engine.models.registry import FAMILIES

APART = {"olmo", "kimi_k25", "llava", "mistral3", "pixtral", "bailing_hybrid", "kimi_linear",
         "gemma3n_text"}  # fmt: skip
"""Not importable; around a text part with a type of its own; refused as transformers writes it; run
as the whole is.
"""

_NAMES = (
    # of training, and how it is run
    """initializer_range use_cache output_router_logits router_aux_loss_coef router_jitter_noise
    input_jitter_noise w_init_variance_scale use_mamba_kernels use_mambapy use_associative_scan
    num_logits_to_keep mtp_loss_scaling_factor rescale_prenorm_residual attention_dropout
    moe_shared_expert_overlap hidden_dropout resid_pdrop embd_pdrop emb_pdrop attn_pdrop
    residual_dropout embedding_dropout time_step_init_scheme time_step_scale time_step_floor
    time_step_min time_step_max linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max
    linear_dt_init_floor summary_type summary_use_proj summary_activation summary_proj_to_labels
    summary_first_dropout classifier_dropout pretraining_tp"""
    # rounding and the order of sums
    """ residual_in_fp32 mamba_ssm_cache_dtype reorder_and_upcast_attn chunk_size mamba_chunk_size
    attention_softmax_in_fp32 scale_attention_softmax_in_fp32"""
    # told by shapes and names of tensors, or by other fields
    """ vocab_size hidden_size intermediate_size num_hidden_layers expand mamba_expand head_dim
    max_position_embeddings max_seq_len qk_head_dim lru_width num_attention_heads n_inner
    num_key_value_heads moe_intermediate_size num_experts num_shared_experts n_shared_experts
    n_routed_experts num_local_experts num_dense_layers shared_intermediate_size v_head_dim
    mamba_n_heads mamba_d_head mamba_d_ssm mamba_d_state mamba_n_groups mamba_d_conv mamba_conv_bias
    mamba_proj_bias moe_shared_expert_intermediate_size layers_block_type rotary_dim layer_types
    q_lora_rank is_decoder use_bidirectional_attention"""
    # of MTP heads and ends of texts
    """ num_mtp_layers num_nextn_predict_layers mtp_layers_block_type pad_token_id bos_token_id
    eos_token_id eod_token_id sep_token_id"""
)
NO_EFFECT = set(_NAMES.split())
"""Fields that change no result where the tensors fit."""

ELSEWHERE = {
    "llama4": {"moe_layers", "no_rope_layers", "no_rope_layer_interval", "attn_temperature_tuning"},
    "llama4_text": {
        *("num_experts_per_tok", "interleave_moe_layer_step", "no_rope_layer_interval"),
        *("attention_chunk_size", "attn_temperature_tuning", "floor_scale", "attn_scale"),
    },
    "phimoe": {"sliding_window"},
    "recurrent_gemma": {"sliding_window"},
}
"""Fields that other code of ours or of the class looks after."""


def types() -> list[str]:
    """Of both libraries, but for those that run on our layers."""
    known = {*mlx_lm_family._mlx_lm_modules(), *mlx_lm_family._ANOTHER_NAME}
    ours = {kind for kind in known if kind.removesuffix("_text") in FAMILIES}
    return sorted({kind for kind in known if kind in CONFIG_MAPPING} - APART - ours)


def known(kind: str) -> dict[str, object]:
    """Fields of transformers' config, or of its text part's -> their defaults."""
    config = CONFIG_MAPPING[kind]
    config = getattr(config, "sub_configs", {}).get("text_config", config)
    apart = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    found = {one.name: one.default for one in dataclasses.fields(config)}
    kept = {n: value for n, value in found.items() if n not in apart - {"tie_word_embeddings"}}
    kept |= {old: found[new] for old, new in config.attribute_map.items() if new in found}
    kept.pop("rope_parameters", None)
    theta = config.default_theta
    return kept | ({} if isinstance(theta, dict) else {"rope_theta": theta})


def read(kind: str) -> dict[str, object]:
    """Fields that the class looks at -> their defaults."""
    module = import_module(f"mlx_lm.models.{mlx_lm_family.mlx_lm_module_name(kind)}")
    found = {}
    sources = {inspect.getsource(inspect.getmodule(one)) for one in module.Model.__mro__[:-2]}
    for name in ("ModelArgs", "TextArgs", "TextConfig"):
        if name in vars(module):
            found |= {one.name: one.default for one in dataclasses.fields(vars(module)[name])}
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return {name: value for name, value in found.items() if name in named}


def same(one: object, other: object) -> bool:
    return (list(one) if isinstance(one, tuple) else one) == other


@pytest.mark.parametrize("kind", types())
def test_a_class_reads_every_field_that_matters_or_it_is_in_the_table(kind):
    knows, reads = known(kind), read(kind)
    other_names = CONFIG_MAPPING[kind].attribute_map
    seen = reads.keys() | {other_names.get(name) for name in reads}
    seen |= {old for old, new in other_names.items() if new in seen}
    looked_after = seen | FIXED[kind].keys() | NO_EFFECT | ELSEWHERE.get(kind, set())
    assert not knows.keys() - looked_after - {"rope_theta"}


@pytest.mark.parametrize("kind", types())
def test_where_a_config_is_silent_a_class_takes_what_transformers_takes(kind):
    knows, reads = known(kind), read(kind)
    absent = {"rope_theta": 1e4} | DEFAULTS.get(kind, {})
    for name, value in reads.items():
        wanted = knows.get(name)
        if wanted is None or name in NO_EFFECT | ELSEWHERE.get(kind, set()):
            continue
        if name not in absent and value is not dataclasses.MISSING:
            assert same(wanted, value), f"{name}: {wanted}, not {value}"
    for name, value in absent.items():
        if knows.get(name) is not None and name in reads:
            assert same(knows[name], value) or name in ("intermediate_size",), name


OTHER = {"time_step_limit": [0.0, 9.0], "rope_scaling": {"rope_type": "yarn", "factor": 2.0}}


@pytest.mark.parametrize("kind", sorted(FIXED))
def test_what_a_class_does_not_look_at_is_refused_by_name(kind):
    class_fields({"mood": "sunny"} | nested(FIXED[kind]), kind, "here")
    for name, value in FIXED[kind].items():
        other = OTHER.get(name, "other") if not isinstance(value, bool) else not value
        with pytest.raises(UnsupportedModel, match=f"here: asks for {name} "):
            class_fields(nested(FIXED[kind] | {name: other}), kind, "here")


def test_a_gate_for_each_element_is_refused_as_what_the_class_cannot_do():
    told = {"num_attention_heads": 4, "hidden_size": 64, "rope_theta": 1e4}
    for same in ({}, {"gating": True}, {"gating": "per-head"}):
        class_fields(told | same, "laguna", "here")
    with pytest.raises(UnsupportedModel, match="gating 'per-element', which mlx-lm does not know"):
        class_fields(told | {"gating": "per-element"}, "laguna", "here")


def nested(fields: Mapping[str, object]) -> dict[str, object]:
    made: dict[str, object] = {}
    for name, value in fields.items():
        *outer, last = name.split(".")
        level = made
        for key in outer:
            level = level.setdefault(key, {})
        level[last] = value
    return made
