"""Folders of draft models as llama.cpp's converter writes them into GGUFs.

Written from that converter (LlamaModel, DFlashModel, DSparkModel, Gemma4DSparkModel and
Gemma4AssistantModel in conversion/), not from our loader.
"""

import json
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from converted_metadata import converted_metadata
from gguf_blocks import tensor
from gguf_files import RawTensor, gguf_bytes
from safetensors.numpy import load_file

NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "markov_head.markov_w1": "markov_w1",
    "markov_head.markov_w2": "markov_w2",
    "confidence_head.proj": "conf_proj",
    "candidate_selector.predecessor_codebook": "selector_predecessor",
    "candidate_selector.successor_codebook": "selector_successor",
    "candidate_selector.hidden_projection": "selector_hidden",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "attention_conv.kernel_projection": "attn_conv_proj",
    "mlp_conv.kernel_projection": "ffn_conv_proj",
}
"""Without .weight or .bias; of layers without their number."""
WHOLE = {
    "self_attn.attention_sink_bias": "attn_sinks.weight",
    "attention_conv.base_kernel": "attn_conv_base",
    "mlp_conv.base_kernel": "ffn_conv_base",
    "candidate_selector.predecessor_codebook": "selector_predecessor.weight",
    "candidate_selector.successor_codebook": "selector_successor.weight",
    "layer_scalar": "layer_output_scale.weight",
}
GEMMA = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
"""Of layers of Gemma 4 (Gemma4DSparkModel)."""


