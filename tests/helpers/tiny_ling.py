"""Tiny random Ling 2.5 and 3.0 by mlx-lm's classes, as published, with figures of the MTP head.

The decays of 2.5 and the limits of SwiGLU are those of the published code, which mlx-lm has
otherwise or not at all.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.models import bailing_hybrid, bailing_moe_linear, bailing_moe_v3
from model_edits import Arrays
from numpy.typing import NDArray
from tiny_nextn import Published
from tiny_published import VOCABULARY
from tiny_tokenizer import make_tiny_tokenizer

EPS = 1e-6
_SIZES: dict[str, Any] = {
    "model_type": "bailing_hybrid",
    **{"hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32},
    **{"moe_shared_expert_intermediate_size": 64, "num_hidden_layers": 5, "layer_group_size": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "num_experts": 8},
    **{"num_experts_per_tok": 2, "num_shared_experts": 1, "n_group": 4, "topk_group": 2},
    **{"first_k_dense_replace": 1, "vocab_size": VOCABULARY, "rms_norm_eps": EPS},
    **{"rope_theta": 10000.0, "max_position_embeddings": 512, "routed_scaling_factor": 2.5},
    **{"q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 32},
    **{"v_head_dim": 32, "tie_word_embeddings": False, "num_nextn_predict_layers": 1},
    "norm_topk_prob": True,
}
LING_2_5 = _SIZES | {
    **{"architectures": ["BailingMoeV2_5ForCausalLM"], "group_norm_size": 2},
    **{"partial_rotary_factor": 0.5, "linear_silu": False},
}
LING_3 = _SIZES | {
    **{"architectures": ["BailingMoeV3ForCausalLM"], "kda_lower_bound": -5.0},
    **{"kda_safe_gate": True, "no_kda_lora": True, "short_conv_kernel_size": 4},
    **{"group_norm_size": 1, "linear_silu": True, "partial_rotary_factor": 0.5},
}


RING = {name: size for name, size in _SIZES.items() if "lora" not in name and "qk_" not in name}
RING |= {
    **{"model_type": "bailing_moe_linear", "group_norm_size": 2, "partial_rotary_factor": 0.5},
    **{"num_key_value_heads": 2, "use_qk_norm": True, "score_function": "sigmoid"},
    **{"moe_router_enable_expert_bias": True, "num_nextn_predict_layers": 0},
}


class _LimitedGate(nn.Module):
    """SwiGLU within limits, called as mlx-lm calls an activation of experts."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def __call__(self, up: mx.array, gate: mx.array) -> mx.array:
        return mx.minimum(nn.silu(gate), self.limit) * mx.clip(up, -self.limit, self.limit)


class _LimitedExpert(nn.Module):
    def __init__(self, plain: Any, limit: float) -> None:
        super().__init__()
        self.plain, self.gate = plain, _LimitedGate(limit)

    def __call__(self, x: mx.array) -> mx.array:
        made: mx.array = self.plain.down_proj(
            self.gate(self.plain.up_proj(x), self.plain.gate_proj(x))
        )
        return made


class _Head(nn.Module):
    """The MTP head: a global layer behind a join of two norms; rows (x_k, h_k-1)."""

    def __init__(self, layer: nn.Module, hidden: int) -> None:
        super().__init__()
        self.layer = layer
        self.enorm, self.hnorm = nn.RMSNorm(hidden, EPS), nn.RMSNorm(hidden, EPS)
        self.final_layernorm = nn.RMSNorm(hidden, EPS)
        self.eh_proj = nn.Linear(2 * hidden, hidden, bias=False)

    def __call__(self, embedded: mx.array, hidden: mx.array) -> mx.array:
        joined = mx.concatenate([self.enorm(embedded), self.hnorm(hidden)], axis=-1)
        places = mx.arange(embedded.shape[1])
        state = self.layer(self.eh_proj(joined), places <= places[:, None], None)
        made: mx.array = self.final_layernorm(state)
        return made


def publish(folder: Path, config: dict[str, Any], seed: int = 0) -> Published:
    """Write the folder of a tiny model with this config.json; returns its reference figures."""
    is_third = "kda_lower_bound" in config
    module: Any = bailing_moe_v3 if is_third else bailing_hybrid
    args = module.ModelArgs.from_dict(config)
    last = args.num_hidden_layers - 1
    layer = (module.BailingDecoderLayer if is_third else module.DecoderLayer)(args, last)
    model, head = module.Model(args), _Head(layer, args.hidden_size)
    rng = np.random.default_rng(seed)
    for part, sharpness in ((model, 2.0), (head, 1.0)):
        part.update(tree_map_with_path(_drawer(rng, sharpness), part.parameters()))
    stored = _as_published(dict(tree_flatten(model.parameters())), args)
    in_layer = {
        f"model.layers.{last + 1}.{name.removeprefix('layer.')}": array
        for name, array in tree_flatten(head.parameters())
    }
    stored |= _as_published(in_layer, args)
    folder.mkdir(parents=True)
    mx.save_safetensors(str(folder / "model.safetensors"), stored)
    (folder / "config.json").write_text(json.dumps(config))
    make_tiny_tokenizer(folder, VOCABULARY)
    if is_third:
        _limit(model, config)
    else:
        _publish_decays(model)
    return _figures(folder, model, head, rng)


