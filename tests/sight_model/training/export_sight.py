"""Write trained weights as a folder in MLX layout: 8 bits, the tower in float16."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
from export import BITS, GROUP_SIZE, convert, describe, write
from sight import MERGE, PATCH, SECTIONS, SIDE, TowerConfig, trunk_config
from tokenizers import Tokenizer
from tokens import END_OF_TEXT, IM_END
from train_sight import ALL_SPECIAL

TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}{%- else %}"
    "{%- for part in message.content %}{%- if part.type == 'text' %}{{- part.text }}{%- else %}"
    "{{- '<|vision_start|><|image_pad|><|vision_end|>' }}{%- endif %}{%- endfor %}{%- endif %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
PROCESSING = {
    "size": {"shortest_edge": 9000, "longest_edge": 9800},
    "patch_size": PATCH,
    "temporal_patch_size": 2,
    "merge_size": MERGE,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "image_processor_type": "Qwen2VLImageProcessorFast",
}


def describe_sight(vocabulary: int, tokenizer: Tokenizer) -> dict[str, Any]:
    """config.json with the tower's sizes."""
    trunk = trunk_config(vocabulary)
    config = describe(trunk, tokenizer.token_to_id(IM_END))
    text = config["text_config"]
    text["rope_parameters"]["mrope_section"] = list(SECTIONS)
    text["max_position_embeddings"] = 4096
    text["dtype"] = config["dtype"] = "float16"
    config["quantization"] = {"group_size": GROUP_SIZE, "bits": BITS, "mode": "affine"}
    config["vision_config"] = {
        "model_type": "qwen3_5",
        **asdict(TowerConfig()),
        "in_channels": 3,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "num_position_embeddings": (SIDE // PATCH) ** 2,
        "hidden_act": "gelu_pytorch_tanh",
        "deepstack_visual_indexes": [],
    }
    for word in ("image_pad", "vision_start", "vision_end"):
        name = {"image_pad": "image_token_id"}.get(word, f"{word}_token_id")
        config[name] = tokenizer.token_to_id(f"<|{word}|>")
    return config


def tower_arrays(name: str, weight: np.ndarray) -> dict[str, mx.array]:
    """A weight of the tower in MLX layout: the patch kernel [out, 2, side, side, 3]."""
    if name == "patch_embed.proj.weight":
        kernel = weight.reshape(-1, 1, 3, PATCH, PATCH).transpose(0, 1, 3, 4, 2) / 2
        weight = np.concatenate([kernel, kernel], axis=1)
    return {f"vision_tower.{name}": mx.array(weight).astype(mx.float16)}


def main() -> None:
    """Export a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, mx.array] = {}
    weights = torch.load(args.run / "weights.pt")
    for name, weight in weights.items():
        value = weight.float().numpy()
        if name.startswith("model.visual."):
            arrays |= tower_arrays(name.removeprefix("model.visual."), value)
        else:
            inner = name.replace("model.language_model.", "model.")
            arrays |= convert(f"language_model.{inner}", value)
    mx.save_safetensors(str(args.out / "model.safetensors"), arrays, metadata={"format": "mlx"})
    tokenizer = Tokenizer.from_file(str(args.run / "tokenizer.json"))
    rows = weights["model.language_model.embed_tokens.weight"].shape[0]
    write(args.out / "config.json", describe_sight(rows, tokenizer))
    write(args.out / "preprocessor_config.json", PROCESSING)
    end, fill = (tokenizer.token_to_id(name) for name in (IM_END, END_OF_TEXT))
    write(args.out / "generation_config.json", {"eos_token_id": [end, fill], "do_sample": False})
    write(
        args.out / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 4096,
            "eos_token": IM_END,
            "pad_token": END_OF_TEXT,
            "additional_special_tokens": [*ALL_SPECIAL[1:]],
            "clean_up_tokenization_spaces": False,
            "chat_template": TEMPLATE,
        },
    )
    shutil.copy(args.run / "tokenizer.json", args.out / "tokenizer.json")


if __name__ == "__main__":
    main()
