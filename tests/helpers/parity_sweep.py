"""Tiny random models with odd options, as transformers writes them, against transformers' logits.

    python tests/helpers/parity_sweep.py                            # all types of ours
    python tests/helpers/parity_sweep.py llama qwen3 --count 12     # some types
    python tests/helpers/parity_sweep.py --classes                  # all of mlx-lm's classes
    python tests/helpers/parity_sweep.py --heads                    # types with MTP heads
    python tests/helpers/parity_sweep.py llama --seed 7 --count 1   # one model again

Prints, for each type, how many models are equal, wrong, refused by us (with the reason), and not
run by transformers itself, and the worst error; then every model that is wrong, with the fewest
options that make it so. What a config asks for is transformers' word: both open the same folder.
"""

import argparse
import json
import math
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import tiny_deepseek4
import tiny_glm5_next
import tiny_hy4
import tiny_inkling
import tiny_ling
import tiny_longcat
import tiny_minimax
import tiny_nemotron
import tiny_nextn
import tiny_qwen4
import tiny_sparse
import torch
import transformers as hf
from compared import relative
from model_edits import logits
from numpy.typing import NDArray
from qwen_reference import qwen_reference
from stack_reference import StackReference
from tiny_hybrids import LATENT
from tiny_published import ARCHITECTURES, VOCABULARY, WINDOW, draw, published_logits, sizes_of
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_qwen_experts import write_tiny_experts
from tiny_stacks import HEADS, dequantised, write_stack
from tiny_tokenizer import make_tiny_tokenizer

import mlx_engine
from mlx_engine.models.library.mlx_lm_family import mlx_lm_module_name
from mlx_engine.models.registry import FAMILIES
from mlx_engine.values.errors import EngineError

MOST_WRONG = 1e-4
MOST_WRONG_RECURRENT = 2e-3
"""Of random recurrences in float32; transformers' own are up to 4e-4 from those in float64."""

TOKENS = 41
OUTSIDE = 32
"""The trained length beside the rotation, where the two differ."""

FULL, SLIDING = "full_attention", "sliding_attention"
ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh", "relu", "relu2", "quick_gelu", "mish")
_LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "num_hidden_layers": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
    "head_dim": 32,
}
_EXPERTS = {"moe_intermediate_size": 32, "num_experts_per_tok": 2, "n_shared_experts": 1}
_MAMBA = {"state_size": 8, "intermediate_size": 128, "time_step_rank": 4}
SIZES: dict[str, dict[str, object]] = {
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _LINEAR),
    "dbrx": {
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 3,
        "max_seq_len": 512,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "deepseek_v32": {
        **LATENT,
        **_EXPERTS,
        "n_routed_experts": 8,
        "first_k_dense_replace": 1,
        "index_n_heads": 32,  # with few of them many scores are 0, and any of those may be chosen
        "index_head_dim": 32,
        "n_group": 2,
        "topk_group": 1,
    },
    "deepseek_v4": tiny_deepseek4.SIZES,
    "glm5_next_text": tiny_glm5_next.SIZES,
    "mamba": _MAMBA,
    "falcon_mamba": _MAMBA,
    "gptj": {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 512, "rotary_dim": 8},
    "gemma4_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32},
    "internlm3": {"head_dim": 16},
    "longcat_flash": {
        **LATENT,
        "num_layers": 2,
        "ffn_hidden_size": 96,
        "expert_ffn_hidden_size": 32,
        "n_routed_experts": 4,
        "zero_expert_num": 0,
        "moe_topk": 2,
        "head_dim": 16,
    },
    "minimax_m3_vl_text": {"index_n_heads": 2, "index_topk_blocks": 2, "index_block_size": 4},
    "recurrent_gemma": {
        "num_hidden_layers": 6,
        "lru_width": 64,
        "attention_window_size": 16,
        "head_dim": 16,
        "num_key_value_heads": 1,
    },
    "step3p5": {
        "head_dim": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "share_expert_dim": 32,
        "sliding_window": WINDOW,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "layer_types": [SLIDING, FULL, SLIDING],
    },
}
"""Of tiny models of types that tiny_published.py has not."""

