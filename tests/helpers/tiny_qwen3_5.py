"""A random Qwen3.5 of a few hundred kilobytes, as a folder in Hugging Face or MLX layout."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from tiny_tokenizer import make_tiny_tokenizer

from mlx_engine.models.families.qwen3_5 import Qwen35

Layout = Literal["hf", "mlx"]
Heads = Literal["inside", "beside", "sibling", "none"]
Arrays = dict[str, mx.array]

T = TypeVar("T")
_OURS = {
    "fc": "layers.0.join",
    "pre_fc_norm_embedding": "layers.0.enorm",
    "pre_fc_norm_hidden": "layers.0.hnorm",
    "norm": "layers.0.norm",
}
PREFIXES = {
    "hf": ("model.language_model.", "mtp."),
    "mlx": ("language_model.model.", "language_model.mtp."),
}


class TinyValues(NamedTuple):
    """Norms as w, convolutions [C, K, 1], all float32.

    trunk: by our names; head: by those published, without the prefix `mtp.`.
    """

    trunk: dict[str, NDArray[np.float32]]
    head: dict[str, NDArray[np.float32]]


def tiny_config(
    hidden: int = 64, layers: int = 4, vocabulary: int = 300, tied: bool = True
) -> dict[str, object]:
    """config.json of a tiny model: the last layer of two attends, or every fourth; an MTP head."""
    text = {
        "model_type": "qwen3_5_text",
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 512,
        "tie_word_embeddings": tied,
        "full_attention_interval": min(layers, 4),
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
        },
        "mtp_num_hidden_layers": 1,
    }
    return {"model_type": "qwen3_5", "text_config": text, "tie_word_embeddings": tied}


def tiny_values(config: Mapping[str, object], seed: int = 0) -> TinyValues:
    """Random weights. w of the norms is a multiple of 1/128, so 1 + w is exact in bfloat16."""
    spec = Qwen35("qwen3_5", config, "tiny").spec
    draw = np.random.default_rng(seed)
    trunk = {name: _draw(name, shape, draw) for name, shape in spec.tensors().items()}
    head = {name: _draw(name, shape, draw) for name, shape in spec.head_tensors().items()}
    return TinyValues(trunk, {_published(name): value for name, value in head.items()})


def our_names(head: Mapping[str, T]) -> dict[str, T]:
    """A head's tensors by published names, without their prefix, by ours."""
    made = {}
    for name, value in head.items():
        base, _, kind = name.rpartition(".")
        made[f"{_OURS[base]}.{kind}" if base in _OURS else name] = value
    return made


def _published(name: str) -> str:
    base, _, kind = name.rpartition(".")
    found = [published for published, ours in _OURS.items() if ours == base]
    return f"{found[0]}.{kind}" if found else name


def is_shifted_norm(name: str) -> bool:
    """The norms that Hugging Face stores as w and uses as 1 + w."""
    return "norm" in name and "linear_attn.norm" not in name


def write_tiny_qwen3_5(
    folder: Path,
    *,
    seed: int = 0,
    layout: Layout = "hf",
    bits: int | None = None,
    group_size: int = 32,
    heads: Heads = "inside",
    hidden: int = 64,
    layers: int = 4,
    vocabulary: int = 300,
    tied: bool = True,
    dtype: mx.Dtype = mx.float32,
    shards: int = 1,
    norm_shift: int | None = None,
    head_norm_shift: int | None = None,
) -> Path:
    """Writes the folder and returns it; one seed gives one model whatever the layout.

    bits: pack every matrix (affine, groups of group_size), None for dense. heads: in the shards, as
    mtp.safetensors beside them, in the folder `<folder>-MTP` without a prefix, or nowhere (the
    config promises them all the same). norm_shift: what is added to w in the files, else 0 for hf
    and 1 for mlx; head_norm_shift: the same for the head, else as the trunk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(hidden, layers, vocabulary, tied)
    values = tiny_values(config, seed)
    shift = norm_shift if norm_shift is not None else int(layout == "mlx")
    head_shift = head_norm_shift if head_norm_shift is not None else shift
    packing = None if bits is None else (bits, group_size)
    trunk = _named(
        _stored(values.trunk, layout, shift, packing, dtype), PREFIXES[layout][0], layout
    )
    head = _stored(values.head, layout, head_shift, packing, dtype)
    if heads == "inside":
        trunk |= _named(head, PREFIXES[layout][1], layout)
    elif heads == "beside":
        mx.save_safetensors(str(folder / "mtp.safetensors"), _named(head, "mtp.", layout))
    elif heads == "sibling":
        sibling = folder.parent / f"{folder.name}-MTP"
        sibling.mkdir(exist_ok=True)
        mx.save_safetensors(str(sibling / "model.safetensors"), head)
    if bits is not None:
        config["quantization"] = {"group_size": group_size, "bits": bits}
    _save_shards(folder, trunk, shards)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    make_tiny_tokenizer(folder, vocabulary)
    return folder


def _draw(name: str, shape: tuple[int, ...], draw: np.random.Generator) -> NDArray[np.float32]:
    if is_shifted_norm(name):
        steps = np.round(draw.normal(0, 0.15, shape) * 128) / 128
        return np.clip(steps, -0.5, 0.5).astype(np.float32)
    if name.endswith("linear_attn.norm.weight"):
        return (1 + draw.normal(0, 0.1, shape)).astype(np.float32)
    if name.endswith("A_log"):
        return np.log(draw.uniform(1, 8, shape)).astype(np.float32)
    if name == "embed_tokens.weight":
        return draw.normal(0, 0.25, shape).astype(np.float32)
    inputs = shape[1] if len(shape) > 1 else 1
    return draw.normal(0, inputs**-0.5, shape).astype(np.float32)


def _stored(
    values: Mapping[str, NDArray[np.float32]],
    layout: Layout,
    shift: int,
    packing: tuple[int, int] | None,
    dtype: mx.Dtype,
) -> Arrays:
    """Values as a file of this layout has them, still under canonical names."""
    stored: Arrays = {}
    for name, value in values.items():
        array = mx.array(value)
        if is_shifted_norm(name):
            array = array + shift
        if "conv1d" in name and layout == "hf":
            array = array.swapaxes(1, 2)
        if packing is not None and array.ndim == 2:
            bits, group_size = packing
            stored |= _packed(name, mx.quantize(array.astype(dtype), group_size, bits))
        else:
            stored[name] = mx.contiguous(array.astype(dtype))
    return stored


def _packed(name: str, parts: tuple[mx.array, ...]) -> Arrays:
    matrix = name.removesuffix(".weight")
    return dict(zip((name, f"{matrix}.scales", f"{matrix}.biases"), parts, strict=True))


def _named(arrays: Arrays, prefix: str, layout: Layout) -> Arrays:
    """Names of the files; lm_head stands beside the trunk, not in it."""
    outside = {"hf": "lm_head.", "mlx": "language_model.lm_head."}[layout]
    return {
        outside + name.removeprefix("lm_head.") if name.startswith("lm_head.") else prefix + name: a
        for name, a in arrays.items()
    }


def _save_shards(folder: Path, arrays: Arrays, shards: int) -> None:
    """model.safetensors, or numbered shards with an index."""
    if shards == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), arrays)
        return
    weight_map = {}
    names = list(arrays)
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = {name: arrays[name] for name in names[number::shards]}
        mx.save_safetensors(str(folder / file), part)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
