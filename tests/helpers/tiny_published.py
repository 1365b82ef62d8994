"""Tiny random models of many architectures, as transformers publishes them, with their logits."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import transformers as hf
from model_edits import edit_config
from numpy.typing import NDArray
from tiny_hybrids import HYBRIDS, LATENT
from tiny_tokenizer import make_tiny_tokenizer

VOCABULARY = 300
WINDOW = 8

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 297,
}
_EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}
WHOLE_GROUPS = {"qk_rope_head_dim": 32, "qk_head_dim": 48}
"""Changes to models of latents whose caches can then be of 8 and 4 bits."""

_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 128,
    "truncate": False,
}
_SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
_BY_KIND = {"sliding_attention": _PLAIN, "full_attention": {**_PLAIN, "rope_theta": 1e6}}

ARCHITECTURES: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("Llama", {"rope_parameters": _LLAMA3}),
    "mistral": ("Mistral", {"sliding_window": WINDOW, "head_dim": 32}),
    "ministral": (
        "Ministral",
        {"sliding_window": WINDOW, "head_dim": 32, "layer_types": _SLIDING},
    ),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 32}),
    "qwen3_moe": (
        "Qwen3Moe",
        {**_EXPERTS, "head_dim": 32, "num_experts": 4, "norm_topk_prob": True},
    ),
    "gemma3_text": (
        "Gemma3",
        {
            "head_dim": 32,
            "sliding_window": WINDOW,
            "layer_types": [_SLIDING[0], _SLIDING[1], _SLIDING[0]],
            "rope_parameters": _BY_KIND,
            "query_pre_attn_scalar": 32,
        },
    ),
    "gpt_oss": (
        "GptOss",
        {
            "head_dim": 32,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": WINDOW,
            "layer_types": _SLIDING,
            "rope_parameters": _YARN,
        },
    ),
    "phi3": ("Phi3", {"sliding_window": WINDOW}),
    "mixtral": ("Mixtral", {"num_local_experts": 4}),
    "granite": ("Granite", {"logits_scaling": 2.0, "residual_multiplier": 0.5}),
    "jamba": (
        "Jamba",
        {
            "num_experts": 4,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "mamba_d_state": 8,
            "use_mamba_kernels": False,
        },
    ),
    "ministral3": (
        "Ministral3",
        {
            "head_dim": 16,
            "rope_parameters": _YARN
            | {
                "original_max_position_embeddings": 16,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.4,
                "truncate": True,
            },
        },
    ),
    "gpt_neox": ("GPTNeoX", {"rope_parameters": _PLAIN | {"partial_rotary_factor": 0.25}}),
    "gpt_bigcode": (
        "GPTBigCode",
        {"n_embd": 64, "n_inner": 96, "n_layer": 3, "n_head": 4, "n_positions": 512},
    ),
    "cohere": ("Cohere", {"logit_scale": 0.25, "rope_parameters": _PLAIN}),
    "cohere2": (
        "Cohere2",
        {"num_hidden_layers": 4, "sliding_window": WINDOW, "rope_parameters": _PLAIN},
    ),
    "gemma": ("Gemma", {"head_dim": 32, "rope_parameters": _PLAIN}),
    "hunyuan_v1_dense": ("HunYuanDenseV1", {"head_dim": 32, "rope_parameters": _PLAIN}),
    "lfm2": (
        "Lfm2",
        {
            "layer_types": ["conv", "full_attention", "conv"],
            "block_auto_adjust_ff_dim": False,
            "rope_parameters": _PLAIN,
        },
    ),
    **HYBRIDS,
    "glm": ("Glm", {"head_dim": 32}),
    "glm4": ("Glm4", {"head_dim": 32}),
    "olmo2": ("Olmo2", {}),
    "gemma2": (
        "Gemma2",
        {
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": 512,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 3.0,
            "rope_parameters": _PLAIN,
        },
    ),
    "mamba2": (
        "Mamba2",
        {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2, "chunk_size": 16},
    ),
    "olmoe": ("Olmoe", {"num_experts": 4, "num_experts_per_tok": 2, "rope_parameters": _PLAIN}),
    "qwen2_moe": (
        "Qwen2Moe",
        {
            **_EXPERTS,
            "num_experts": 4,
            "shared_expert_intermediate_size": 48,
            "rope_parameters": _PLAIN,
        },
    ),
    "olmo3": (
        "Olmo3",
        {"sliding_window": WINDOW, "rope_parameters": _BY_KIND, "layer_types": _SLIDING},
    ),
    "exaone4": (
        "Exaone4",
        {
            "head_dim": 16,
            "num_hidden_layers": 4,
            "sliding_window": WINDOW,
            "layer_types": [*_SLIDING[:1] * 3, "full_attention"],
            "rope_parameters": _LLAMA3,
        },
    ),
    "seed_oss": ("SeedOss", {"head_dim": 32, "rope_parameters": _PLAIN}),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 5, "rope_parameters": _PLAIN}),
    "ernie4_5": ("Ernie4_5", {"head_dim": 32, "rope_parameters": _PLAIN}),
    "dots1": (
        "Dots1",
        {
            **_EXPERTS,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "n_group": 2,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "norm_topk_prob": True,
            "routed_scaling_factor": 2.5,
            "sliding_window": None,
            "rope_parameters": _PLAIN,
        },
    ),
    "glm4_moe": (
        "Glm4Moe",
        {
            **_EXPERTS,
            "head_dim": 32,
            "n_routed_experts": 4,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "use_qk_norm": True,
        },
    ),
    "glm4_moe_lite": (
        "Glm4MoeLite",
        {**_EXPERTS, **LATENT, "n_routed_experts": 4, "n_shared_experts": 1},
    ),
    "deepseek_v2": (
        "DeepseekV2",
        {
            **_EXPERTS,
            **LATENT,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 1.5,
            "topk_method": "greedy",
        },
    ),
    "mimo_v2_flash": (
        "MiMoV2Flash",
        {
            **_EXPERTS,
            "num_hidden_layers": 4,
            "head_dim": 24,
            "v_head_dim": 16,
            "n_routed_experts": 4,
            "sliding_window": WINDOW,
            "layer_types": ["full_attention", *_SLIDING[:1] * 2, "full_attention"],
        },
    ),
    "deepseek_v3": (
        "DeepseekV3",
        {
            **_EXPERTS,
            **LATENT,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "n_group": 2,
            "topk_group": 1,
            "first_k_dense_replace": 1,
        },
    ),
    "ernie4_5_moe": (
        "Ernie4_5_Moe",
        {
            "moe_intermediate_size": 32,
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_num_shared_experts": 1,
            "moe_layer_start_index": 1,
            "rope_parameters": _YARN,
        },
    ),
    "exaone_moe": (
        "ExaoneMoe",
        {
            **_EXPERTS,
            "head_dim": 16,
            "num_experts": 4,
            "num_shared_experts": 1,
            "first_k_dense_replace": 1,
            "sliding_window": WINDOW,
            "layer_types": _SLIDING,
            "rope_parameters": _PLAIN,
        },
    ),
    "mellum": (
        "Mellum",
        {
            **_EXPERTS,
            "head_dim": 32,
            "num_experts": 4,
            "sliding_window": WINDOW,
            "layer_types": _SLIDING,
            "rope_parameters": _BY_KIND | {"full_attention": _YARN | {"truncate": True}},
        },
    ),
    "hy_v3": (
        "HYV3",
        {
            **_EXPERTS,
            "head_dim": 32,
            "num_experts": 4,
            "num_shared_experts": 1,
            "rope_parameters": _PLAIN,
        },
    ),
    "minimax_m2": (
        "MiniMaxM2",
        {
            "head_dim": 32,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": _YARN | {"partial_rotary_factor": 0.5},
        },
    ),
}
"""model_type -> transformers' classes (without Config, ForCausalLM) and what their config gets."""