OPTIONS: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("hidden_act", "hidden_activation", "activation_function"), ACTIVATIONS),
    **dict.fromkeys(
        (
            "attention_bias",
            "attention_out_bias",
            "mlp_bias",
            "use_bias",
            "qkv_bias",
            "use_qk_norm",
            "use_qkv_bias",
            "norm_topk_prob",
            "route_norm",
            "tie_word_embeddings",
            "use_sliding_window",
            "rope_interleave",
            "moe_router_enable_expert_bias",
            "use_parallel_residual",
            "conv_bias",
            "use_conv_bias",
            "mamba_conv_bias",
            "mamba_proj_bias",
            "mamba_rms_norm",
            "mamba_norm_before_gate",
            "projectors_bias",
            "qk_layernorm",
            "lm_head_bias",
            "mup_enabled",
            "use_expert_bias",
            "linear_allow_neg_eigval",
            "attention_k_eq_v",
            "use_double_wide_mlp",
        ),
        (True, False),
    ),
    **dict.fromkeys(
        ("rms_norm_eps", "layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"), (1e-6, 1e-5, 0.1)
    ),
    **dict.fromkeys(
        ("routed_scaling_factor", "router_scaling_factor", "moe_router_scaling_factor"),
        (1.0, 2.5, 0.7),
    ),
    **dict.fromkeys(
        (
            "embedding_multiplier",
            "logits_scaling",
            "residual_multiplier",
            "attention_multiplier",
            "attention_value_scale",
            "logit_scale",
            "key_multiplier",
            "lm_head_multiplier",
            "attention_in_multiplier",
            "attention_out_multiplier",
            "ssm_in_multiplier",
            "ssm_out_multiplier",
        ),
        (1.0, 0.3, 1.7),
    ),
    **dict.fromkeys(("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"), (1, 2)),
    **dict.fromkeys(("n_group", "topk_group"), (1, 2)),
    **dict.fromkeys(("num_experts_per_tok", "moe_k"), (1, 2, 3, 4)),
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), (None, 5.0, 30.0)),
    "num_key_value_heads": (1, 2, 4),
    "num_hidden_layers": (1, 2, 3, 5),
    "head_dim": (16, 24, 32),
    "intermediate_size": (96, 70),
    "sliding_window": (None, WINDOW, 3, 1000),
    "max_window_layers": (0, 1, 2, 99),
    "sliding_window_pattern": (2, 3),
    "first_k_dense_replace": (0, 1, 2),
    "decoder_sparse_step": (1, 2),
    "mlp_only_layers": ([], [0], [1, 2]),
    "no_rope_layer_interval": (2, 3),
    "query_pre_attn_scalar": (16, 100),
    "swiglu_limit": (7.0, 0.5),
    "moe_norm_min": (1e-12, 0.5),
    "moe_layer_interval": (1, 2),
    "moe_layer_start_index": (0, 1, 2),
    "use_bidirectional_attention": (True, False),
    "topk_method": ("greedy", "group_limited_greedy"),
    "q_lora_rank": (None, 32),
    "qk_rope_head_dim": (16, 8),
    "max_position_embeddings": (512, 48),
    **dict.fromkeys(("n_groups", "mamba_n_groups"), (1, 2)),
    "time_step_limit": ((0.0, math.inf), (0.01, 1.0), (0.3, math.inf)),
    "ssm_multipliers": (None, [0.3, 2.0, 1.0, 0.5, 1.4]),
    "mlp_multipliers": (None, [0.7, 1.3]),
    "mamba_d_conv": (1, 2, 4),
    "num_local_experts": (0, 4),
    "position_embedding_type": (None, "rope"),
    "gating": (True, "per-head", "per-element"),
    "index_topk": (512, 24),
    "num_kv_shared_layers": (0, 1, 2, 3),
    "hidden_size_per_layer_input": (0, 16, 24),
    "enable_moe_block": (True, False),
    "top_k_experts": (1, 2, 3),
    "conv_L_cache": (1, 2, 3, 4),
    "num_dense_layers": (0, 1, 2),
    "block_auto_adjust_ff_dim": (True, False),
    "block_multiple_of": (8, 256),
    "layer_types": (None, "random"),
    "mlp_layer_types": (None, "random"),
}
"""Fields of configs that may be drawn where transformers' class knows them."""

