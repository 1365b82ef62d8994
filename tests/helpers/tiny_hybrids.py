"""Tiny models whose layers differ from one another, for tiny_published.py."""

_EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}
_MAMBA2 = {"mamba_n_groups": 1, "mamba_d_state": 16, "mamba_n_heads": 8, "mamba_d_head": 16}
_PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
_SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 32,
}

HYBRIDS: dict[str, tuple[str, dict[str, object]]] = {
    "afmoe": (
        "Afmoe",
        {
            **_EXPERTS,
            "num_experts": 4,
            "num_shared_experts": 1,
            "head_dim": 16,
            "sliding_window": 8,
            "layer_types": _SLIDING,
        },
    ),
    "gpt2": ("GPT2", {"tie_word_embeddings": True}),
    "helium": ("Helium", {"head_dim": 16}),
    "laguna": (
        "Laguna",
        {
            **_EXPERTS,
            "num_experts": 4,
            "shared_expert_intermediate_size": 48,
            "head_dim": 16,
            "sliding_window": 8,
            "layer_types": _SLIDING,
            "rope_parameters": {
                "sliding_attention": _PLAIN,
                "full_attention": {
                    "rope_type": "yarn",
                    "rope_theta": 5e5,
                    "factor": 32.0,
                    "original_max_position_embeddings": 16,
                    "attention_factor": 1.0,
                    "partial_rotary_factor": 0.5,
                },
            },
        },
    ),
    "kimi_linear": (
        "KimiLinear",
        {
            **LATENT,
            **_EXPERTS,
            "q_lora_rank": None,
            "num_local_experts": 4,
            "n_shared_experts": 1,
            "linear_head_dim": 16,
            "linear_num_heads": 4,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        },
    ),
    "minicpm3": ("MiniCPM3", {**LATENT, "v_head_dim": 16}),
    "phi": ("Phi", {"rope_parameters": _PLAIN | {"partial_rotary_factor": 0.5}}),
    "phimoe": (
        "Phimoe",
        {
            "num_local_experts": 4,
            "attention_bias": True,
            "lm_head_bias": True,
            "original_max_position_embeddings": 16,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1.0 + 0.1 * step for step in range(8)],
                "long_factor": [1.5 + 0.5 * step for step in range(8)],
                "short_mscale": 1.1,
                "long_mscale": 1.3,
                "original_max_position_embeddings": 16,
            },
        },
    ),
    "llama4_text": (
        "Llama4",
        {
            "num_hidden_layers": 4,
            "head_dim": 16,
            "intermediate_size_mlp": 80,
            "attention_chunk_size": 64,
            "moe_layers": [],
            "rope_parameters": _PLAIN,
        },
    ),
    "nanochat": ("NanoChat", {"rms_norm_eps": 1e-5, "rope_parameters": _PLAIN}),
    "olmo_hybrid": (
        "OlmoHybrid",
        {
            "num_hidden_layers": 4,
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "rope_parameters": _PLAIN,
        },
    ),
    "youtu": ("Youtu", {**LATENT, "tie_word_embeddings": False, "rope_parameters": _PLAIN}),
    "starcoder2": ("Starcoder2", {"rope_parameters": _PLAIN, "sliding_window": 4096}),
    "stablelm": ("StableLm", {"rope_parameters": _PLAIN | {"partial_rotary_factor": 0.25}}),
    "nemotron": (
        "Nemotron",
        {"head_dim": 16, "rope_parameters": _PLAIN | {"partial_rotary_factor": 0.5}},
    ),
    "granitemoe": (
        "GraniteMoe",
        {
            "rope_parameters": _PLAIN,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "logits_scaling": 2.0,
            "residual_multiplier": 0.5,
        },
    ),
    "hunyuan_v1_moe": (
        "HunYuanMoEV1",
        {
            "head_dim": 16,
            "rope_parameters": _PLAIN,
            "num_experts": 4,
            "tie_word_embeddings": True,
            "moe_topk": [2, 2, 2],
            "moe_intermediate_size": [96, 96, 96],
            "num_shared_expert": [1, 1, 1],
        },
    ),
    "falcon_h1": (
        "FalconH1",
        {
            **_MAMBA2,
            "rope_parameters": _PLAIN,
            "mamba_d_ssm": 128,
            "head_dim": 16,
            "attention_in_multiplier": 0.9,
            "attention_out_multiplier": 0.8,
            "key_multiplier": 0.4,
            "ssm_in_multiplier": 1.2,
            "ssm_out_multiplier": 0.5,
            "ssm_multipliers": [0.3, 0.4, 0.5, 0.6, 0.7],
            "mlp_multipliers": [0.7, 0.6],
            "lm_head_multiplier": 0.3,
            "embedding_multiplier": 5.0,
        },
    ),
    "gemma3n_text": (
        "Gemma3n",
        {
            "head_dim": 16,
            "num_hidden_layers": 5,
            "layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"],
            "sliding_window": 8,
            "num_kv_shared_layers": 1,
            "hidden_size_per_layer_input": 32,
            "vocab_size_per_layer_input": 300,
            "laurel_rank": 8,
            "intermediate_size": [96] * 5,
            "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0, 0.0],
            "final_logit_softcapping": 3.0,
        },
    ),
    "lfm2_moe": (
        "Lfm2Moe",
        {
            **_EXPERTS,
            "num_experts": 4,
            "num_dense_layers": 1,
            "layer_types": ["conv", "full_attention", "conv"],
            "rope_parameters": _PLAIN,
        },
    ),
    "gemma4_text": (
        "Gemma4",
        {
            "num_hidden_layers": 6,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
            "sliding_window": 8,
            "head_dim": 16,
            "global_head_dim": 32,
            "hidden_size_per_layer_input": 16,
            "vocab_size_per_layer_input": 300,
            "num_kv_shared_layers": 2,
            "final_logit_softcapping": 3.0,
        },
    ),
    "granitemoehybrid": (
        "GraniteMoeHybrid",
        {
            **_MAMBA2,
            "layer_types": ["mamba", "attention", "mamba"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 96,
            "logits_scaling": 2.0,
            "residual_multiplier": 0.5,
        },
    ),
    "nemotron_h": (
        "NemotronH",
        {
            **_EXPERTS,
            "num_hidden_layers": 4,
            "layers_block_type": ["mamba", "attention", "mamba", "moe"],
            "mamba_num_heads": 8,
            "mamba_head_dim": 16,
            "ssm_state_size": 16,
            "n_groups": 2,
            "head_dim": 16,
            "n_routed_experts": 4,
            "moe_shared_expert_intermediate_size": 32,
            "routed_scaling_factor": 2.0,
            "time_step_min": 1e-9,  # transformers 5.23 clips at it, trained models do not (#48989)
        },
    ),
    "glm_moe_dsa": (
        "GlmMoeDsa",
        {
            **_EXPERTS,
            **LATENT,
            "n_routed_experts": 4,
            "index_n_heads": 4,
            "index_head_dim": 32,
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "first_k_dense_replace": 1,
        },
    ),
    "solar_open": ("SolarOpen", {**_EXPERTS, "head_dim": 16, "n_routed_experts": 4}),
}
"""model_type -> transformers' classes and what their config gets, as there."""
