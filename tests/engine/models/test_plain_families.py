"""Families without their heads: logits of every variant of their files against transformers."""

import json
import shutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from itertools import cycle
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from compared import relative
from dialled_draft import DialledDraft
from in_step import assert_layers_in_step
from kernel_models import every_kernel
from metal_emulator import EmulatorLauncher
from mlx_lm.utils import load_model as open_in_mlx_lm
from mlx_lm.utils import quantize_model, save_model
from model_edits import edit_config, edit_tensors, logits
from plain_run import run
from tiny_published import VOCABULARY, WINDOW, publish, published_logits

import mlx_engine
from mlx_engine.cache.joint import combine_caches
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.engine import Engine
from mlx_engine.loading.load import load_model
from mlx_engine.models.registry import family_for
from mlx_engine.values.options import LoadOptions, SamplingOptions

SLIDING, FULL = "sliding_attention", "full_attention"
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 128,
}
STRAIGHT = YARN | {"truncate": False}
"""The published form of gpt-oss: the ramp does not begin and end at whole pairs."""


SHORT_YARN = YARN | {"beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 16}


def scored(scale: float, scale_all: float) -> dict[str, object]:
    """YaRN that changes scores too."""
    return SHORT_YARN | {"mscale": scale, "mscale_all_dim": scale_all}


def long_rope(pairs: int, trained: int) -> dict[str, object]:
    """LongRoPE (arXiv 2402.13753) that changes over at `trained`."""
    steps = range(pairs)
    return {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0 + 0.1 * step for step in steps],
        "long_factor": [1.5 + 0.5 * step for step in steps],
        "original_max_position_embeddings": trained,
    }


def older(scaling: Mapping[str, object], **more: object) -> dict[str, object]:
    """The same rotation under the keys of config.json before transformers 5."""
    inner = dict(scaling)
    kind, base = inner.pop("rope_type"), inner.pop("rope_theta")
    old = {"rope_theta": base, "rope_parameters": None, **more}
    return old if kind == "default" else old | {"rope_scaling": {"type": kind, **inner}}


class Case(NamedTuple):
    """A tiny model: its type, what its config gets, and what is done to config.json afterwards."""

    kind: str
    changes: Mapping[str, object] = {}
    edits: Mapping[str, object] = {}


WINDOWED = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
NO_WINDOW = {"sliding_window": None}
SHORT = long_rope(8, 64)
TRAINED = 16
OUTGROWN = NO_WINDOW | {
    "rope_parameters": long_rope(8, TRAINED),
    "original_max_position_embeddings": TRAINED,
}
GEMMA = {
    "head_dim": 256,
    "num_hidden_layers": 3,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-6,
    "layer_types": [SLIDING, SLIDING, FULL],
    "rope_parameters": {SLIDING: PLAIN, FULL: LINEAR | {"rope_theta": 1e6}},
}
GEMMA_OLD = {
    "layer_types": None,
    "sliding_window_pattern": 3,
    "rope_parameters": None,
    "rope_theta": 1e6,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 4.0},
}
ABSENT = dict.fromkeys(
    ("tie_word_embeddings", "rms_norm_eps", "attention_bias", "mlp_bias", "hidden_act")
)
"""Taken out of config.json, whatever the class has in their place."""