MIXERS = {
    **dict.fromkeys(("lfm2", "lfm2_moe"), ("conv", FULL)),
    "granitemoehybrid": ("linear_attention", FULL),
    "deepseek_v4": (tiny_deepseek4.SPARSE, tiny_deepseek4.HEAVY, SLIDING),
}
"""What layers may be of types that have other kinds of them than windows."""

KEYS_LEFT_OUT = (
    "hidden_act",
    "hidden_activation",
    "rms_norm_eps",
    "norm_topk_prob",
    "routed_scaling_factor",
    "max_window_layers",
    "use_sliding_window",
    "sliding_window",
    "query_pre_attn_scalar",
    "n_group",
    "topk_group",
    "layer_types",
    "original_max_position_embeddings",
)
"""Keys that a config may be silent about, whatever the weights are."""

STYLES = ("new", "old", "older", "beside", "without theta", "old without theta", "outside")
Moves = dict[str, Any]


class Outcome(NamedTuple):
    """What became of a model: equal, wrong, refused, crashed, or not run by transformers."""

    what: str
    error: float = 0.0
    words: str = ""


class Figures(NamedTuple):
    """Transformers' logits, the folder they are of, and what computes ours of the same rows."""

    wanted: NDArray[np.float32]
    folder: Path
    ours: Callable[[Path], NDArray[np.float32]]


Part = Callable[[str, Moves, Path, int], Figures]
"""Makes a model of a type with some options in a folder, by a seed."""


def settings_of(kind: str) -> type[hf.PreTrainedConfig]:
    """Transformers' class of configs of a type, of the text part where there are others."""
    mapping = hf.models.auto.configuration_auto.CONFIG_MAPPING
    found: type[hf.PreTrainedConfig] = mapping[kind]
    return found


def known_to(kind: str) -> set[str]:
    """Fields of transformers' class of configs of a type, none where it has no class."""
    if kind not in hf.models.auto.configuration_auto.CONFIG_MAPPING:
        return set()
    return {field.name for field in fields(settings_of(kind))}


def base_of(kind: str) -> dict[str, object]:
    """What every tiny model of a type is made of."""
    known = known_to(kind)
    named = kind if kind in ARCHITECTURES else "llama"
    given = sizes_of(named) | SIZES.get(kind, {})
    if kind not in ARCHITECTURES:
        given["rope_parameters"] = None
    aliases = settings_of(kind).attribute_map
    return {key: value for key, value in given.items() if key in known or key in aliases}


def moves_of(kind: str, seed: int) -> Moves:
    """Some options of a model, drawn."""
    rng = random.Random(f"{kind} {seed}")
    known = known_to(kind)
    moves: Moves = {}
    if not known:
        return moves
    for name, values in OPTIONS.items():
        if name in known and rng.random() < 0.25:
            moves[name] = rng.choice(values)
    layers = moves.get("num_hidden_layers", base_of(kind).get("num_hidden_layers", 3))
    mixers = MIXERS.get(kind, (FULL, SLIDING))
    feeds = ("hash_moe", "moe") if kind == "deepseek_v4" else ("dense", "sparse")
    for name, kinds in (("layer_types", mixers), ("mlp_layer_types", feeds)):
        if moves.get(name) == "random":
            moves[name] = [rng.choice(kinds) for _ in range(layers)]
    if "rope_parameters" in known and rng.random() < 0.7:
        moves["rope"] = rope_drawn(rng)
        moves["style"] = rng.choice(STYLES)
    if moves.get("topk_group", 1) > moves.get("n_group", 1):
        moves["topk_group"] = 1
    if kind == "nemotron_h":  # transformers reads time_step_min in its place
        moves.pop("time_step_limit", None)
    if kind == "deepseek_v4":  # which are not run, and not looked at or refused by transformers
        for name in ("attention_bias", "mlp_bias", "num_key_value_heads", "q_lora_rank"):
            moves.pop(name, None)
    if kind.startswith("gemma4"):  # where transformers takes no flag, and no null window
        moves.pop("use_bidirectional_attention", None)
        moves["sliding_window"] = moves.get("sliding_window") or WINDOW
    silent = [key for key in KEYS_LEFT_OUT if key in known and rng.random() < 0.1]
    return moves | ({"silent": silent} if silent else {})


