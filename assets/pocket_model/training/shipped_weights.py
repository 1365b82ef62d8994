"""Read the shipped 8-bit folder back into the training model, to measure what users get."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from export import BITS, GROUP_SIZE
from model import Config
from pocket import Pocket


def load_shipped(folder: Path) -> Pocket:
    """The model of an exported MLX folder, its weights dequantised to float32."""
    text = json.loads((folder / "config.json").read_text(encoding="utf-8"))["text_config"]
    sizes = {name: text[name] for name in Config.__dataclass_fields__ if name in text}
    arrays = mx.load(str(folder / "model.safetensors"))
    assert isinstance(arrays, dict)
    weights = {}
    for name, array in arrays.items():
        if not name.endswith((".scales", ".biases")):
            inner = name.removeprefix("language_model.")
            trunk = inner.removeprefix("model.")
            published = inner if trunk == inner else f"model.language_model.{trunk}"
            weights[published] = torch.from_numpy(restore(name, array, arrays))
    model = Pocket(Config(**sizes))
    model.load_state_dict(weights)
    return model.eval()


def restore(name: str, array: mx.array, arrays: dict[str, mx.array]) -> np.ndarray:
    """One stored array as the training model's parameter."""
    stem = name.removesuffix(".weight")
    if f"{stem}.scales" in arrays:
        scales, biases = arrays[f"{stem}.scales"], arrays[f"{stem}.biases"]
        array = mx.dequantize(array, scales, biases, GROUP_SIZE, BITS)
    weight = np.array(array.astype(mx.float32))
    if "conv1d" in name:
        return np.moveaxis(weight, 1, 2).copy()
    is_shifted = "norm" in name and not name.endswith("linear_attn.norm.weight")
    return weight - 1.0 if is_shifted and weight.ndim == 1 else weight
