"""What llama.cpp's converter writes of a config.json into the metadata of a GGUF."""

import math
from collections.abc import Mapping
from statistics import NormalDist

import numpy as np

Config = Mapping[str, object]
_SIZES = {
    "block_count": (),
    "context_length": ("max_position_embeddings", "model_max_length"),
    "embedding_length": ("hidden_size",),
    "feed_forward_length": ("intermediate_size",),
    "attention.head_count": ("num_attention_heads",),
    "attention.head_count_kv": ("num_key_value_heads",),
    "expert_count": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "expert_used_count": ("num_experts_per_tok", "moe_top_k", "moe_k", "num_experts_per_token"),
    "expert_group_count": ("n_group", "num_expert_group"),
    "expert_group_used_count": ("topk_group",),
    "expert_shared_count": ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts"),
    "expert_weights_scale": (
        "routed_scaling_factor",
        "moe_router_scaling_factor",
        "router_scaling_factor",
    ),
    "attention.layer_norm_rms_epsilon": ("rms_norm_eps", "layernorm_epsilon"),
    "attention.key_length": ("head_dim",),
    "attention.value_length": ("v_head_dim", "head_dim"),
}
_NORMED = ("glm4moe", "dots1", "exaone-moe", "bailingmoe2", "deepseek2", "step35")
_NORMED += ("deepseek32", "glm-dsa", "bailingmoe3", "hyv4", "glm5-next")
_NORM = ("norm_topk_prob", "norm_expert_weight", "moe_renormalize")


def converted_metadata(architecture: str, config: Config, blocks: int) -> dict[str, object]:
    """All but the tokenizer's."""
    found: dict[str, object] = {}
    for key, names in _SIZES.items():
        values = (config[name] for name in names if config.get(name) is not None)
        found[key] = next(values, None)
    found["block_count"] = blocks
    kinds = config.get("layers_block_type")
    heads = blocks - config.get("num_hidden_layers", len(kinds) if kinds else blocks)
    if heads:
        found["nextn_predict_layers"] = heads
    if any(config.get(key) for key in _NORM) and architecture in _NORMED:
        found["expert_weights_norm"] = True
    rope = config.get("rope_parameters") or {}
    found |= _rope(rope.get("full_attention", rope))
    if "sliding_attention" in rope:
        found["rope.freq_base_swa"] = float(rope["sliding_attention"]["rope_theta"])
    found |= _OWN.get(architecture, lambda config: {})(config)
    named = {f"{architecture}.{key}": v for key, v in found.items() if v is not None}
    return named | {"general.architecture": architecture}