def rope_drawn(rng: random.Random) -> dict[str, object]:
    """One way to rotate."""
    kind = rng.choice(("default", "linear", "dynamic", "llama3", "yarn", "yarn", "longrope"))
    rope: dict[str, object] = {"rope_type": kind, "rope_theta": rng.choice((10000.0, 1e6, 500.0))}
    if kind != "default":
        rope["factor"] = rng.choice((4.0, 2.0))
    if kind in ("llama3", "yarn", "longrope"):
        rope["original_max_position_embeddings"] = rng.choice((16, 64, 128))
    if kind == "llama3":
        rope |= {"low_freq_factor": 1.0, "high_freq_factor": rng.choice((4.0, 2.0))}
    if kind == "longrope":
        rope["original_max_position_embeddings"] = 64
        rope["lists"] = True
    odd: dict[str, tuple[object, ...]] = {
        "attention_factor": (1.3, 0.8),
        "beta_fast": (20.0, 4.0),
        "beta_slow": (2.0, 0.5),
        "truncate": (False, True),
        "mscale": (0.7, 1.0),
        "mscale_all_dim": (0.7, 1.2),
    }
    if kind in ("yarn", "longrope"):
        for name, values in odd.items():
            if (kind == "yarn" or name == "attention_factor") and rng.random() < 0.3:
                rope[name] = rng.choice(values)
        if rng.random() < 0.15:
            rope["factor"] = None
    if rng.random() < 0.15:
        rope["partial_rotary_factor"] = 0.5
    return rope


def made(kind: str, moves: Moves, folder: Path, seed: int) -> None:
    """Writes the folder: the model as transformers saves it, then the config as `style` says."""
    drawn = {key: value for key, value in moves.items() if key not in ("rope", "style", "silent")}
    given = base_of(kind) | drawn
    layers = int(str(given.get("num_hidden_layers", 3)))
    for name, filler in (("layer_types", FULL), ("mlp_layer_types", "sparse")):
        listed = given.get(name)
        if isinstance(listed, list):
            given[name] = (listed + [listed[-1] if name == "layer_types" else filler] * layers)[
                :layers
            ]
    config = settings_of(kind)(**given, attn_implementation="eager")
    torch.manual_seed(seed)
    model = hf.AutoModelForCausalLM.from_config(config).eval().float()
    with torch.no_grad():
        for part, value in [*model.named_parameters(), *model.named_buffers()]:
            draw(part, value, 2.0, is_unscaled=kind.startswith("gemma4"))
    model.save_pretrained(folder)
    path = folder / "config.json"
    written = json.loads(path.read_text())
    restyled(written, moves, config)
    path.write_text(json.dumps(written))
    make_tiny_tokenizer(folder, VOCABULARY)


def restyled(config: dict[str, Any], moves: Moves, settings: hf.PreTrainedConfig) -> None:
    """Tells the rotation as configs of some time did; takes out what it is to be silent about."""
    for key in moves.get("silent", ()):
        config.pop(key, None)
    if "rope" not in moves:
        return
    before = config.get("rope_parameters") or {}
    rope = rope_told(moves["rope"], before.get(FULL, before), settings)
    style = moves["style"]
    if "without" in style:
        del rope["rope_theta"]
    if style in ("new", "without theta", "outside"):
        if style == "outside" and "original_max_position_embeddings" in rope:
            config["original_max_position_embeddings"] = OUTSIDE
        config["rope_parameters"] = {**before, FULL: rope} if FULL in before else rope
        if FULL in before and style == "without theta":
            config["rope_parameters"][SLIDING] = {"rope_type": "default"}
    elif style == "beside":
        plain = {"rope_type": "default", "rope_theta": 10000.0}
        config |= {"rope_parameters": before or plain, "rope_scaling": rope}
    else:
        config.pop("rope_parameters", None)
        outer = [key for key in ("rope_theta", "partial_rotary_factor") if key in rope]
        config |= {key: rope.pop(key) for key in outer}
        if style == "older" and FULL not in before:  # there transformers 5 loses `type`
            rope["type"] = rope.pop("rope_type")
        if "default" not in rope.values():
            config["rope_scaling"] = rope
        if "rope_theta" in before.get(SLIDING, {}):
            config["rope_local_base_freq"] = before[SLIDING]["rope_theta"]


