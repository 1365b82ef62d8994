"""Tiny random MiMo-V2 and Step-3.5 with three MTP heads each, as published."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tiny_published import VOCABULARY, WINDOW
from tiny_tokenizer import make_tiny_tokenizer

Floats = NDArray[np.float32]
Shape = tuple[int, ...]
HIDDEN, INNER, EXPERTS, HEAD, VALUE = 64, 96, 4, 32, 16

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "moe_intermediate_size": 32,
    "max_position_embeddings": 512,
    "head_dim": HEAD,
    "sliding_window": WINDOW,
    "tie_word_embeddings": False,
    "eos_token_id": 297,
    "num_attention_heads": 4,
}
MIMO = _SIZES | {
    "model_type": "mimo_v2_flash",
    "architectures": ["MiMoV2FlashForCausalLM"],
    "num_hidden_layers": 4,
    "num_key_value_heads": 1,
    "swa_num_key_value_heads": 2,
    "swa_num_attention_heads": 4,
    "v_head_dim": VALUE,
    "swa_head_dim": HEAD,
    "swa_v_head_dim": VALUE,
    "hybrid_layer_pattern": [0, 1, 1, 0],
    "moe_layer_freq": [0, 1, 1, 1],
    "add_swa_attention_sink_bias": True,
    "add_full_attention_sink_bias": False,
    "n_routed_experts": EXPERTS,
    "n_shared_experts": None,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": None,
    "layernorm_epsilon": 1e-5,
    "rope_theta": 5e6,
    "swa_rope_theta": 1e4,
    "partial_rotary_factor": 0.334,
    "attention_value_scale": 0.707,
}
STEP = _SIZES | {
    "model_type": "step3p5",
    "architectures": ["Step3p5ForCausalLM"],
    "num_hidden_layers": 4,
    "num_attention_groups": 2,
    "attention_other_setting": {"num_attention_heads": 6, "num_attention_groups": 3},
    "layer_types": ["full_attention", *["sliding_attention"] * 2, "full_attention"]
    + ["sliding_attention"] * 3,
    "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0],
    "rope_theta": [5e6, 1e4, 1e4, 5e6, 1e4, 1e4, 1e4],
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn_only_types": ["full_attention"],
    "num_nextn_predict_layers": 3,
    "moe_num_experts": EXPERTS,
    "moe_top_k": 2,
    "share_expert_dim": 32,
    "moe_layers_enum": "1,2,3",
    "moe_router_scaling_factor": 3.0,
    "norm_expert_weight": True,
    "use_head_wise_attn_gate": True,
    "swiglu_limits": [0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0],
    "swiglu_limits_shared": [0.0, 0.0, 0.0, 0.4, 0.0, 0.0, 0.0],
    "rms_norm_eps": 1e-5,
}


def publish_mimo(folder: Path, *, heads: bool = True) -> Path:
    shapes: dict[str, Shape] = {}
    for layer, windowed in enumerate(MIMO["hybrid_layer_pattern"]):
        name = f"model.layers.{layer}."
        shapes |= _mimo_attention(name, windowed=bool(windowed)) | {f"{name}{_NORM_2}": (HIDDEN,)}
        shapes |= _experts(f"{name}mlp.") if layer else _mlp(f"{name}mlp.", INNER)
    for head in range(3 if heads else 0):
        name = f"model.mtp.layers.{head}."
        shapes |= _mimo_attention(name, windowed=True) | _mlp(f"{name}mlp.", INNER)
        shapes |= _joint(name) | {f"{name}pre_mlp_layernorm.weight": (HIDDEN,)}
        shapes |= {f"{name}final_layernorm.weight": (HIDDEN,)}
    return _write(folder, MIMO, shapes)


def publish_step(folder: Path, *, heads: bool = True) -> Path:
    shapes: dict[str, Shape] = {}
    for layer, kind in enumerate(STEP["layer_types"][: 7 if heads else 4]):
        name = f"model.layers.{layer}."
        shapes |= _step_attention(name, windowed=kind == "sliding_attention")
        if 0 < layer < 4:
            shapes |= _stacks(f"{name}moe.") | _mlp(f"{name}share_expert.", 32)
        else:
            shapes |= _mlp(f"{name}mlp.", INNER)
        if layer >= 4:
            shapes |= _joint(name) | {
                f"{name}transformer.shared_head.norm.weight": (HIDDEN,),
                f"{name}transformer.shared_head.output.weight": (VOCABULARY, HIDDEN),
            }
    return _write(folder, STEP, shapes)


_NORM_2 = "post_attention_layernorm.weight"


def _joint(name: str) -> dict[str, Shape]:
    return {
        f"{name}eh_proj.weight": (HIDDEN, 2 * HIDDEN),
        f"{name}enorm.weight": (HIDDEN,),
        f"{name}hnorm.weight": (HIDDEN,),
    }


def _mimo_attention(name: str, *, windowed: bool) -> dict[str, Shape]:
    kept = MIMO["swa_num_key_value_heads" if windowed else "num_key_value_heads"]
    shapes: dict[str, Shape] = {
        f"{name}input_layernorm.weight": (HIDDEN,),
        f"{name}self_attn.q_proj.weight": (4 * HEAD, HIDDEN),
        f"{name}self_attn.k_proj.weight": (kept * HEAD, HIDDEN),
        f"{name}self_attn.v_proj.weight": (kept * VALUE, HIDDEN),
        f"{name}self_attn.o_proj.weight": (HIDDEN, 4 * VALUE),
    }
    return shapes | ({f"{name}self_attn.attention_sink_bias": (4,)} if windowed else {})


def _step_attention(name: str, *, windowed: bool) -> dict[str, Shape]:
    heads, kept = (6, 3) if windowed else (4, 2)
    return {
        f"{name}input_layernorm.weight": (HIDDEN,),
        f"{name}{_NORM_2}": (HIDDEN,),
        f"{name}self_attn.q_proj.weight": (heads * HEAD, HIDDEN),
        f"{name}self_attn.k_proj.weight": (kept * HEAD, HIDDEN),
        f"{name}self_attn.v_proj.weight": (kept * HEAD, HIDDEN),
        f"{name}self_attn.o_proj.weight": (HIDDEN, heads * HEAD),
        f"{name}self_attn.g_proj.weight": (heads, HIDDEN),
        f"{name}self_attn.q_norm.weight": (HEAD,),
        f"{name}self_attn.k_norm.weight": (HEAD,),
    }


def _mlp(name: str, inner: int) -> dict[str, Shape]:
    return {
        f"{name}gate_proj.weight": (inner, HIDDEN),
        f"{name}up_proj.weight": (inner, HIDDEN),
        f"{name}down_proj.weight": (HIDDEN, inner),
    }


def _experts(name: str) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {
        f"{name}gate.weight": (EXPERTS, HIDDEN),
        f"{name}gate.e_score_correction_bias": (EXPERTS,),
    }
    for expert in range(EXPERTS):
        shapes |= _mlp(f"{name}experts.{expert}.", 32)
    return shapes


def _stacks(name: str) -> dict[str, Shape]:
    stacked = {n: (EXPERTS, *shape) for n, shape in _mlp(name, 32).items()}
    return stacked | {f"{name}gate.weight": (EXPERTS, HIDDEN), f"{name}router_bias": (EXPERTS,)}


def _drawn(shapes: Mapping[str, Shape], seed: int, norms_around: float) -> dict[str, Floats]:
    """Matrices keep the size of what goes through them; norms and biases are moved visibly."""
    random = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes.items():
        value = random.standard_normal(shape).astype(np.float32)
        if len(shape) > 1:
            value *= shape[-1] ** -0.5
        else:
            value = 0.2 * value + ("norm" in name) * norms_around
        made[name] = value.astype(np.float32)
    return made


def _write(folder: Path, config: Mapping[str, object], shapes: Mapping[str, Shape]) -> Path:
    folder.mkdir(parents=True)
    around: dict[str, Shape] = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCABULARY, HIDDEN),
    }
    save_file(
        _drawn({**around, **shapes}, 3, 0.0 if config is STEP else 1.0),
        folder / "model.safetensors",
    )
    (folder / "config.json").write_text(json.dumps(config))
    make_tiny_tokenizer(folder, VOCABULARY)
    return folder