class Published(NamedTuple):
    """A folder, and transformers' float32 logits [T, V] of `tokens` on it."""

    folder: Path
    tokens: list[int]
    logits: NDArray[np.float32]


def publish(
    model_type: str,
    folder: Path,
    seed: int = 0,
    sharpness: float = 2.0,
    changes: Mapping[str, object] | None = None,
    edits: Mapping[str, object] | None = None,
    dtype: str = "float32",
) -> Published:
    """Writes the folder with a tokenizer; one seed gives one model.

    sharpness: what the output head is multiplied by, so that texts are not at the mercy of noise.
    changes: of the config the model is made of. edits: of config.json afterwards (see edit_config);
    the logits are those of the folder as it then is. dtype: the weights are stored in.
    """
    name = ARCHITECTURES[model_type][0]
    settings = getattr(
        hf,
        f"{name}TextConfig"
        if name in ("Gemma3", "Gemma3n", "Gemma4", "Llama4")
        else f"{name}Config",
    )
    told = deepcopy(sizes_of(model_type) | dict(changes or {}))  # transformers writes into it
    config = settings(**told, attn_implementation="eager")
    torch.manual_seed(seed)
    model = hf.AutoModelForCausalLM.from_config(config).eval().float()
    with torch.no_grad():
        for part, value in [*model.named_parameters(), *model.named_buffers()]:
            draw(part, value, sharpness, is_unscaled=name == "Gemma4")
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    edit_config(folder, **(edits or {}))
    make_tiny_tokenizer(folder, VOCABULARY)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]
    if edits or dtype != "float32":
        return Published(folder, tokens, published_logits(folder, tokens))
    return Published(folder, tokens, _logits(model, tokens))


def published_logits(folder: Path, tokens: list[int]) -> NDArray[np.float32]:
    """transformers' float32 logits [T, V] of a folder."""
    model = hf.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return _logits(model.eval(), tokens)


def _logits(model: hf.PreTrainedModel, tokens: list[int]) -> NDArray[np.float32]:
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def sizes_of(model_type: str) -> dict[str, object]:
    """What the config of a tiny model gets."""
    return {**_SIZES, **ARCHITECTURES[model_type][1]}


@torch.no_grad()
def draw_all(module: torch.nn.Module, sharpness: float) -> None:
    """Draw all parameters and buffers; scales of hyper-connections are about 1."""
    for part, value in [*module.named_parameters(), *module.named_buffers()]:
        draw(part, value, sharpness)
        if part.endswith(("hc.scale", "hc_scale")):
            value.add_(1)


def draw(part: str, value: torch.Tensor, sharpness: float, *, is_unscaled: bool = False) -> None:
    """Matrices keep the size of what goes through them; norms and biases are moved visibly.

    is_unscaled: the model does not scale scores down, so that norms of queries have to.
    """
    is_number = value.ndim and value.is_floating_point()
    if not is_number or any(name in part for name in ("inv_freq", "embed_scale", "mup_vector")):
        return
    if value.ndim == 1:
        value.add_(0.2 * torch.randn_like(value))
        if "q_norm" in part and is_unscaled:
            value.mul_(value.shape[-1] ** -0.5)
    else:
        scale = sharpness if part.startswith("lm_head") else 1.0
        value.copy_(scale * torch.randn_like(value) * value.shape[-1] ** -0.5)