def rope_told(drawn: Moves, was: Moves, settings: hf.PreTrainedConfig) -> Moves:
    """With the lists of LongRoPE, and the part of a head that the model was made with."""
    kept = {key: value for key, value in was.items() if key == "partial_rotary_factor"}
    rope = {"rope_type": "default", "rope_theta": 10000.0, **kept, **drawn}
    if rope.pop("lists", False):
        pairs = range(pairs_of(settings, rope))
        rope["short_factor"] = [1.0 + 0.1 * pair for pair in pairs]
        rope["long_factor"] = [1.5 + 0.5 * pair for pair in pairs]
    return rope


def pairs_of(settings: hf.PreTrainedConfig, rope: Mapping[str, Any]) -> int:
    """Pairs of elements of a head that turn."""
    head = getattr(settings, "head_dim", None)
    head = head or settings.hidden_size // settings.num_attention_heads
    return int(head * rope.get("partial_rotary_factor", 1.0)) // 2


def of_text(kind: str, moves: Moves, folder: Path, seed: int) -> Figures:
    """Of the model alone."""
    tokens = [int(t) for t in np.random.default_rng(seed).integers(1, VOCABULARY, TOKENS)]
    made(kind, moves, folder, seed)
    wanted = row_by_row(folder, tokens, json.loads((folder / "config.json").read_text()))
    return Figures(wanted, folder, lambda files: logits(files, tokens))


PUBLISHED: dict[str, Callable[..., tiny_nextn.Published]] = {
    "bailing_moe_v3": partial(tiny_ling.publish, config=tiny_ling.LING_3),
    "nemotron_h": tiny_nemotron.publish,
    "qwen4_exp": tiny_qwen4.publish,
    "hy_v4": tiny_hy4.publish,
    "inkling_mm_model": partial(tiny_inkling.publish, num_mtp_layers=1),
    "inkling": partial(tiny_inkling.publish, num_mtp_layers=1, is_as_published=False),
    "longcat_flash": tiny_longcat.publish,
    "longcat_flash_ngram": partial(tiny_longcat.publish, ngrams=tiny_longcat.NGRAMS),
    "deepseek_v4": tiny_deepseek4.publish,
    "minimax_m3_vl": tiny_minimax.publish,
    "glm5_next": tiny_glm5_next.publish,
    **{kind: partial(tiny_sparse.publish, kind) for kind in ("deepseek_v32", "glm_moe_dsa")},
}
"""What writes a model with its head in a folder by a seed, where not tiny_nextn.py does."""


def of_head(kind: str, moves: Moves, folder: Path, seed: int) -> Figures:
    """Of the model, then of its heads, which transformers or plain PyTorch runs too."""
    if kind in QWEN:
        return of_qwen_head(kind, moves, folder, seed)
    if kind in HEADS:
        return of_stack(kind, folder, seed)
    apart = ("rope", "style", "silent", "num_hidden_layers")
    given = {name: value for name, value in moves.items() if name not in apart}
    for name in ("layer_types", "mlp_layer_types"):
        if isinstance(given.get(name), list):
            given[name] = (given[name] * tiny_nextn.LAYER)[: tiny_nextn.LAYER]
    if "rope" in moves:
        settings = settings_of(kind)(**base_of(kind) | given)
        before = settings.rope_parameters or {}
        rope = rope_told(moves["rope"], before.get(FULL, before), settings)
        given["rope_parameters"] = {**before, FULL: rope} if FULL in before else rope
    if kind in PUBLISHED:
        tiny = PUBLISHED[kind](folder / "m", seed=seed, **given)
    else:
        own = kind in tiny_nextn.TYPES and seed % 2 == 0
        tiny = tiny_nextn.publish(kind, folder, own=own, seed=seed, **given)
    wanted = np.concatenate([tiny.logits, tiny.draft_logits])
    return Figures(wanted, tiny.folder, lambda files: with_head(files, tiny.tokens))


