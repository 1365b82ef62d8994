"""Write the trained weights as a Hugging Face folder (bfloat16) or as the shipped MLX folder."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from model import Config
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokens import IM_END

GROUP_SIZE, BITS = 64, 8
COPIED = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def describe(config: Config, end: int) -> dict[str, Any]:
    """config.json of a published Qwen3.5 checkpoint with these sizes."""
    kinds = [config.is_linear(i) for i in range(config.num_hidden_layers)]
    text = {
        "model_type": "qwen3_5_text",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": 16384,
        "initializer_range": 0.02,
        "rms_norm_eps": config.rms_norm_eps,
        "use_cache": True,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": config.rope_theta,
            "partial_rotary_factor": config.partial_rotary_factor,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
        "linear_conv_kernel_dim": config.linear_conv_kernel_dim,
        "linear_key_head_dim": config.linear_head_dim,
        "linear_value_head_dim": config.linear_head_dim,
        "linear_num_key_heads": config.linear_num_key_heads,
        "linear_num_value_heads": config.linear_num_value_heads,
        "layer_types": ["linear_attention" if k else "full_attention" for k in kinds],
        "full_attention_interval": config.full_attention_interval,
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "eos_token_id": end,
    }
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "text_config": text,
        "tie_word_embeddings": True,
    }


def hugging_face(weights: dict[str, torch.Tensor], config: dict[str, Any], out: Path) -> None:
    """The published layout: bfloat16, norms as w."""
    narrow = {name: w.to(torch.bfloat16).contiguous() for name, w in weights.items()}
    save_file(narrow, out / "model.safetensors", metadata={"format": "pt"})
    config["text_config"]["dtype"] = config["dtype"] = "bfloat16"
    write(out / "config.json", config)


def shipped(weights: dict[str, torch.Tensor], config: dict[str, Any], out: Path) -> None:
    """The layout mlx_lm's converter writes, with the head kept: 8-bit matrices, norms as 1 + w."""
    arrays: dict[str, mx.array] = {}
    for name, weight in weights.items():
        new = "language_model." + name.replace("model.language_model.", "model.")
        arrays.update(convert(new, weight.float().numpy()))
    mx.save_safetensors(str(out / "model.safetensors"), arrays, metadata={"format": "mlx"})
    config["quantization"] = {"group_size": GROUP_SIZE, "bits": BITS, "mode": "affine"}
    config["text_config"]["dtype"] = config["dtype"] = "float16"
    write(out / "config.json", config)


def convert(name: str, weight: np.ndarray) -> dict[str, mx.array]:
    """One parameter as the arrays that store it."""
    if name.endswith("A_log"):
        return {name: mx.array(weight)}
    if "conv1d" in name:  # [channels, 1, taps] -> [channels, taps, 1]
        return {name: mx.array(np.moveaxis(weight, 2, 1)).astype(mx.float16)}
    if weight.ndim == 2:
        packed = mx.quantize(mx.array(weight).astype(mx.float16), group_size=GROUP_SIZE, bits=BITS)
        stem = name.removesuffix(".weight")
        parts = ("weight", "scales", "biases")
        return {f"{stem}.{part}": array for part, array in zip(parts, packed, strict=True)}
    if "norm" in name and not name.endswith("linear_attn.norm.weight"):
        weight = weight + 1.0
    return {name: mx.array(weight).astype(mx.float16)}


def write(path: Path, value: object) -> None:
    """JSON with a line end."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Export state.pt of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layout", choices=("mlx", "hf"), default="mlx")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    state = torch.load(args.run / "state.pt")
    end = Tokenizer.from_file(str(args.run / "tokenizer.json")).token_to_id(IM_END)
    config = describe(Config(**state["config"]), end)
    (hugging_face if args.layout == "hf" else shipped)(state["weights"], config, args.out)
    for name in COPIED:
        shutil.copy(args.run / name, args.out / name)


if __name__ == "__main__":
    main()
