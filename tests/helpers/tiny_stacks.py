"""Tiny random MiMo-7B, MiMo-V2-Flash and Step-3.5-Flash, as Hugging Face publishes them."""

import json
from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from tiny_tokenizer import make_tiny_tokenizer

Floats = NDArray[np.float32]
KINDS = ("mimo", "mimo_v2_flash", "step3p5")
HEADS = {"mimo": 1, "mimo_v2_flash": 3, "step3p5": 3}
VOCABULARY, HIDDEN, INNER, WINDOW, EXPERTS = 300, 64, 96, 8, 4

_COMMON = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
_FULL, _SLIDING = "full_attention", "sliding_attention"

CONFIGS: dict[str, dict[str, object]] = {
    "mimo": {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "attention_bias": True,
        "rms_norm_eps": 1e-5,
        "rope_theta": 640000,
        "rope_scaling": None,
        "sliding_window": 512,
        "use_sliding_window": False,
        "num_nextn_predict_layers": 1,
    },
    "mimo_v2_flash": {
        "num_hidden_layers": 4,
        "hybrid_layer_pattern": [0, 1, 1, 0],
        "moe_layer_freq": [0, 1, 1, 1],
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 24,
        "v_head_dim": 16,
        "swa_num_attention_heads": 8,
        "swa_num_key_value_heads": 4,
        "swa_head_dim": 24,
        "swa_v_head_dim": 16,
        "sliding_window": WINDOW,
        "sliding_window_size": WINDOW - 1,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "attention_value_scale": 0.707,
        "attention_bias": False,
        "partial_rotary_factor": 0.334,
        "rope_theta": 5000000,
        "swa_rope_theta": 10000,
        "layernorm_epsilon": 1e-5,
        "n_routed_experts": EXPERTS,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "n_shared_experts": None,
        "routed_scaling_factor": None,
        "norm_topk_prob": True,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "n_group": 1,
        "topk_group": 1,
    },
    "step3p5": {
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_attention_groups": 2,
        "head_dim": 16,
        "layer_types": [_FULL, _SLIDING, _SLIDING, _FULL, _SLIDING, _FULL, _SLIDING],
        "attention_other_setting": {
            "attention_type": _SLIDING,
            "num_attention_heads": 6,
            "num_attention_groups": 2,
            "head_dim": 16,
        },
        "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5, 1.0, 0.5, 1.0],
        "rope_theta": [5e6, 1e4, 1e4, 5e6, 1e4, 5e6, 1e4],
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 2.0,
            "original_max_position_embeddings": 64,
            "low_freq_factor": 1.0,
            "high_freq_factor": 32.0,
        },
        "yarn_only_types": [_FULL],
        "sliding_window": WINDOW,
        "use_head_wise_attn_gate": True,
        "rms_norm_eps": 1e-5,
        "moe_layers_enum": "1,2,3",
        "moe_num_experts": EXPERTS,
        "moe_top_k": 2,
        "moe_intermediate_size": 32,
        "share_expert_dim": 32,
        "moe_router_scaling_factor": 3.0,
        "norm_expert_weight": True,
        "swiglu_limits": [0.0, 0.0, 0.0, 0.7, 0.0, 0.0, 0.0],
        "swiglu_limits_shared": [0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0],
        "num_nextn_predict_layers": 3,
    },
}
"""What the published configs say, with smaller numbers; limits low enough to be felt."""

JOINS = {
    "mimo": ("token_layernorm", "hidden_layernorm", "input_proj", "final_layernorm"),
    "mimo_v2_flash": ("enorm", "hnorm", "eh_proj", "final_layernorm"),
    "step3p5": ("enorm", "hnorm", "eh_proj", "transformer.shared_head.norm"),
}
"""Names of embedding norm, hidden norm, join and last norm of a head."""


def head_prefix(kind: str, number: int) -> str:
    """Where head `number` stands in the published names."""
    if kind == "step3p5":
        return f"model.layers.{4 + number}."
    return f"model.mtp_layers.{number}." if kind == "mimo" else f"model.mtp.layers.{number}."


def config_of(kind: str, **changes: object) -> dict[str, object]:
    """config.json."""
    return {"model_type": kind, **_COMMON, **CONFIGS[kind], **changes}


def dequantised(kind: str, seed: int = 0, sharpness: float = 2.0) -> dict[str, Floats]:
    """Published names and float32 values; one seed gives one model.

    sharpness: what output heads are multiplied by, so that texts are not at the mercy of noise.
    """
    rng = np.random.default_rng(seed)
    return {name: _draw(rng, name, shape, kind, sharpness) for name, shape in _shapes(kind).items()}