class Read(NamedTuple):
    """Tokens and the logits [T, V] that a tiny model has for them."""

    tokens: list[int]
    logits: NDArray[np.float32]


def publish_linear(folder: Path, config: dict[str, Any], seed: int = 0) -> Read:
    """Write the folder of a tiny Ring linear 2.0, which has no head, as mlx-lm has it."""
    model: Any = bailing_moe_linear.Model(bailing_moe_linear.ModelArgs.from_dict(config))
    rng = np.random.default_rng(seed)
    model.update(tree_map_with_path(_drawer(rng, 2.0), model.parameters()))
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    (folder / "config.json").write_text(json.dumps(config))
    make_tiny_tokenizer(folder, VOCABULARY)
    first = model.layers[0]
    if not first.is_global:  # whose decays are those of the second layer there
        most = len(model.layers) - 1
        first.attention._slope *= (1 + 1 / most + 1e-5) / (1 + 1e-5)
    tokens = [int(token) for token in rng.integers(0, VOCABULARY, 41)]
    return Read(tokens, np.array(model(mx.array([tokens]))[0]))


def _drawer(rng: np.random.Generator, sharpness: float) -> Callable[[str, mx.array], mx.array]:
    def draw(name: str, array: mx.array) -> mx.array:
        values = mx.array(rng.standard_normal(array.shape).astype(np.float32))
        if "norm" in name:
            return 1 + 0.2 * values
        if array.ndim == 1:
            return 0.5 * values
        return values * sharpness * (1 if "conv" in name else array.shape[-1] ** -0.5)

    return draw


def _as_published(arrays: Arrays, args: Any) -> Arrays:
    """Experts one by one, kv_b_proj whole, convolutions and routers under published names."""
    made: Arrays = {}
    for name, array in arrays.items():
        base, _, rest = name.partition(".switch_mlp.")
        if rest:
            made |= {f"{base}.experts.{n}.{rest}": one for n, one in enumerate(array)}
        elif name.endswith("embed_q.weight"):
            unpacked = arrays[name.replace("embed_q", "unembed_out")]
            both = mx.concatenate([array.swapaxes(1, 2), unpacked], axis=1)
            made[name.replace("embed_q", "kv_b_proj")] = both.reshape(-1, args.kv_lora_rank)
        elif "unembed_out" not in name:
            turned = array.swapaxes(1, 2) if "conv1d" in name else array
            made[name.replace("gate.gate_proj", "gate")] = mx.contiguous(turned)
    return made


def _limit(model: Any, config: dict[str, Any]) -> None:
    for name in ("expert_swiglu_limit_list", "share_expert_swiglu_limit_list"):
        for layer, limit in zip(model.layers, config.get(name, ()), strict=False):
            if limit and name.startswith("expert"):
                layer.mlp.switch_mlp.activation = _LimitedGate(limit)
            elif limit:
                layer.mlp.shared_experts = _LimitedExpert(layer.mlp.shared_experts, limit)


def _publish_decays(model: Any) -> None:
    """The slopes of mlx-lm times another share of the depth."""
    most = len(model.layers) - 1
    for number, layer in enumerate(model.layers):
        if not layer.is_global:
            theirs = 1 - number / most + 1e-5
            layer.attention._slope *= (1 - (number - 1) / most + 1e-5) / theirs


def _figures(folder: Path, model: Any, head: _Head, rng: np.random.Generator) -> Published:
    tokens = [int(token) for token in rng.integers(0, VOCABULARY, 41)]

    def logits(states: mx.array) -> Any:
        return np.array(model.lm_head(states)[0])

    def states(read: list[int], hidden: mx.array) -> mx.array:
        return head(model.model.word_embeddings(mx.array([read])), hidden)

    def drafts(read: list[int]) -> Any:
        return logits(states(read[1:], model.model(mx.array([read]))[:, :-1]))

    hidden = model.model(mx.array([tokens]))
    first = states(tokens[1:], hidden[:, :-1])
    drafted = int(logits(first)[-1].argmax())
    longer = mx.concatenate([hidden[:, :-1], first[:, -1:]], axis=1)
    chained = logits(states([*tokens[1:], drafted], longer))[-1]
    return Published(folder, tokens, logits(hidden), logits(first), drafted, chained, drafts)