CASES: dict[str, Case] = {
    "llama": Case("llama"),
    "llama, plain": Case("llama", {"rope_parameters": PLAIN}, older(PLAIN)),
    "llama, linear": Case("llama", {"rope_parameters": LINEAR}),
    "llama, linear by old keys": Case("llama", {"rope_parameters": LINEAR}, older(LINEAR)),
    "llama, llama3 by old keys": Case("llama", {}, older(LLAMA3)),
    "llama, dynamic": Case("llama", {"rope_parameters": DYNAMIC}),
    "llama, yarn": Case("llama", {"rope_parameters": YARN}),
    "llama, yarn by old keys": Case("llama", {"rope_parameters": YARN}, older(YARN)),
    "llama, yarn attention_factor": Case(
        "llama", {"rope_parameters": YARN | {"attention_factor": 1.4}}
    ),
    "llama, yarn not truncated": Case("llama", {"rope_parameters": STRAIGHT}),
    "llama, yarn betas": Case(
        "llama", {"rope_parameters": YARN | {"beta_fast": 4.0, "beta_slow": 0.5}}
    ),
    "llama, yarn mscale": Case(
        "llama", {"rope_parameters": YARN | {"mscale": 1.5, "mscale_all_dim": 0.5}}
    ),
    "llama, yarn mscale_all_dim": Case(
        "llama", {"rope_parameters": YARN | {"mscale_all_dim": 1.0}}
    ),
    "llama, longrope": Case("llama", {"rope_parameters": SHORT}),
    "llama, biases": Case("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama, head_dim": Case("llama", {"head_dim": 24}),
    "llama, tied": Case("llama", {"tie_word_embeddings": True}),
    "llama, keys absent": Case("llama", {}, ABSENT | {"head_dim": None}),
    "granite": Case("granite"),
    "granite, factors": Case(
        "granite", {"attention_multiplier": 0.2, "embedding_multiplier": 12.0, "mlp_bias": True}
    ),
    "granite, outgrown": Case("granite", OUTGROWN),
    "olmo2": Case("olmo2"),
    "olmo2, biases": Case("olmo2", {"attention_bias": True}),
    "olmo2, yarn": Case("olmo2", {"rope_parameters": YARN}),
    "olmo2, keys absent": Case("olmo2", {}, ABSENT),
    "olmo3": Case("olmo3"),
    "olmo3, yarn": Case("olmo3", {"rope_parameters": {SLIDING: PLAIN, FULL: SHORT_YARN}}),
    "olmo3, truncated in a part": Case(
        "olmo3", {"rope_parameters": {SLIDING: PLAIN, FULL: SHORT_YARN | {"truncate": False}}}
    ),
    "olmo3, as published": Case(
        "olmo3",
        {"num_hidden_layers": 5, "layer_types": None},
        older(
            PLAIN | {"rope_theta": 5e5},
            rope_scaling=SHORT_YARN | {"rope_theta": 5e5},
            layer_types=None,
        ),
    ),
    "olmo3, keys absent": Case(
        "olmo3",
        {"rope_parameters": None, "rms_norm_eps": 1e-5},
        ABSENT | {"rope_parameters": None},
    ),
    "exaone4": Case("exaone4"),
    "exaone4, no window": Case("exaone4", NO_WINDOW | {"layer_types": [FULL] * 4}),
    "exaone4, keys absent": Case(
        "exaone4", {"rms_norm_eps": 1e-5}, ABSENT | {"layer_types": None, "rms_norm_eps": None}
    ),
    "seed_oss": Case("seed_oss"),
    "seed_oss, output biased": Case("seed_oss", {"attention_out_bias": True, "mlp_bias": True}),
    "seed_oss, no biases": Case("seed_oss", {"attention_bias": False}),
    "seed_oss, keys absent": Case(
        "seed_oss", {"head_dim": 128}, ABSENT | {"head_dim": None, "attention_out_bias": None}
    ),
    "smollm3": Case("smollm3"),
    "smollm3, listed": Case("smollm3", {"no_rope_layers": [0, 1, 1, 0, 1]}),
    "smollm3, keys absent": Case(
        "smollm3",
        {"rope_parameters": PLAIN | {"rope_theta": 2e6}, "tie_word_embeddings": True},
        ABSENT | dict.fromkeys(("no_rope_layers", "rope_parameters", "no_rope_layer_interval")),
    ),
    "ernie4_5": Case("ernie4_5"),
    "ernie4_5, biases": Case("ernie4_5", {"use_bias": True}),
    "dots1": Case("dots1"),
    "dots1, window": Case(
        "dots1", {"sliding_window": WINDOW, "layer_types": [FULL, SLIDING, SLIDING]}
    ),
    "dots1, biases": Case("dots1", {"attention_bias": True, "norm_topk_prob": False}),
    "mistral": Case("mistral"),
    "mistral, no window": Case("mistral", NO_WINDOW),
    "mistral, yarn": Case("mistral", {"rope_parameters": YARN}),
    "ministral": Case("ministral"),
    "ministral, all in a window": Case("ministral", {"layer_types": None}, {"layer_types": None}),
    "mixtral": Case("mixtral"),
    "mixtral, window": Case("mixtral", {"sliding_window": WINDOW}),
    "mixtral, linear": Case("mixtral", {"rope_parameters": LINEAR}),
    "mixtral, yarn": Case(
        "mixtral", {"head_dim": 16, "rope_parameters": STRAIGHT}, older(STRAIGHT)
    ),
    "mixtral, keys absent": Case(
        "mixtral",
        {"rms_norm_eps": 1e-5, "rope_parameters": PLAIN | {"rope_theta": 1e6}},
        ABSENT | {"rope_parameters": None},
    ),
    "qwen2, tied": Case("qwen2"),
    "qwen2, keys absent": Case("qwen2", {"tie_word_embeddings": False}, ABSENT),
    "qwen2, window": Case("qwen2", WINDOWED, {"layer_types": None}),
    "qwen2, layer_types": Case("qwen2", WINDOWED),
    "qwen2, window not used": Case("qwen2", {}, {"sliding_window": WINDOW, "layer_types": None}),
    "qwen2, yarn": Case("qwen2", {"rope_parameters": YARN}, older(YARN)),
    "qwen2_moe": Case("qwen2_moe"),
    "qwen2_moe, normalised, tied": Case(
        "qwen2_moe", {"norm_topk_prob": True, "tie_word_embeddings": True, "qkv_bias": False}
    ),
    "qwen2_moe, window, yarn": Case("qwen2_moe", WINDOWED | {"rope_parameters": YARN}),
    "qwen2_moe, dense layers": Case(
        "qwen2_moe", {"decoder_sparse_step": 2, "mlp_only_layers": [2]}
    ),
    "qwen3": Case("qwen3"),
    "qwen3, attention_bias": Case("qwen3", {"attention_bias": True}),
    "qwen3, window": Case("qwen3", WINDOWED, {"layer_types": None}),
    "qwen3, yarn": Case("qwen3", {"rope_parameters": YARN | {"attention_factor": 1.4}}),
    "qwen3, keys absent": Case("qwen3", {"head_dim": 128}, ABSENT | {"head_dim": None}),
    "qwen3_moe": Case("qwen3_moe"),
    "qwen3_moe, attention_bias": Case("qwen3_moe", {"attention_bias": True}),
    "qwen3_moe, not normalised": Case("qwen3_moe", {"norm_topk_prob": False}),
    "qwen3_moe, keys absent": Case(
        "qwen3_moe", {"norm_topk_prob": False}, ABSENT | {"norm_topk_prob": None}
    ),
    "qwen3_moe, window": Case("qwen3_moe", WINDOWED),
    "qwen3_moe, dense layers": Case(
        "qwen3_moe", {"decoder_sparse_step": 2, "mlp_only_layers": [2]}
    ),
    "qwen3_moe, yarn": Case("qwen3_moe", {"rope_parameters": STRAIGHT}, older(STRAIGHT)),
    "qwen3_moe, older names": Case("qwen3_moe", {}, {"num_local_experts": None, "num_experts": 4}),
    "gemma3_text": Case("gemma3_text"),
    "gemma3_text, linear by old keys": Case("gemma3_text", GEMMA, GEMMA_OLD),
    "gemma3_text, keys absent": Case(
        "gemma3_text",
        GEMMA,
        ABSENT
        | GEMMA_OLD
        | dict.fromkeys(
            ("head_dim", "query_pre_attn_scalar", "rope_theta", "rope_local_base_freq")
        ),
    ),
    "gemma3_text, attention_bias": Case("gemma3_text", {"attention_bias": True}),
    "gemma3_text, not tied": Case("gemma3_text", {"tie_word_embeddings": False}),
    "gpt_oss": Case("gpt_oss"),
    "gpt_oss, truncated": Case("gpt_oss", {"rope_parameters": YARN}),
    "gpt_oss, as published": Case("gpt_oss", {}, older(STRAIGHT) | {"layer_types": None}),
    "gpt_oss, plain": Case("gpt_oss", {"rope_parameters": PLAIN}),
    "gpt_oss, no biases": Case("gpt_oss", {"attention_bias": False}),
    "gpt_oss, limit": Case("gpt_oss", {"swiglu_limit": 0.7, "num_experts_per_tok": 3}),
    "gpt_oss, keys absent": Case(
        "gpt_oss",
        {"head_dim": 64, "rms_norm_eps": 1e-5},
        ABSENT | {"head_dim": None, "swiglu_limit": None, "swiglu_alpha": None},
    ),
    "phi3": Case("phi3"),
    "phi3, no window": Case("phi3", NO_WINDOW),
    "phi3, partly rotated": Case(
        "phi3", {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5}}
    ),
    "phi3, short factors": Case(
        "phi3", NO_WINDOW | {"rope_parameters": SHORT, "original_max_position_embeddings": 64}
    ),
    "phi3, short factors by old keys": Case(
        "phi3",
        NO_WINDOW | {"rope_parameters": SHORT, "original_max_position_embeddings": 64},
        older(SHORT),
    ),
    "phi3, outgrown": Case("phi3", OUTGROWN),
    "phi3, keys absent": Case("phi3", NO_WINDOW | {"rms_norm_eps": 1e-5}, ABSENT | NO_WINDOW),
    "glm": Case("glm"),
    "glm4": Case("glm4"),
    "glm4, no biases": Case("glm4", {"attention_bias": False}),
    "glm4, linear": Case("glm4", {"rope_parameters": LINEAR | {"partial_rotary_factor": 0.5}}),
    "glm4, yarn by old keys": Case(
        "glm4",
        {"rope_parameters": YARN | {"partial_rotary_factor": 0.5}},
        older(YARN, partial_rotary_factor=0.5),
    ),
    "glm4, rotated whole": Case(
        "glm4", {"rope_parameters": PLAIN | {"partial_rotary_factor": 1.0}}
    ),
    "glm4, keys absent": Case(
        "glm4", {"rms_norm_eps": 1.5625e-07, "head_dim": 128}, ABSENT | {"head_dim": None}
    ),
    "ernie4_5_moe": Case("ernie4_5_moe"),
    "ernie4_5_moe, biases": Case("ernie4_5_moe", {"use_bias": True, "moe_num_shared_experts": 0}),
    "ernie4_5_moe, one layer of experts": Case(
        "ernie4_5_moe",
        {
            "moe_layer_end_index": 1,
            "moe_layer_interval": 2,
            "rope_parameters": PLAIN,
        },
    ),
    "minimax_m2": Case("minimax_m2"),
    "minimax_m2, rotary_dim": Case(
        "minimax_m2",
        {"rope_parameters": YARN | {"partial_rotary_factor": 0.5}},
        older(YARN, rotary_dim=16),
    ),
    "deepseek 2": Case("deepseek_v2"),
    "deepseek 2, groups": Case(
        "deepseek_v2", {"topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 1}
    ),
    "deepseek 2, yarn": Case("deepseek_v2", {"rope_parameters": scored(0.7, 0.7)}),
    "glm4_moe": Case("glm4_moe"),
    "glm4_moe scaled": Case(
        "glm4_moe", {"rope_parameters": LINEAR | {"partial_rotary_factor": 0.5}}
    ),
    "glm4_moe biased": Case("glm4_moe", {"attention_bias": True, "use_qk_norm": False}),
    "glm4_moe raw weights": Case(
        "glm4_moe", {"norm_topk_prob": False, "routed_scaling_factor": 1.5}
    ),
    "lite": Case("glm4_moe_lite"),
    "lite, direct queries": Case("glm4_moe_lite", {"q_lora_rank": None}),
    "lite, all dense but one": Case(
        "glm4_moe_lite", {"mlp_layer_types": ["dense", "sparse", "dense"]}
    ),
    "deepseek": Case("deepseek_v3"),
    "youtu": Case("youtu"),
    "deepseek biased": Case("deepseek_v3", {"attention_bias": True}),
    "deepseek in halves": Case("deepseek_v3", {"rope_interleave": False}),
    "deepseek yarn": Case("deepseek_v3", {"rope_parameters": SHORT_YARN}),
    "deepseek yarn, scores": Case("deepseek_v3", {"rope_parameters": scored(1.0, 0.7)}),
    "deepseek yarn, scores alone": Case(
        "deepseek_v3", {"rope_parameters": SHORT_YARN | {"mscale_all_dim": 0.7}}
    ),
    "solar_open": Case("solar_open", {}, {"first_k_dense_replace": 0}),
    "solar_open, as published": Case(
        "solar_open",
        {"rope_parameters": YARN},
        older(YARN, partial_rotary_factor=1.0, first_k_dense_replace=0, use_qk_norm=False),
    ),
    "solar_open, biases": Case("solar_open", {"attention_bias": True, "norm_topk_prob": False}),
    "olmoe": Case("olmoe"),
    "olmoe, yarn": Case(
        "olmoe",
        {"rope_parameters": YARN | {"attention_factor": 1.3}, "norm_topk_prob": True},
        older(YARN, num_local_experts=4, num_experts=None)
        | {"rope_scaling": YARN | {"attention_factor": 1.3}},
    ),
    "ministral3": Case("ministral3"),
    "ministral3, window": Case("ministral3", {"sliding_window": WINDOW}),
    "ministral3, keys absent": Case(
        "ministral3",
        {"rope_parameters": None, "head_dim": 128, "max_position_embeddings": 262144},
        {"rope_parameters": None, "rms_norm_eps": None},
    ),
    "gemma2": Case("gemma2", {"sliding_window": WINDOW}),
    "gemma2, no caps": Case(
        "gemma2", dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"))
    ),
    "gemma2, keys absent": Case(
        "gemma2",
        {
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
            "head_dim": 256,
            "query_pre_attn_scalar": 256,
            "rms_norm_eps": 1e-6,
        },
        ABSENT
        | dict.fromkeys(
            (
                "attn_logit_softcapping",
                "final_logit_softcapping",
                "head_dim",
                "query_pre_attn_scalar",
                "layer_types",
                "rope_parameters",
            )
        ),
    ),
    "gemma2, not tied": Case(
        "gemma2", {"tie_word_embeddings": False, "attention_bias": True, "rope_parameters": LINEAR}
    ),
    "gemma3_text, capped": Case("gemma3_text", {"final_logit_softcapping": 3.0}),
    "cohere": Case("cohere"),
    "cohere, normed": Case("cohere", {"use_qk_norm": True, "attention_bias": True}),
    "cohere, keys absent": Case(
        "cohere",
        {"logit_scale": 0.0625, "rope_parameters": None},
        ABSENT | dict.fromkeys(("logit_scale", "rope_parameters", "layer_norm_eps")),
    ),
    "cohere2": Case("cohere2"),
    "cohere2, layer_types": Case(
        "cohere2", {"head_dim": 24, "layer_types": [FULL, SLIDING, SLIDING, FULL]}
    ),
    "cohere2, not tied": Case(
        "cohere2",
        {"rope_parameters": YARN, "attention_bias": True, "tie_word_embeddings": False},
    ),
    "starcoder2": Case("starcoder2", {"sliding_window": WINDOW}),
    "starcoder2, no biases": Case(
        "starcoder2", NO_WINDOW | {"use_bias": False, "hidden_act": "gelu", "rope_parameters": YARN}
    ),
    "starcoder2, keys absent": Case(
        "starcoder2",
        NO_WINDOW | {"tie_word_embeddings": True, "rope_parameters": None},
        ABSENT | NO_WINDOW | {"norm_epsilon": None, "rope_parameters": None},
    ),
    "nemotron": Case("nemotron"),
    "nemotron, biases": Case(
        "nemotron",
        {"attention_bias": True, "mlp_bias": True, "hidden_act": "silu", "head_dim": 32},
    ),
    "nemotron, keys absent": Case(
        "nemotron",
        {"rope_parameters": None},
        ABSENT | dict.fromkeys(("rope_parameters", "norm_eps", "head_dim")),
    ),
    "stablelm": Case("stablelm"),
    "stablelm, the 12B": Case("stablelm", {"qk_layernorm": True, "use_parallel_residual": True}),
    "stablelm, biases": Case(
        "stablelm",
        {"use_qkv_bias": True, "hidden_act": "relu", "tie_word_embeddings": True},
    ),
    "stablelm, keys absent": Case(
        "stablelm",
        {"rope_parameters": None},
        ABSENT | dict.fromkeys(("rope_parameters", "layer_norm_eps")),
    ),
    "phi": Case("phi"),
    "phi, tied": Case("phi", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "phi, keys absent": Case(
        "phi",
        {"rope_parameters": None},
        ABSENT | dict.fromkeys(("rope_parameters", "layer_norm_eps")),
    ),
    "gpt_neox": Case("gpt_neox"),
    "gpt_neox, in sequence": Case(
        "gpt_neox",
        {"use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True},
    ),
    "gpt_neox, as the 20B": Case(
        "gpt_neox",
        {
            "hidden_act": "gelu_fast",
            "intermediate_size": 256,
            "rope_parameters": PLAIN | {"partial_rotary_factor": 0.5},
        },
        {"rope_parameters": None, "rotary_pct": 0.5, "rotary_emb_base": 10000},
    ),
    "gpt_neox, keys absent": Case(
        "gpt_neox",
        {"rope_parameters": None},
        ABSENT | dict.fromkeys(("rope_parameters", "use_parallel_residual", "layer_norm_eps")),
    ),
    "gpt_bigcode": Case("gpt_bigcode"),
    "gpt_bigcode, many keys": Case(
        "gpt_bigcode",
        {"multi_query": False, "scale_attn_weights": False, "activation_function": "relu"},
    ),
    "gpt2": Case("gpt2"),
    "gpt2, scaled by layer": Case(
        "gpt2", {"scale_attn_by_inverse_layer_idx": True, "tie_word_embeddings": False}
    ),
    "gpt2, square": Case("gpt2", {"n_inner": 64, "activation_function": "relu"}),
    "gpt_bigcode, not tied": Case(
        "gpt_bigcode",
        {"tie_word_embeddings": False, "n_inner": 256, "activation_function": "gelu"},
        {"n_inner": 256},
    ),
    "afmoe": Case("afmoe"),
    "afmoe, scaled, two shared": Case(
        "afmoe",
        {
            **{"mup_enabled": True, "num_shared_experts": 2, "num_dense_layers": 2},
            **{"num_hidden_layers": 4, "layer_types": None, "rope_parameters": YARN},
            **{"route_scale": 2.5, "hidden_act": "gelu"},
        },
        {"layer_types": None, "global_attn_every_n_layers": 4},
    ),
    "nanochat": Case("nanochat"),
    "nanochat, not capped, biases": Case(
        "nanochat",
        {
            **{"rms_norm_eps": 0.1, "num_key_value_heads": 1, "final_logit_softcapping": None},
            **{"attention_bias": True, "hidden_act": "gelu"},
        },
    ),
    "nanochat, yarn": Case("nanochat", {"rope_parameters": YARN}),
    "mimo_v2": Case("mimo_v2_flash"),
    "mimo_v2 unscaled": Case("mimo_v2_flash", {"attention_value_scale": None}),
}


CASES |= {
    "llama, rotation told twice": Case(
        "llama", {}, {"rope_parameters": PLAIN, "rope_scaling": YARN | {"attention_factor": 1.4}}
    ),
    "gemma3_text, rotation told twice": Case(
        "gemma3_text", {}, {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    ),
    "gemma3_text, exact gelu": Case(
        "gemma3_text", {"hidden_activation": "gelu"}, {"hidden_act": "relu"}
    ),
    "mistral, trained length told twice": Case(
        "mistral", {}, {"rope_parameters": YARN, "original_max_position_embeddings": 32}
    ),
    "qwen3, yarn by lengths, part of a head": Case(
        "qwen3",
        {"hidden_act": "relu"},
        {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5}, "rope_scaling": None}
        | older(YARN | {"factor": None}),
    ),
    "deepseek_v3, longrope": Case("deepseek_v3", OUTGROWN),
    "minimax_m2, longrope": Case(
        "minimax_m2", {}, {"rotary_dim": 16, "rope_parameters": None} | older(SHORT)
    ),
    "gpt_neox, theta of others": Case(
        "gpt_neox", {}, {"rope_parameters": None, "rope_theta": 500.0}
    ),
    "mixtral, quick_gelu": Case("mixtral", {"hidden_act": "quick_gelu"}),
    "phi3, longrope called yarn": Case(
        "phi3", NO_WINDOW, older(SHORT | {"rope_type": "yarn"}) | {"hidden_act": "relu2"}
    ),
    "qwen2_moe, windows where layer_types is silent": Case(
        "qwen2_moe",
        WINDOWED | {"max_window_layers": 3, "num_hidden_layers": 4, "hidden_act": "gelu_new"},
        {"layer_types": None},
    ),
    "dots1, windows where layer_types is silent": Case(
        "dots1", {"sliding_window": WINDOW, "max_window_layers": 1}, {"layer_types": None}
    ),
}
"""Rotations and feed-forwards told in odd ways."""

BFLOAT16 = ("llama", "qwen2, tied", "gemma3_text", "gpt_oss", "phi3")
CONVERTED = (
    "llama, biases",
    "mixtral",
    "qwen2, tied",
    "qwen3",
    "qwen3_moe",
    "qwen3_moe, dense layers",
    "gemma3_text",
    "gpt_oss, truncated",
    "phi3",
    "glm4",
    "cohere, normed",
    "gemma2",
    "olmoe",
    "solar_open",
    "gpt2",
    "gpt_neox, as the 20B",
    "nemotron",
    "phi",
    "stablelm, the 12B",
    "cohere2",
    "gpt_bigcode, not tied",
    "dots1",
    "ernie4_5_moe, one layer of experts",
    "afmoe",
)
"""Of which mlx-lm's own classes get the numbers right, the window aside."""
DRAFTED = (
    "llama",
    "mistral",
    "mixtral, window",
    "qwen2, layer_types",
    "qwen3_moe",
    "gemma3_text",
    "gpt_oss",
    "phi3",
    "phi3, outgrown",
    "glm4",
    "gemma2",
    "cohere2",
    "ministral3, window",
    "starcoder2",
    "gpt_neox",
    "gpt_bigcode",
    "afmoe",
    "nanochat",
)
PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "hot": SamplingOptions(temperature=1.1, repetition_penalty=1.2),
}


def published(name, folder, **more):
    """With the logits of each row as transformers has them for the text that ends there."""
    case = CASES[name]
    tiny = publish(case.kind, folder, changes=case.changes, edits=case.edits, **more)
    if case.changes is not OUTGROWN:
        return tiny
    short = published_logits(tiny.folder, tiny.tokens[:TRAINED])
    return tiny._replace(logits=np.concatenate([short, tiny.logits[TRAINED:]]))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Each case once, opened on first need: the folder and its engine."""

    @cache
    def get(name):
        tiny = published(name, tmp_path_factory.mktemp("tiny") / "m")
        return tiny, mlx_engine.load(tiny.folder)

    return get


def row_by_row(model, tokens):
    """Logits of cached decoding."""
    caches, rows = model.make_caches(), []
    for token in tokens:
        hidden = model.forward(mx.array([[token]]), caches)
        caches.commit(1)
        rows.append(np.array(model.logits(hidden)[0]))
    return np.concatenate(rows)


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_transformers(made, name):
    """And are the same bits row by row, until the prompt is longer than windows and lengths that
    rotations were trained for.
    """
    tiny, engine = made(name)
    found = engine.logits(tiny.tokens)
    assert relative(found, tiny.logits) < 1e-5
    first = row_by_row(engine.parts.model, tiny.tokens[: TRAINED + 4])
    assert np.array_equal(first, found[: len(first)])
    assert engine.description.numerics == "exact"


@pytest.mark.parametrize("name", CASES)
def test_description_counts_what_is_really_held(made, name):
    tiny, engine = made(name)
    told, caches = engine.description, engine.parts.model.make_caches()
    engine.parts.model.forward(mx.array([tiny.tokens[:1]]), caches)
    arrays = [array for array in caches.arrays() if array.ndim == 4]
    values = sum(array.nbytes // array.shape[2] for array in arrays)
    assert told.cache_bytes_per_token + told.state_bytes // WINDOW == values
    stored = mx.load(str(tiny.folder / "model.safetensors"))
    assert told.parameters == sum(array.size for array in stored.values())
    assert told.mtp is not None
    assert told.mtp.code in ("no-heads", "heads-dropped")  # some configs promise them


@pytest.mark.parametrize("name", BFLOAT16)
def test_weights_in_bfloat16(tmp_path, name):
    """Computed in float32, so that a gain of 1 + w keeps what bfloat16 would round off."""
    tiny = published(name, tmp_path / "m", dtype="bfloat16")
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-5


def test_a_gain_of_1_plus_w_is_added_in_float32():
    """With Metal the weights stay in bfloat16, which would round it by up to 0.4 %."""
    w = mx.array([0.0037, -0.3, 1.01]).astype(mx.bfloat16)
    family = family_for("gemma3_text", {}, "tiny")
    made = family.canonical_trunk({"layers.0.mixer_out_norm.weight": w}, "tiny")
    (gain,) = made.arrays.values()
    assert gain.dtype == mx.float32
    assert mx.array_equal(gain, 1 + w.astype(mx.float32))


@pytest.mark.parametrize(
    ("name", "bits"),
    [*((name, None) for name in CONVERTED), *zip(CONVERTED, cycle((4, 8)), strict=False)],
)
def test_folders_of_mlx_lm(made, tmp_path, name, bits):
    """Its names and stacks, dense and packed; packed ones against its own logits."""
    tiny, dense = made(name)
    folder = tmp_path / "converted"
    shutil.copytree(tiny.folder, folder)
    edit_config(folder, **in_older_keys(folder))
    if "gpt_oss" in name:
        pack_experts(folder)
    if "gpt2" in name:
        bare = "transformer."
        edit_tensors(folder, lambda all_of: {n.removeprefix(bare): a for n, a in all_of.items()})
    model, config = open_in_mlx_lm(folder)
    if bits is not None:
        model, config = quantize_model(model, config, 32, bits)
    (folder / "model.safetensors").unlink()
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    engine, tokens = mlx_engine.load(folder), tiny.tokens[:WINDOW]
    wanted = np.array(model(mx.array([tokens]))[0])
    assert relative(engine.logits(tokens), wanted) < 1e-5
    lost = [one for one in engine.description.declined if one.code == "lost-expert-correction"]
    assert len(lost) == name.startswith("ernie")
    assert lost or engine.description.parameters == dense.description.parameters
    if bits is not None:
        assert f"{bits}-bit affine, groups of 32" in engine.description.quantisation
    engine.close()


def in_older_keys(folder):
    """What mlx-lm reads, for what transformers 5 writes."""
    config = json.loads((folder / "config.json").read_text())
    rope = config.get("rope_parameters")
    if rope is None:
        return {"n_ctx": config.get("n_positions")} if "n_positions" in config else {}
    local = rope.get(SLIDING)
    rope = rope.get(FULL, rope)
    made = older(rope, partial_rotary_factor=rope.get("partial_rotary_factor", 1.0))
    if local is not None:
        made |= {"rope_local_base_freq": local["rope_theta"], "sliding_window_pattern": 2}
    if "num_local_experts" in config:
        made["num_experts"] = config["num_local_experts"]
    return made


def pack_experts(folder, *, unpacked=False):
    """Experts of gpt-oss as blocks of MXFP4, as published; unpacked: dense, of the same values."""
    file = str(folder / "model.safetensors")
    made = {}
    for name, array in mx.load(file).items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            made[name] = array
            continue
        words, scales = mx.quantize(array.swapaxes(-1, -2), 32, 4, mode="mxfp4")
        if unpacked:
            values = mx.dequantize(words, scales, group_size=32, bits=4, mode="mxfp4")
            made[name] = mx.contiguous(values.swapaxes(-1, -2).astype(mx.float32))
        else:
            rows = mx.contiguous(words).view(mx.uint8)
            made |= {f"{name}_blocks": rows.reshape(*scales.shape, 16), f"{name}_scales": scales}
    mx.save_safetensors(file, made)
    if not unpacked:
        edit_config(folder, quantization_config={"quant_method": "mxfp4"})


def test_gpt_oss_in_its_published_packing(made, tmp_path):
    tiny, dense = made("gpt_oss")
    folder, copy = tmp_path / "packed", tmp_path / "dense"
    for place in (folder, copy):
        shutil.copytree(tiny.folder, place)
        pack_experts(place, unpacked=place == copy)
    assert relative(logits(folder, tiny.tokens), logits(copy, tiny.tokens)) < 1e-5
    assert mlx_engine.inspect(folder).parameters == dense.description.parameters


PREFIXES = {
    "published": ("language_model.", ""),
    "transformers 5": ("model.language_model.", "model."),
    "mlx": ("language_model.model.", "model."),
}


@pytest.mark.parametrize("form", PREFIXES)
def test_gemma3_with_eyes(tmp_path, form):
    """A text model within another; the outer config says little, the text_config wins."""
    tiny = published("gemma3_text, keys absent", tmp_path / "m")
    config = json.loads((tiny.folder / "config.json").read_text())
    outer = {"model_type": "gemma3", "text_config": config, "hidden_size": 7}
    outer |= {"architectures": ["Gemma3ForConditionalGeneration"], "vision_config": {}}
    (tiny.folder / "config.json").write_text(json.dumps(outer))
    file = str(tiny.folder / "model.safetensors")
    wanted, old = PREFIXES[form]
    arrays = {wanted + name.removeprefix(old): array for name, array in mx.load(file).items()}
    eyes = "model.vision_tower." if form == "transformers 5" else "vision_tower."
    arrays[f"{eyes}vision_model.embeddings.position_embedding.weight"] = mx.zeros((4, 8))
    arrays["multi_modal_projector.mm_soft_emb_norm.weight"] = mx.zeros((8,))
    mx.save_safetensors(file, arrays)
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-5


@pytest.fixture(scope="module")
def plain(made):
    @cache
    def get(name, way):
        model, options = made(name)[1].parts.model, WAYS[way]
        return run(model, PROMPT, NoDraft(), 0, options=options, max_tokens=3 * WINDOW).tokens

    return get


@pytest.mark.parametrize(
    ("name", "depth", "way"),
    [
        (name, depth, way)
        for depths, way in (((3, 1, 8), "greedy"), ((8, 3, 1), "hot"))
        for name, depth in zip(DRAFTED, cycle(depths), strict=False)
    ],
)
def test_drafts_keep_the_words(made, plain, name, depth, way):
    """Every number of accepted tokens occurs, before and after the windows have filled."""
    model, truth = made(name)[1].parts.model, plain(name, way)
    right = cycle([*range(depth + 1)])
    source = DialledDraft([*PROMPT, *truth], right, VOCABULARY)
    ran = run(model, PROMPT, source, depth, options=WAYS[way], max_tokens=3 * WINDOW)
    assert ran.tokens == truth
    assert 0 < ran.stats.accepted < ran.stats.drafted


KERNELLED = {
    "llama, biases": {"head_dim": 64},
    "mixtral, window": {"head_dim": 64},
    "gemma3_text": {"head_dim": 64},
    "gpt_oss": {"head_dim": 64},
    "phi3": {"hidden_size": 256},
    "glm4": {"head_dim": 64},
    "cohere, normed": {"hidden_size": 256},
}
"""Heads of sizes that the kernels take."""


@pytest.mark.parametrize("name", KERNELLED)
def test_kernels_keep_the_numbers(tmp_path, name):
    case, options = CASES[name], LoadOptions(check_heads=False)
    tiny = publish(case.kind, tmp_path / "m", changes={**case.changes, **KERNELLED[name]})
    kernels = every_kernel(EmulatorLauncher(check=False))
    engine = Engine(load_model(tiny.folder, options, tiny.folder, kernels=kernels), options)
    tokens = tiny.tokens[: WINDOW + 3]
    assert relative(row_by_row(engine.parts.model, tokens), tiny.logits[: len(tokens)]) < 1e-4
    told = {state.name: state for state in engine.description.kernels}
    assert told["products"].is_in_use
    assert told["attention"].is_in_use
    engine.close()


def test_a_text_that_is_cut_back_is_short_again(made):
    """As after an edit; behind the border and far behind it, where the short memory is gone."""
    tiny, engine = made("phi3, outgrown")
    model = engine.parts.model
    tokens = [*tiny.tokens, *tiny.tokens, *tiny.tokens]
    for longest in (TRAINED + 3, len(tokens)):
        caches = model.make_caches()
        model.forward(mx.array([tokens[:5]]), caches)
        caches.commit(5)
        early = caches.snapshot()
        for start in range(5, longest, 9):
            model.forward(mx.array([tokens[start : start + 9]]), caches)
            caches.commit(len(tokens[start : start + 9]))
        assert_layers_in_step(caches)
        caches.restore(early)
        again = model.forward(mx.array([tiny.tokens[5:]]), caches)
        assert np.array_equal(model.logits(again)[0], engine.logits(tiny.tokens)[5:])


def test_each_conversation_of_a_pass_has_positions_of_its_own(made):
    """Learned ones, which are added before the first layer."""
    model, alone = made("gpt_bigcode")[1].parts.model, []
    conversations, texts = [model.make_caches(), model.make_caches()], [PROMPT, PROMPT[:4]]
    for caches, text in zip(conversations, texts, strict=True):
        model.forward(mx.array([text]), caches)
        caches.commit(len(text))
        alone.append(np.array(model.forward(mx.array([[7]]), caches)))
        caches.commit(0)
    together = model.forward(mx.array([[7, 7]]), combine_caches(conversations, [1, 1]))
    assert np.allclose(np.array(together), np.concatenate(alone, axis=1), atol=1e-5)


def test_masks_stored_as_tensors_are_left_out(made, tmp_path):
    """As Pythia's files have them."""
    tiny = made("gpt_neox")[0]
    folder = shutil.copytree(tiny.folder, tmp_path / "m")
    within = "gpt_neox.layers.0.attention"
    masks = {f"{within}.bias": mx.ones((1, 1, 8, 8)), f"{within}.masked_bias": mx.array(-1e9)}
    edit_tensors(folder, lambda arrays: arrays | masks)
    assert np.array_equal(logits(folder, tiny.tokens), made("gpt_neox")[1].logits(tiny.tokens))


def test_nanochat_as_mlx_has_it(made, tmp_path):
    tiny = made("nanochat")[0]
    folder = shutil.copytree(tiny.folder, tmp_path / "m")
    names = {
        "model.embed_tokens.": "transformer.wte.",
        "model.layers.": "transformer.h.",
        ".self_attn.o_proj.": ".attn.c_proj.",
        **{f".self_attn.{part}_proj.": f".attn.c_{part}." for part in "qkv"},
        ".mlp.fc1.": ".mlp.c_fc.",
        ".mlp.fc2.": ".mlp.c_proj.",
    }

    def rename_tensor(name):
        for old, new in names.items():
            name = name.replace(old, new)
        return name

    edit_tensors(folder, lambda arrays: {rename_tensor(name): a for name, a in arrays.items()})
    assert np.array_equal(logits(folder, tiny.tokens), made("nanochat")[1].logits(tiny.tokens))
    module = import_module("mlx_lm.models.nanochat")
    stock = module.Model(
        module.ModelArgs.from_dict(json.loads((folder / "config.json").read_text()))
    )
    stock.load_weights(str(folder / "model.safetensors"))
    assert relative(np.array(stock(mx.array([tiny.tokens]))[0]), tiny.logits) < 1e-5