def of_stack(kind: str, folder: Path, seed: int) -> Figures:
    """Of a model with heads that take turns, then of each of them; configs are as published."""
    values = dequantised(kind, seed)
    write_stack(folder, kind, values)
    reference = StackReference(kind, values)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(1, VOCABULARY, TOKENS)]
    wanted = np.concatenate([reference.logits(tokens), *reference.draft_logits(tokens)])
    known = np.isfinite(wanted).all(axis=1)  # the last rows of later heads have no token to read
    wanted = wanted[known].astype(np.float32)
    return Figures(wanted, folder, lambda files: with_head(files, tokens)[known])


QWEN = {
    "qwen3_5_text": (hf.Qwen3_5TextConfig, hf.Qwen3_5ForCausalLM),
    "qwen3_next": (hf.Qwen3NextConfig, hf.Qwen3NextForCausalLM),
    "qwen3_5_moe_text": (hf.Qwen3_5MoeTextConfig, hf.Qwen3_5MoeForCausalLM),
}
IN_PLACE = ("hidden_act", "rms_norm_eps", "norm_topk_prob", "num_experts_per_tok", "rope")
"""Options that need no other tensors."""


def of_qwen_head(kind: str, moves: Moves, folder: Path, seed: int) -> Figures:
    """Of a tiny Qwen, whose config is changed in place, then of its head."""
    if kind == "qwen3_5_text":
        write_tiny_qwen3_5(folder / "m", tied=False, seed=seed)
    else:
        write_tiny_experts(folder / "m", kind.removesuffix("_text"), seed=seed)
    path = folder / "m" / "config.json"
    config = json.loads(path.read_text())
    text = config.get("text_config", config)
    text |= {name: moves[name] for name in IN_PLACE if name in moves and name in text}
    if "rope" in moves:
        settings = QWEN[kind][0](**text)
        text["rope_parameters"] = rope_told(moves["rope"], settings.rope_parameters, settings)
    path.write_text(json.dumps(config))
    tokens = [int(t) for t in np.random.default_rng(seed).integers(1, VOCABULARY, TOKENS)]
    reference = qwen_reference(folder / "m", *QWEN[kind], tokens)
    wanted = [reference.logits(), reference.draft_logits(reference.hidden())]
    wanted = np.concatenate(wanted)
    return Figures(wanted, folder / "m", lambda files: with_head(files, tokens))


def with_head(folder: Path, tokens: list[int]) -> NDArray[np.float32]:
    """Our logits, then those of each head."""
    with mlx_engine.load(folder) as engine:
        if not engine.description.mtp_heads:
            raise EngineError(str(engine.description.mtp))
        found = [engine.logits(tokens), *engine.draft_logits(tokens)]
    return np.concatenate(found)[:, :VOCABULARY]


WITH_HEADS = (*tiny_nextn.TYPES, *tiny_nextn.OTHERS, *PUBLISHED, *QWEN, *HEADS)