def convert_drafter(
    folder: Path,
    path: Path,
    kind: gguf.GGMLQuantizationType | None = None,
    *,
    unpacked: bool = False,
) -> Path:
    """The file. kind: type of its matrices, None for float32; unpacked: float32 of its values."""
    config = json.loads((folder / "config.json").read_text())
    config |= config.get("transformer_layer_config", {})
    values = load_file(folder / "model.safetensors")
    values.pop("t2d", None)
    is_eagle = not any("q_norm" in name for name in values)
    own = _eagle(config) if is_eagle else _dflash(config, values)
    architecture = "eagle3" if is_eagle else "dflash"
    metadata = {"general.architecture": architecture}
    metadata |= converted_metadata(architecture, config, config["num_hidden_layers"])
    rope = config.get("rope_parameters", {}).get("full_attention", config)
    metadata[f"{architecture}.rope.freq_base"] = float(rope["rope_theta"])
    tensors: list[RawTensor] = []
    if "d2t" in values:
        tokens = values.pop("d2t").astype(np.int64)
        tokens += np.arange(len(tokens))
        tensors.append(RawTensor("d2t", 27, tokens.shape, tokens.tobytes()))
    is_gemma = "global_head_dim" in config
    heads = {"q_proj.weight": "num_attention_heads", "k_proj.weight": "num_key_value_heads"}
    for name, value in values.items():
        key = next((heads[end] for end in heads if is_eagle and name.endswith(end)), None)
        rows = value if key is None else _interleaved(value, config[key])
        chosen = kind if value.ndim == 2 and not value.shape[1] % 32 else None
        tensors.append(
            tensor(
                _name(name, is_eagle=is_eagle, is_gemma=is_gemma), rows, chosen, unpacked=unpacked
            )
        )
    if size := config.get("global_head_dim"):
        turned = int(size * rope["partial_rotary_factor"] / 2)
        factors = np.array([1.0] * turned + [1e30] * (size // 2 - turned), np.float32)
        tensors.append(tensor("rope_freqs.weight", factors))
    metadata |= {f"{architecture}.{key}": value for key, value in own.items() if value is not None}
    metadata["tokenizer.ggml.tokens"] = [f"t{n}" for n in range(config["vocab_size"])]
    mask = metadata.pop("dflash.mask_token_id", None)
    metadata |= {} if mask is None else {"tokenizer.ggml.mask_token_id": mask}
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


def convert_assistant(folder: Path, path: Path) -> Path:
    """The file of an assistant of Gemma 4, without its clusters of tokens."""
    config = json.loads((folder / "config.json").read_text())
    text, name = config["text_config"], "gemma4-assistant"
    layers = text["num_hidden_layers"]
    plain = converted_metadata("gemma4", text, layers)
    metadata = {key.replace("gemma4.", f"{name}."): value for key, value in plain.items()}
    metadata |= {"general.architecture": name, f"{name}.nextn_predict_layers": layers}
    metadata[f"{name}.embedding_length_out"] = config["backbone_hidden_size"]
    metadata["tokenizer.ggml.tokens"] = [f"t{n}" for n in range(text["vocab_size"])]
    size, share = metadata[f"{name}.attention.key_length"], 0.25
    turned = int(size * share / 2)
    factors = np.array([1.0] * turned + [1e30] * (size // 2 - turned), np.float32)
    tensors = [tensor("rope_freqs.weight", factors)]
    for published, value in load_file(folder / "model.safetensors").items():
        plain_name = published.removeprefix("model.")
        if plain_name.startswith(("pre_projection", "post_projection")):
            tensors.append(tensor(f"nextn.{plain_name}", value))
        elif "masked_embedding" not in plain_name:
            tensors.append(tensor(_name(plain_name, is_eagle=False, is_gemma=True), value))
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


def _eagle(config: dict[str, Any]) -> dict[str, object]:
    return {
        "target_layers": np.array(config["eagle_aux_hidden_state_layer_ids"], np.int32),
        "target_hidden_size": config.get("target_hidden_size", config["hidden_size"]),
        "norm_before_residual": bool(config.get("norm_before_residual", False)),
        "norm_before_fc": bool(config.get("norm_before_fc", False)),
        "rope.dimension_count": config["head_dim"],
        "vocab_size": config["vocab_size"],
    }


def _dflash(config: dict[str, Any], values: dict[str, Any]) -> dict[str, object]:
    if ids := config.get("aux_hidden_state_layer_ids"):
        config["target_layer_ids"] = [layer - 1 for layer in ids]
    own = {**config, **config.get("dflash_config", {})}
    window = own.get("sliding_window") if own.get("use_sliding_window") else None
    causal = own.get("is_causal", own.get("causal"))
    slides = [kind == "sliding_attention" for kind in own.get("layer_types", ())]
    made = {
        "mask_token_id": own["mask_token_id"],
        "block_size": own["block_size"],
        "target_layers": np.array([layer + 1 for layer in own["target_layer_ids"]], np.int32),
        "logit_scale": own.get("output_multiplier"),
        "final_logit_softcapping": own.get("final_logit_softcapping"),
        "embedding_scale": own.get("input_embedding_scale"),
        "attention.value_scale": own.get("attention_value_scale"),
        "attention.sliding_window": window,
        "attention.sliding_window_pattern": np.array(slides) if window else None,
        "attention.causal": causal,
    }
    if share := own.get("rope_parameters", {}).get("partial_rotary_factor"):
        made["rope.dimension_count"] = int(own["head_dim"] * share)
    if size := own.get("global_head_dim"):
        made |= dict.fromkeys(("attention.key_length", "attention.value_length"), size)
        made |= {"rope.dimension_count": size, "attention.scale": 1.0}
        made["attention.head_count_kv"] = own["num_global_key_value_heads"]
        made["embedding_scale"] = own["hidden_size"] ** 0.5
        made["hidden_activation"] = own["hidden_activation"]
    keys = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
    made |= {key: own.get(key) for key in keys}
    is_spark = own.get("projector_type") == "dspark" or "DSpark" in own["architectures"][0]
    if is_spark or own.get("speculators_model_type") == "dspark":
        made["sample_from_anchor"] = config.get(
            "sample_from_anchor", "transformer_layer_config" not in config
        )
        made["has_confidence_head"] = any("confidence" in name for name in values)
        is_whole = own.get("draft_vocab_size") in (None, own["vocab_size"])
        if is_whole and "global_head_dim" not in own:
            values.pop("lm_head.weight", None)
    return made


def _interleaved(value: np.ndarray, heads: int) -> np.ndarray:
    return value.reshape(heads, 2, len(value) // heads // 2, -1).swapaxes(1, 2).reshape(value.shape)


def _name(name: str, *, is_eagle: bool, is_gemma: bool = False) -> str:
    plain = name.removeprefix("model.").replace("midlayer.", "layers.0.")
    prefix = ""
    if found := re.match(r"layers\.(\d+)\.", plain):
        prefix, plain = f"blk.{found[1]}.", plain[found.end() :]
    base, _, ending = plain.rpartition(".")
    if base == "hidden_norm":
        return f"{prefix}attn_norm_2.{ending}" if is_eagle else f"enc.output_norm.{ending}"
    if base == "input_norm":
        return f"enc.output_norm.{ending}"
    names = NAMES | GEMMA if is_gemma else NAMES
    return f"{prefix}{WHOLE.get(plain) or f'{names.get(base, base)}.{ending}'}"