def write_stack(
    folder: Path,
    kind: str,
    values: Mapping[str, Floats] | None = None,
    changes: Mapping[str, object] | None = None,
    heads: bool = True,
) -> Path:
    """Writes the folder and returns it; values instead of those of seed 0."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = dequantised(kind) if values is None else values
    left_out = () if heads else tuple(head_prefix(kind, number) for number in range(HEADS[kind]))
    arrays = {name: mx.array(v) for name, v in stored.items() if not name.startswith(left_out)}
    mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    (folder / "config.json").write_text(json.dumps(config_of(kind, **(changes or {}))))
    make_tiny_tokenizer(folder, VOCABULARY)
    return folder


def fuse_projections(values: Mapping[str, Floats]) -> dict[str, Floats]:
    """Queries, keys and values of each layer as one matrix, rows in this order."""
    made = dict(values)
    for name in values:
        if name.endswith(".q_proj.weight"):
            base = name.removesuffix("q_proj.weight")
            parts = [made.pop(f"{base}{kind}_proj.weight") for kind in "qkv"]
            made[f"{base}qkv_proj.weight"] = np.concatenate(parts)
    return made


def _draw(
    rng: np.random.Generator, name: str, shape: tuple[int, ...], kind: str, sharpness: float
) -> Floats:
    value = rng.normal(size=shape)
    if name.endswith("norm.weight"):
        value = 0.3 * value + (kind != "step3p5")
    elif len(shape) == 1:
        value = 0.3 * value
    else:
        is_output = name.startswith("lm_head") or "shared_head.output" in name
        value *= shape[-1] ** -0.5 * (sharpness if is_output else 1.0)
    return value.astype(np.float32)


def _shapes(kind: str) -> dict[str, tuple[int, ...]]:
    sizes = CONFIGS[kind]
    layers = int(str(sizes["num_hidden_layers"]))
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCABULARY, HIDDEN),
    }
    for layer in range(layers):
        shapes |= _named(f"model.layers.{layer}.", _layer(kind, layer))
    for number in range(HEADS[kind]):
        own = _layer(kind, layers + number)
        if kind == "mimo_v2_flash":
            own["pre_mlp_layernorm.weight"] = own.pop("post_attention_layernorm.weight")
        embedding, hidden, join, last = JOINS[kind]
        own |= {f"{norm}.weight": (HIDDEN,) for norm in (embedding, hidden, last)}
        own[f"{join}.weight"] = (HIDDEN, 2 * HIDDEN)
        if kind == "step3p5":
            own["transformer.shared_head.output.weight"] = (VOCABULARY, HIDDEN)
        shapes |= _named(head_prefix(kind, number), own)
    return shapes


def _named(prefix: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {f"{prefix}{name}": shape for name, shape in shapes.items()}


def _layer(kind: str, layer: int) -> dict[str, tuple[int, ...]]:
    """One decoder layer; those behind the last of the trunk are heads'."""
    heads, kept, size, value, is_windowed = 4, 2, 16, 16, False
    if kind == "mimo_v2_flash":
        is_windowed = layer not in (0, 3)
        heads, kept, size, value = 8, 4 if is_windowed else 2, 24, 16
    if kind == "step3p5" and layer in (1, 2, 4, 6):
        heads = 6
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (HIDDEN,),
        "post_attention_layernorm.weight": (HIDDEN,),
        "self_attn.q_proj.weight": (heads * size, HIDDEN),
        "self_attn.k_proj.weight": (kept * size, HIDDEN),
        "self_attn.v_proj.weight": (kept * value, HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, heads * value),
    }
    if kind == "mimo":
        rows = {"q": heads * size, "k": kept * size, "v": kept * size}
        shapes |= {f"self_attn.{name}_proj.bias": (count,) for name, count in rows.items()}
    if is_windowed:
        shapes["self_attn.attention_sink_bias"] = (heads,)
    if kind == "step3p5":
        shapes["self_attn.g_proj.weight"] = (heads, HIDDEN)
        shapes |= {f"self_attn.{name}_norm.weight": (size,) for name in "qk"}
    return shapes | _feed_forward(kind, layer)


def _feed_forward(kind: str, layer: int) -> dict[str, tuple[int, ...]]:
    if kind == "mimo" or layer not in (1, 2, 3):
        return _matrices("mlp.", INNER)
    if kind == "step3p5":
        stacks = {name: (EXPERTS, *shape) for name, shape in _matrices("moe.", 32).items()}
        router = {"moe.gate.weight": (EXPERTS, HIDDEN), "moe.router_bias": (EXPERTS,)}
        return {**stacks, **router, **_matrices("share_expert.", 32)}
    router = {"mlp.gate.weight": (EXPERTS, HIDDEN), "mlp.gate.e_score_correction_bias": (EXPERTS,)}
    single = [_matrices(f"mlp.experts.{expert}.", 32) for expert in range(EXPERTS)]
    return router | {name: shape for one in single for name, shape in one.items()}


def _matrices(prefix: str, inner: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}gate_proj.weight": (inner, HIDDEN),
        f"{prefix}up_proj.weight": (inner, HIDDEN),
        f"{prefix}down_proj.weight": (HIDDEN, inner),
    }