def outcome(kind: str, moves: Moves, seed: int, figures: Part) -> Outcome:
    """Makes a model and compares."""
    folder = Path(tempfile.mkdtemp(prefix="parity-"))
    try:
        try:
            wanted, made, ours = figures(kind, moves, folder, seed)
        except Exception as error:  # whatever transformers says of it
            return Outcome(
                "not run by transformers", words=f"{type(error).__name__}: {error}"[:200]
            )
        if not np.isfinite(wanted).all():
            return Outcome("not run by transformers", words="not finite")
        try:
            found = ours(made)
        except EngineError as error:
            told = str(error).replace(str(folder), "")
            return Outcome("refused", words=f"{type(error).__name__}: {told}")
        except Exception as error:
            return Outcome("crashed", words=told_by(error))
        worst = relative(found[:, 1:], wanted[:, 1:])  # transformers may empty the row of padding
        is_recurrent = "linear_num_key_heads" in known_to(kind)
        most = MOST_WRONG_RECURRENT if is_recurrent else MOST_WRONG
        return Outcome("equal" if worst < most else "wrong", worst)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def row_by_row(folder: Path, tokens: list[int], config: Mapping[str, Any]) -> NDArray[np.float32]:
    """Transformers' logits, those of a text that LongRoPE has outgrown by its length so far."""
    whole = published_logits(folder, tokens)
    given = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if "longrope" not in str(given) or config.get("original_max_position_embeddings") != OUTSIDE:
        return whole
    return np.concatenate([published_logits(folder, tokens[:OUTSIDE]), whole[OUTSIDE:]])


def told_by(error: Exception) -> str:
    """On one line."""
    return ascii(f"{type(error).__name__}: {error}")[1:-1][:240]


def fewest(
    kind: str, moves: Moves, seed: int, like: Outcome, figures: Part
) -> tuple[Moves, Outcome]:
    """Leaves options out as long as it stays so."""
    kept, last = dict(moves), like
    for name in [*moves, *(f"rope.{key}" for key in moves.get("rope", {}))]:
        fewer = {key: value for key, value in kept.items() if key != name}
        if name == "rope":
            fewer.pop("style", None)
        if name.startswith("rope.") and "rope" in kept:
            rope = {k: v for k, v in kept["rope"].items() if k != name.removeprefix("rope.")}
            fewer["rope"] = rope
        if fewer == kept or ("style" in fewer) != ("rope" in fewer):
            continue
        found = outcome(kind, fewer, seed, figures)
        if found.what == like.what and (like.what == "wrong" or found.words == like.words):
            kept, last = fewer, found
    return kept, last


def sweep(kind: str, seeds: range, figures: Part, *, shrink: bool) -> float:
    """Prints what came of the models of one type; the worst error of those not wrong... or all."""
    counts: Counter[str] = Counter()
    worst, told, begun = 0.0, [], time.process_time()
    reasons: Counter[str] = Counter()
    for seed in seeds:
        moves = moves_of(kind, seed)
        found = outcome(kind, moves, seed, figures)
        counts[found.what] += 1
        if found.what == "equal":
            worst = max(worst, found.error)
        elif found.what in ("wrong", "crashed"):
            few, last = fewest(kind, moves, seed, found, figures) if shrink else (moves, found)
            told.append(f"    {found.what} {last.error:.1e} {last.words} seed {seed}: {few}")
        else:
            reasons[f"    {found.what}: {found.words} (seed {seed})"] += 1
    seconds = time.process_time() - begun
    numbers = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{kind}: {numbers}; worst of the equal {worst:.1e}; {seconds:.0f} s", flush=True)
    print("\n".join([*told, *reasons]), flush=True) if told or reasons else None
    return worst


def types(*, classes: bool) -> list[str]:
    """All that transformers has a class for texts of: ours, or those of mlx-lm's classes."""
    mapping = hf.models.auto.configuration_auto.CONFIG_MAPPING
    models = hf.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    found = []
    for kind in models:
        ours = kind.removesuffix("_text") in FAMILIES
        wanted = ours if not classes else not ours and mlx_lm_module_name(kind)
        if kind in mapping and wanted and "text_config" not in known_to(kind):
            found.append(kind)
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*")
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("--heads", action="store_true")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-shrink", action="store_true")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    mx.disable_compile()  # else each formula is compiled by a process of its own
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    seeds = range(asked.seed, asked.seed + asked.count)
    for kind in asked.types or (WITH_HEADS if asked.heads else types(classes=asked.classes)):
        sweep(kind, seeds, of_head if asked.heads else of_text, shrink=not asked.no_shrink)


if __name__ == "__main__":
    sys.exit(main())