def _rope(rope: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {"rope.freq_base": float(rope.get("rope_theta", 1e4))}
    kind = rope.get("rope_type")
    if kind not in ("linear", "yarn"):
        return found
    found |= {"rope.scaling.type": kind, "rope.scaling.factor": float(rope["factor"])}
    if kind == "yarn":
        found["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
        found["rope.scaling.yarn_beta_fast"] = float(rope["beta_fast"])
        found["rope.scaling.yarn_beta_slow"] = float(rope["beta_slow"])
    if "mscale_all_dim" in rope:
        found["rope.scaling.yarn_log_multiplier"] = 0.1 * rope["mscale_all_dim"]
    return found


def _llama(config: Config) -> dict[str, object]:
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return {"rope.dimension_count": size}


def _gemma3(config: Config) -> dict[str, object]:
    return {"attention.sliding_window": config["sliding_window"]}


def _mostly_windowed(config: Config) -> dict[str, object]:
    """Of OLMo and EXAONE 4."""
    if not config.get("sliding_window"):
        return {}
    windowed = [kind == "sliding_attention" for kind in config["layer_types"]]
    return {
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": np.array(windowed),
    }


def _ministral3(config: Config) -> dict[str, object]:
    rope = config["rope_parameters"]
    if "llama_4_scaling_beta" not in rope:
        return _llama(config)
    return _llama(config) | {
        "rope.scaling.yarn_log_multiplier": rope["mscale_all_dim"],
        "attention.temperature_scale": rope["llama_4_scaling_beta"],
    }


def _granite(config: Config) -> dict[str, object]:
    return _llama(config) | {
        "attention.scale": config["attention_multiplier"],
        "embedding_scale": config["embedding_multiplier"],
        "logit_scale": config["logits_scaling"],
        "residual_scale": config["residual_multiplier"],
    }


def _gemma2(config: Config) -> dict[str, object]:
    return {
        "attention.sliding_window": config["sliding_window"],
        "attn_logit_softcapping": config["attn_logit_softcapping"],
        "final_logit_softcapping": config["final_logit_softcapping"],
    }


def _cohere(config: Config) -> dict[str, object]:
    return {
        "attention.layer_norm_epsilon": config["layer_norm_eps"],
        "attention.sliding_window": config.get("sliding_window"),
        "logit_scale": config["logit_scale"],
    }


def _lfm2(config: Config) -> dict[str, object]:
    kept = [config["num_key_value_heads"] * (kind != "conv") for kind in config["layer_types"]]
    return {
        "attention.head_count_kv": np.array(kept, np.int32),
        "attention.layer_norm_rms_epsilon": config["norm_eps"],
        "shortconv.l_cache": config["conv_L_cache"],
    }


def _lfm2_moe(config: Config) -> dict[str, object]:
    return _lfm2(config) | _inner(config) | {"expert_gating_func": 2}


def _gemma4(config: Config) -> dict[str, object]:
    layers, shared = config["num_hidden_layers"], config["num_kv_shared_layers"]
    windowed = [kind == "sliding_attention" for kind in config["layer_types"]]
    full = next(iter((config.get("per_layer_config") or {}).values()), config)
    kept = [one.get("num_key_value_heads", config["num_key_value_heads"]) for one in (full, config)]
    size, inner = full["head_dim"], config["intermediate_size"]
    wide = config["use_double_wide_mlp"]
    widths = [inner * (2 if wide and n >= layers - shared else 1) for n in range(layers)]
    return {
        "attention.head_count_kv": np.array([kept[one] for one in windowed], np.int32),
        "attention.key_length": size,
        "attention.value_length": size,
        "attention.key_length_swa": config["head_dim"],
        "attention.shared_kv_layers": shared,
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": np.array(windowed),
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
        "feed_forward_length": np.array(widths, np.int32),
        "final_logit_softcapping": config["final_logit_softcapping"],
        "expert_feed_forward_length": config.get("moe_intermediate_size"),
        "expert_used_count": config.get("top_k_experts"),
        "rope.dimension_count": size,
    }


def _mamba2(config: Config) -> dict[str, object]:
    """Of Granite 4 and Nemotron-H, whose other layers have no key heads."""
    heads = config.get("mamba_n_heads") or config["mamba_num_heads"]
    size = config.get("mamba_d_head") or config["mamba_head_dim"]
    kinds = config.get("layers_block_type") or config["layer_types"]
    kinds = [*kinds, *["attention"] * config.get("num_nextn_predict_layers", 0)]
    attends = [kind in ("attention", "full_attention") for kind in kinds]
    kept = [config["num_key_value_heads"] * does for does in attends]
    return {
        "attention.head_count_kv": np.array(kept, np.int32),
        "ssm.conv_kernel": config.get("mamba_d_conv") or config["conv_kernel"],
        "ssm.state_size": config.get("mamba_d_state") or config["ssm_state_size"],
        "ssm.group_count": config.get("mamba_n_groups") or config["n_groups"],
        "ssm.inner_size": heads * size,
        "ssm.time_step_rank": heads,
    }


def _falcon_h1(config: Config) -> dict[str, object]:
    return {
        "ssm.conv_kernel": config["mamba_d_conv"],
        "ssm.state_size": config["mamba_d_state"],
        "ssm.group_count": config["mamba_n_groups"],
        "ssm.inner_size": config["mamba_d_ssm"],
        "ssm.time_step_rank": config["mamba_n_heads"],
    }


def _layer_normed(config: Config) -> dict[str, object]:
    """Of Phi-2, StableLM, StarCoder 2 and Nemotron."""
    eps = next(
        config[key] for key in ("layer_norm_eps", "norm_eps", "norm_epsilon") if key in config
    )
    size = config["hidden_size"] // config["num_attention_heads"]
    share = config["rope_parameters"].get("partial_rotary_factor", 1.0)
    return {"attention.layer_norm_epsilon": eps, "rope.dimension_count": int(size * share)}


def _hunyuan_moe(config: Config) -> dict[str, object]:
    return {
        "expert_feed_forward_length": config["moe_intermediate_size"][0],
        "expert_used_count": config["moe_topk"][0],
        "expert_shared_count": config["num_shared_expert"][0],
    }


def _gemma3n(config: Config) -> dict[str, object]:
    windowed = [kind == "sliding_attention" for kind in config["layer_types"]]
    cuts = [NormalDist().inv_cdf(one) if one else -math.inf
            for one in config["activation_sparsity_pattern"]]  # fmt: skip
    return {
        "activation_sparsity_scale": np.array(cuts, np.float32),
        "altup.active_idx": config["altup_active_idx"],
        "altup.num_inputs": config["altup_num_inputs"],
        "attention.shared_kv_layers": config["num_kv_shared_layers"],
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": np.array(windowed),
        "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
        "feed_forward_length": np.array(config["intermediate_size"], np.int32),
        "final_logit_softcapping": config["final_logit_softcapping"],
    }


def _granite_hybrid(config: Config) -> dict[str, object]:
    shared = {"expert_shared_feed_forward_length": config["shared_intermediate_size"]}
    return _granite(config) | _mamba2(config) | shared


def _nemotron_h(config: Config) -> dict[str, object]:
    return _mamba2(config) | {
        "attention.layer_norm_rms_epsilon": config["layer_norm_epsilon"],
        "expert_feed_forward_length": config["moe_intermediate_size"],
        "expert_shared_feed_forward_length": config["moe_shared_expert_intermediate_size"],
        "expert_weights_norm": config["norm_topk_prob"],
    }


def _dots1(config: Config) -> dict[str, object]:
    return _inner(config) | {"leading_dense_block_count": config["first_k_dense_replace"]}


def _exaone_moe(config: Config) -> dict[str, object]:
    return _dots1(config) | _mostly_windowed(config) | {"expert_gating_func": 2}


def _hy_v3(config: Config) -> dict[str, object]:
    return _inner(config) | {
        "rope.dimension_count": config["head_dim"],
        "expert_shared_feed_forward_length": config["moe_intermediate_size"],
        "expert_gating_func": 2,
        "expert_weights_norm": True,
    }


def _gpt_oss(config: Config) -> dict[str, object]:
    return {
        "attention.sliding_window": config["sliding_window"],
        "expert_feed_forward_length": config["intermediate_size"],
    }


def _inner(config: Config) -> dict[str, object]:
    return {"expert_feed_forward_length": config["moe_intermediate_size"]}


def _glm4_moe(config: Config) -> dict[str, object]:
    rope = config["rope_parameters"]
    return _inner(config) | {
        "rope.dimension_count": int(config["head_dim"] * rope.get("partial_rotary_factor", 0.5)),
        "leading_dense_block_count": config["first_k_dense_replace"],
        "expert_gating_func": 2,
    }


def _deepseek2(config: Config) -> dict[str, object]:
    rank, rotated = config["kv_lora_rank"], config["qk_rope_head_dim"]
    unsaid = config["model_type"] in ("glm4_moe_lite", "deepseek_v2")
    return _inner(config) | {
        "attention.head_count_kv": 1,
        "leading_dense_block_count": config.get("first_k_dense_replace", 0),
        "attention.q_lora_rank": config["q_lora_rank"],
        "attention.kv_lora_rank": rank,
        "attention.key_length": rank + rotated,
        "attention.value_length": rank,
        "attention.key_length_mla": config["qk_nope_head_dim"] + rotated,
        "attention.value_length_mla": config["v_head_dim"],
        "expert_gating_func": None if unsaid else 2,
        "rope.dimension_count": rotated,
    }


def _indexed(config: Config) -> dict[str, object]:
    kinds = config.get("indexer_types")
    types = None if kinds is None else np.array([kind == "full" for kind in kinds])
    return _deepseek2(config) | {
        "attention.indexer.head_count": config["index_n_heads"],
        "attention.indexer.key_length": config["index_head_dim"],
        "attention.indexer.top_k": config["index_topk"],
        "attention.indexer.types": types,
    }


def _hy4(config: Config) -> dict[str, object]:
    """HYV4Model."""
    return _indexed(config) | {
        "expert_group_count": None,
        "expert_group_used_count": None,
        "leading_dense_block_count": config["mlp_layer_types"].index("sparse"),
        "hyper_connection.count": config["hc_mult"],
        "hyper_connection.epsilon": config["hc_eps"],
        "hyper_connection.magnitude": config["hc_magnitude"],
        "swiglu_clamp_exp": np.full(config["num_hidden_layers"], config["swiglu_limit"]),
    }


def _deepseek4(config: Config) -> dict[str, object]:
    """DeepseekV4Model."""
    layers = config["num_hidden_layers"]
    ratios, limit = config["compress_ratios"], config["swiglu_limit"]
    scaling = config.get("rope_scaling") or {}
    return _rope({"rope_type": scaling.get("type"), **scaling}) | {
        "rope.freq_base": config["rope_theta"],
        "rope.dimension_count": config["qk_rope_head_dim"],
        "expert_gating_func": 4,
        "expert_weights_norm": True,
        "expert_feed_forward_length": config["moe_intermediate_size"],
        "swiglu_clamp_exp": np.full(layers, limit),
        "swiglu_clamp_shexp": np.full(layers, limit),
        "hash_layer_count": config["num_hash_layers"],
        "attention.q_lora_rank": config["q_lora_rank"],
        "attention.sliding_window": config["sliding_window"],
        "attention.output_group_count": config["o_groups"],
        "attention.output_lora_rank": config["o_lora_rank"],
        "attention.compress_ratios": np.array(ratios, np.int32),
        "attention.compress_rope_freq_base": config["compress_rope_theta"],
        "attention.indexer.head_count": config["index_n_heads"],
        "attention.indexer.key_length": config["index_head_dim"],
        "attention.indexer.top_k": config["index_topk"],
        "hyper_connection.count": config["hc_mult"],
        "hyper_connection.sinkhorn_iterations": config["hc_sinkhorn_iters"],
        "hyper_connection.epsilon": config["hc_eps"],
    }


def _kimi_linear(config: Config) -> dict[str, object]:
    """KimiLinearModel."""
    rank, rotated = config["kv_lora_rank"], config["qk_rope_head_dim"]
    full = [kind == "full_attention" for kind in config["layer_types"]]
    return _inner(config) | {
        "attention.head_count_kv": np.array(full, np.int32),
        "ssm.conv_kernel": config["linear_conv_kernel_dim"],
        "kda.head_dim": config["linear_head_dim"],
        "attention.kv_lora_rank": rank,
        "rope.dimension_count": rotated,
        "attention.key_length": rank + rotated,
        "attention.key_length_mla": config["qk_nope_head_dim"] + rotated,
        "attention.value_length_mla": config["v_head_dim"],
        "expert_gating_func": 2,
    }


def _glm5_next(config: Config) -> dict[str, object]:
    """Glm5NextModel."""
    kinds = ["full_attention" if "linear" not in kind else kind for kind in config["layer_types"]]
    count = config["num_hidden_layers"] + 1
    limits = np.full(count, config["swiglu_limit"])
    return (
        _indexed(config | {"indexer_types": config["indexer_types"] or ["full"] * len(kinds)})
        | _kimi_linear(config | {"layer_types": kinds})
        | {
            "kda.gate_lower_bound": config["linear_lower_bound"],
            "attention.indexer.kpool": config["index_kpool"],
            "attention.indexer.kpool_select_tail": True,
            "hyper_connection.count": config["hc_mult"],
            "hyper_connection.sinkhorn_iterations": config["hc_sinkhorn_iters"],
            "hyper_connection.epsilon": config["hc_eps"],
            "swiglu_clamp_exp": limits,
            "swiglu_clamp_shexp": limits,
        }
    )


def _ling_3(config: Config) -> dict[str, object]:
    """BailingMoeV3Model."""
    layers, group = config["num_hidden_layers"], config["layer_group_size"]
    whole, rank = layers // group * group, config["kv_lora_rank"]
    full = [(n + 1) % group == 0 or n >= whole for n in range(layers)]
    listed = config.get("layer_types")
    full = [kind == "full_attention" for kind in listed] if listed else full
    heads = config["num_nextn_predict_layers"]
    inner = config["moe_intermediate_size"]

    def limits(name: str) -> object:
        found = config.get(name)
        return None if found is None else np.array([*found, *[0] * heads], np.float32)

    return _inner(config) | {
        "attention.head_count_kv": np.array([*full, *[True] * heads], np.int32),
        "ssm.conv_kernel": config["short_conv_kernel_size"],
        "kda.head_dim": config.get("linear_head_dim") or config["head_dim"],
        "kda.safe_gate": config["kda_safe_gate"],
        "kda.gate_lower_bound": config["kda_lower_bound"],
        "attention.q_lora_rank": config.get("q_lora_rank"),
        "attention.kv_lora_rank": rank,
        "rope.dimension_count": config["qk_rope_head_dim"],
        "attention.key_length": rank + config["qk_rope_head_dim"],
        "attention.key_length_mla": config["qk_nope_head_dim"] + config["qk_rope_head_dim"],
        "attention.value_length_mla": config["v_head_dim"],
        "expert_shared_feed_forward_length": config.get(
            "moe_shared_expert_intermediate_size", inner
        ),
        "leading_dense_block_count": config["first_k_dense_replace"],
        "expert_gating_func": 2,
        "swiglu_clamp_exp": limits("expert_swiglu_limit_list"),
        "swiglu_clamp_shexp": limits("share_expert_swiglu_limit_list"),
    }


def _mimo2(config: Config) -> dict[str, object]:
    heads = 3
    windowed = [*config["hybrid_layer_pattern"], *[1] * heads]
    kept = [
        config["swa_num_key_value_heads"] if one else config["num_key_value_heads"]
        for one in windowed
    ]
    return _inner(config) | {
        "attention.head_count_kv": np.array(kept, np.int32),
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": np.array(windowed, np.int32),
        "attention.value_scale": config["attention_value_scale"],
        "rope.dimension_count": int(config["head_dim"] * config["partial_rotary_factor"]),
        "rope.freq_base": float(config["rope_theta"]),
        "rope.freq_base_swa": float(config["swa_rope_theta"]),
    }


def _step35(config: Config) -> dict[str, object]:
    kinds, other = config["layer_types"], config["attention_other_setting"]
    windowed = np.array([kind == "sliding_attention" for kind in kinds])
    heads = [config["num_attention_heads"], other["num_attention_heads"]]
    kept = [config["num_attention_groups"], other["num_attention_groups"]]
    clamps = {
        "swiglu_clamp_exp": config["swiglu_limits"],
        "swiglu_clamp_shexp": config["swiglu_limits_shared"],
    }
    return _inner(config) | {
        "attention.head_count": np.where(windowed, heads[1], heads[0]).astype(np.int32),
        "attention.head_count_kv": np.where(windowed, kept[1], kept[0]).astype(np.int32),
        "attention.sliding_window": config["sliding_window"],
        "attention.sliding_window_pattern": windowed,
        "expert_shared_feed_forward_length": config["share_expert_dim"],
        "rope.freq_base": float(config["rope_theta"][0]),
        "rope.freq_base_swa": float(config["rope_theta"][1]),
        **{key: np.array(values, np.float32) for key, values in clamps.items()},
    }


def _phi3(config: Config) -> dict[str, object]:
    rope = config["rope_parameters"]
    size = config["hidden_size"] // config["num_attention_heads"]
    longest = config["max_position_embeddings"]
    trained = rope.get("original_max_position_embeddings", longest)
    own = {
        "rope.dimension_count": int(size * rope.get("partial_rotary_factor", 1.0)),
        "rope.scaling.original_context_length": trained,
        "attention.sliding_window": config.get("sliding_window") or 0,
    }
    if "long_factor" in rope:
        own["rope.scaling.attn_factor"] = math.sqrt(1 + math.log(longest / trained, trained))
    return own


def _glm4(config: Config) -> dict[str, object]:
    rope = config["rope_parameters"]
    own = {"rope.dimension_count": int(config["head_dim"] * rope["partial_rotary_factor"])}
    if "mrope_section" in rope:
        own["rope.dimension_sections"] = np.array([*rope["mrope_section"], 0], np.int32)
    return own


def _ernie(config: Config) -> dict[str, object]:
    return _inner(config) | {
        "interleave_moe_layer_step": config["moe_layer_interval"],
        "leading_dense_block_count": config["moe_layer_start_index"],
    }


def _minimax(config: Config) -> dict[str, object]:
    rotated = config["head_dim"] * config["rope_parameters"]["partial_rotary_factor"]
    return {
        "rope.dimension_count": int(rotated),
        "expert_feed_forward_length": config["intermediate_size"],
        "expert_gating_func": 2,
    }


def _minimax_m3(config: Config) -> dict[str, object]:
    """MiniMaxM3Model."""
    sparse = config["sparse_attention_config"]
    return _minimax(config) | {
        "feed_forward_length": config["dense_intermediate_size"],
        "expert_shared_count": config["shared_intermediate_size"] // config["intermediate_size"],
        "expert_weights_norm": True,
        "leading_dense_block_count": config["moe_layer_freq"].index(1),
        "attention.indexer.head_count": sparse["sparse_num_index_heads"],
        "attention.indexer.key_length": sparse["sparse_index_dim"],
        "attention.indexer.top_k": sparse["sparse_topk_blocks"],
        "attention.indexer.block_size": sparse["sparse_block_size"],
        "attention.indexer.local_blocks": sparse["sparse_local_block"],
    }


def _qwen35(config: Config) -> dict[str, object]:
    """Of an attention layer's head a share is rotated, told where the family has it."""
    rope = config.get("rope_parameters", config)
    heads = config["linear_num_value_heads"]
    own = {
        "rope.dimension_count": int(config["head_dim"] * rope["partial_rotary_factor"]),
        "ssm.conv_kernel": config["linear_conv_kernel_dim"],
        "ssm.state_size": config["linear_key_head_dim"],
        "ssm.group_count": config["linear_num_key_heads"],
        "ssm.time_step_rank": heads,
        "ssm.inner_size": heads * config["linear_value_head_dim"],
        "full_attention_interval": config["full_attention_interval"],
        "expert_shared_feed_forward_length": config.get("shared_expert_intermediate_size"),
    }
    return own | _inner(config) if "num_experts" in config else own


_OWN = {
    "qwen35": _qwen35,
    "qwen35moe": _qwen35,
    "qwen3next": _qwen35,
    "llama": _llama,
    "xverse": _llama,
    "internlm2": _llama,
    "smollm3": _llama,
    "mistral3": _ministral3,
    "granite": _granite,
    "minicpm": _granite,
    "olmo2": _mostly_windowed,
    "exaone4": _mostly_windowed,
    "command-r": _cohere,
    "cohere2": _cohere,
    "granitemoe": _granite,
    "falcon-h1": _falcon_h1,
    **dict.fromkeys(("phi2", "stablelm", "starcoder2", "nemotron"), _layer_normed),
    "hunyuan-moe": _hunyuan_moe,
    "gemma3n": _gemma3n,
    "lfm2": _lfm2,
    "lfm2moe": _lfm2_moe,
    "gemma4": _gemma4,
    "granitehybrid": _granite_hybrid,
    "nemotron_h_moe": _nemotron_h,
    "dots1": _dots1,
    "exaone-moe": _exaone_moe,
    "hy_v3": _hy_v3,
    "bailingmoe2": _glm4_moe,
    "bailingmoe3": _ling_3,
    "kimi-linear": _kimi_linear,
    "qwen3vlmoe": _inner,
    "qwen2moe": _inner,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gpt-oss": _gpt_oss,
    "phi3": _phi3,
    "glm4": _glm4,
    "chatglm": _glm4,
    "ernie4_5-moe": _ernie,
    "minimax-m2": _minimax,
    "minimax-m3": _minimax_m3,
    "qwen3moe": _inner,
    "glm4moe": _glm4_moe,
    "deepseek2": _deepseek2,
    "deepseek32": _indexed,
    "glm-dsa": _indexed,
    "hyv4": _hy4,
    "deepseek4": _deepseek4,
    "glm5-next": _glm5_next,
    "mimo2": _mimo2,
    "step35": _step35,
}
