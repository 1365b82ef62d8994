"""What mlx-lm's classes take of a config, against what transformers' configs of those types know."""

import ast
import dataclasses
import inspect
from importlib import import_module

import pytest
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from mlx_engine.models.library import family
from mlx_engine.models.library.class_fields import FIXED
from mlx_engine.models.registry import FAMILIES

NEEDS_A_PACKAGE = {"olmo"}
WRAPPERS = {"kimi_k25", "llava", "mistral3", "pixtral"}
"""Types whose text part has a type of its own; that one is in the tables."""

NO_EFFECT = {
    # training and running
    *["initializer_range", "use_cache", "output_router_logits", "router_aux_loss_coef"],
    *["router_jitter_noise", "input_jitter_noise", "w_init_variance_scale", "use_mamba_kernels"],
    *["use_mambapy", "use_associative_scan", "num_logits_to_keep", "mtp_loss_scaling_factor"],
    *["rescale_prenorm_residual", "moe_shared_expert_overlap", "add_cross_attention"],
    *[
        "attention_dropout",
        "hidden_dropout",
        "resid_pdrop",
        "embd_pdrop",
        "emb_pdrop",
        "attn_pdrop",
    ],
    # initial values of weights
    *["time_step_init_scheme", "time_step_scale", "time_step_floor", "linear_a_log_min"],
    *["linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"],
    *["summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels"],
    *["summary_first_dropout", "classifier_dropout"],
    # rounding and the order of sums
    *["residual_in_fp32", "mamba_ssm_cache_dtype", "reorder_and_upcast_attn", "chunk_size"],
    *["mamba_chunk_size", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"],
    # told by the shapes of tensors, or by another field
    *[
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "expand",
        "mamba_expand",
    ],
    *["max_position_embeddings", "max_seq_len", "qk_head_dim", "lru_width"],
    # of MTP heads and texts' ends
    *["num_mtp_layers", "num_nextn_predict_layers", "mtp_layers_block_type"],
    *["pad_token_id", "bos_token_id", "eos_token_id", "eod_token_id", "sep_token_id", "is_decoder"],
}


def types() -> list[str]:
    """Of both libraries, but for those that run on our layers."""
    known = [*family._modules(), *family._ANOTHER_NAME]
    apart = NEEDS_A_PACKAGE | WRAPPERS
    ours = {kind for kind in known if kind.removesuffix("_text") in FAMILIES}
    return sorted({kind for kind in known if kind in CONFIG_MAPPING} - apart - ours)


def told(kind: str) -> dict[str, object]:
    """Fields of transformers' config, or of its text part's -> their defaults."""
    config = CONFIG_MAPPING[kind]
    config = getattr(config, "sub_configs", {}).get("text_config", config)
    apart = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    found = {one.name: one.default for one in dataclasses.fields(config)}
    aliases = {old: found[new] for old, new in config.attribute_map.items() if new in found}
    kept = {n: value for n, value in found.items() if n not in apart - {"tie_word_embeddings"}}
    return kept | aliases | {"rope_theta": config.default_theta}


def read(kind: str) -> dict[str, object]:
    """Fields that the class looks at -> their defaults."""
    module = import_module(f"mlx_lm.models.{family.module_of(kind)}")
    found = {}
    sources = {inspect.getsource(inspect.getmodule(one)) for one in module.Model.__mro__[:-2]}
    for name in ("ModelArgs", "TextArgs", "TextConfig"):
        arguments = vars(module).get(name)
        if arguments is not None:
            found |= {one.name: one.default for one in dataclasses.fields(arguments)}
            sources |= {inspect.getsource(inspect.getmodule(arguments))}
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return {name: value for name, value in found.items() if name in named}


@pytest.mark.parametrize("kind", types())
def test_a_class_reads_what_matters_or_is_known_not_to(kind):
    fixed, absent, knows = FIXED[kind], ABSENT.get(kind, {}), told(kind)
    its = read(kind)
    renamed = {old for new, old in RENAMED.get(kind, {}).items() if new in its}
    aliases = CONFIG_MAPPING[kind].attribute_map
    lost = {
        name
        for name in knows
        if name not in NO_EFFECT | fixed.keys() | renamed | its.keys() | set(absent)
        and not {old for old, new in aliases.items() if name in (old, new)} & its.keys()
        and name not in ("rope_parameters", "rope_theta")
    }
    assert not lost
