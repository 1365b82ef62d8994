"""What is known of configs by model type; a test holds the tables against transformers' classes."""

Fields = dict[str, object]

_LONG: Fields = {"max_position_embeddings": 131072}
_SHORT: Fields = {"max_position_embeddings": 2048}
_QWEN: Fields = {"max_position_embeddings": 32768}
_QWEN_VL: Fields = _QWEN | {"rms_norm_eps": 1e-5, "rope_theta": 1e6, "max_window_layers": 80}
_ERNIE: Fields = _LONG | {"rope_theta": 5e5, "rms_norm_eps": 1e-5}
_GLM: Fields = _LONG | {"rms_norm_eps": 1.5625e-7, "head_dim": 128}
_GLM_MOE: Fields = _LONG | {"rms_norm_eps": 1e-5, "first_k_dense_replace": 1, "n_shared_experts": 1}
_LFM2: Fields = {"rope_theta": 1e6, "max_position_embeddings": 128000}
_COHERE: Fields = {"max_position_embeddings": 8192, "tie_word_embeddings": True}

FIXED: dict[str, Fields] = {
    **{kind: {"hidden_act": "silu"} for kind in ("qwen3_5", "qwen3_5_moe", "qwen3_next")},
    "smollm3": {"use_sliding_window": False},
    "gemma": {"use_bidirectional_attention": False},
    **{kind: {"use_bidirectional_attention": "vision"} for kind in ("gemma4", "gemma4_unified")},
    "hy_v3": {"mlp_bias": False},
    "nanochat": {"tie_word_embeddings": False},
    "afmoe": {
        **{"attention_bias": False, "score_func": "sigmoid", "route_norm": True},
        **{"n_group": 1, "topk_group": 1},
    },
    **{kind: {"hidden_act": "silu"} for kind in ("granitemoehybrid", "falcon_h1")},
    "deepseek_v2": {"mlp_bias": False},
    **{kind: {"add_cross_attention": False} for kind in ("gpt2", "gpt_bigcode")},
}
"""Fields that change the result and that a family does not read -> the one value it runs."""

LEFT_OUT: dict[str, Fields] = {
    "llama": _SHORT,
    "iquestcoder": _LONG | {"rms_norm_eps": 1e-5, "head_dim": 128},
    "mistral": _LONG,
    "ministral": _LONG,
    "ministral3": {
        "head_dim": 128,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 262144,
    },
    "mixtral": _LONG | {"rope_theta": 1e6, "rms_norm_eps": 1e-5},
    "seed_oss": {
        "attention_bias": True,
        "attention_out_bias": False,
        "head_dim": 128,
        "max_position_embeddings": 524288,
    },
    "smollm3": {
        "rope_theta": 2e6,
        "no_rope_layer_interval": 4,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
    },
    "granite": _SHORT,
    "qwen2": _QWEN,
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), _QWEN_VL),
    "qwen2_moe": _QWEN | {"num_experts_per_tok": 4, "moe_intermediate_size": 1408},
    "qwen3": _QWEN | {"head_dim": 128},
    "qwen3_vl": {"head_dim": 128, "max_position_embeddings": 128000, "rope_theta": 5e5},
    "qwen3_moe": _QWEN,
    "qwen3_vl_moe": {
        "max_position_embeddings": 128000,
        "rope_theta": 5e5,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
    },
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen3_next"), _QWEN),
    "mellum": _LONG | {"head_dim": 128, "rope_theta": 5e5, "norm_topk_prob": True},
    "exaone4": _SHORT | {"rms_norm_eps": 1e-5},
    "exaone4_5": _SHORT | {"rms_norm_eps": 1e-5},
    "exaone_moe": _SHORT | {"rms_norm_eps": 1e-5, "routed_scaling_factor": 2.5},
    "olmo2": _SHORT | {"rms_norm_eps": 1e-5},
    "olmo3": _SHORT | {"rms_norm_eps": 1e-5, "rope_theta": 5e5},
    "phi3": {"rms_norm_eps": 1e-5, "original_max_position_embeddings": 4096},
    "glm": _GLM,
    "glm4": _GLM,
    "glm4v": _QWEN | {"rms_norm_eps": 1e-5},
    "glm4_moe": _GLM_MOE,
    "glm4v_moe": _GLM_MOE | {"max_position_embeddings": 65536, "attention_bias": True},
    "dots1": _SHORT | {"norm_topk_prob": False},
    "solar_open": _LONG
    | {
        "head_dim": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
    },
    "hy_v3": _LONG
    | {
        "head_dim": 128,
        "rope_theta": 11158840.0,
        "rms_norm_eps": 1e-5,
        "first_k_dense_replace": 1,
    },
    "deepseek_v2": _SHORT | {"norm_topk_prob": False},
    "deepseek_v3": {
        "first_k_dense_replace": 3,
        "n_shared_experts": 1,
        "routed_scaling_factor": 2.5,
        "n_group": 8,
        "topk_group": 4,
    },
    "glm4_moe_lite": {
        "first_k_dense_replace": 1,
        "n_shared_experts": 1,
        "routed_scaling_factor": 1.8,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 202752,
    },
    "youtu": _LONG,
    "mimo_v2_flash": _LONG | {"sliding_window": 129},
    "ernie4_5": _ERNIE | {"head_dim": 128},
    "ernie4_5_moe": _ERNIE,
    "minimax_m2": {"rope_theta": 5e6, "max_position_embeddings": 196608},
    "minimax": {"rope_theta": 5e6, "max_position_embeddings": 196608},
    "olmoe": {"rms_norm_eps": 1e-5},
    "nanochat": _SHORT,
    "afmoe": {
        "head_dim": 128,
        "rms_norm_eps": 1e-5,
        "sliding_window": 1024,
        "max_position_embeddings": 16384,
    },
    **dict.fromkeys(("lfm2", "lfm2_moe"), _LFM2),
    **dict.fromkeys(("granitemoe", "granitemoeshared"), _SHORT),
    "granitemoehybrid": _SHORT | {"shared_intermediate_size": 1024},
    "falcon_h1": {"rms_norm_eps": 1e-5, "max_position_embeddings": 8192},
    "cohere": _COHERE | {"rope_theta": 5e5},
    "cohere2": _COHERE | {"sliding_window": 4096},
    "gemma4": _LONG | {"hidden_size_per_layer_input": 256},
    "gemma4_unified": {"max_position_embeddings": 262144, "sliding_window": 1024},
    "starcoder2": {"tie_word_embeddings": True},
    "phi": _SHORT,
    "gpt_neox": _SHORT,
}
"""What transformers takes where a config is silent, sizes aside; what most take, families know."""
