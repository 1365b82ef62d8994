"""The tiny Qwens, plain or with experts, as llama.cpp's converter would write them into a GGUF."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
from converted_metadata import converted_metadata
from gguf_blocks import tensor
from gguf_files import RawTensor, gguf_bytes
from numpy.typing import NDArray
from tiny_qwen3_5 import TinyValues, is_shifted_norm, tiny_config, tiny_values
from tiny_qwen_experts import Kind, experts_config, joined_projections
from tiny_tokenizer import CHATML, make_tiny_tokenizer

Floats = NDArray[np.float32]
Form = Literal["dense", "packed", "as packed"]
Heads = Literal["inside", "none", "only"]
Q8_0 = gguf.GGMLQuantizationType.Q8_0
GROUPS, HEADS_PER_GROUP, HEAD = 2, 2, 16
KEYS = 2 * GROUPS * HEAD
ARCHITECTURES = {"qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe", "qwen3_next": "qwen3next"}
HEAD_NAMES = {
    "fc": "nextn.eh_proj",
    "pre_fc_norm_embedding": "nextn.enorm",
    "pre_fc_norm_hidden": "nextn.hnorm",
}
RENAMED = {
    "mlp.switch_mlp.": "mlp.experts.",
    "linear_attn.dt_bias": "linear_attn.dt_proj.bias",
}
"""Names of ours that the gguf package's map does not know, in its words."""


def tiled(values: Floats) -> Floats:
    """Value heads, equal runs of rows, from group by group to all first ones, all second ones."""
    split = values.reshape(GROUPS, HEADS_PER_GROUP, -1, *values.shape[1:])
    return split.swapaxes(0, 1).reshape(values.shape)


def last_rows_tiled(values: Floats) -> Floats:
    return np.concatenate([values[:KEYS], tiled(values[KEYS:])])


TILED: dict[str, Callable[[Floats], Floats]] = {
    "linear_attn.in_proj_qkv.weight": last_rows_tiled,
    "linear_attn.conv1d.weight": last_rows_tiled,
    "linear_attn.in_proj_z.weight": tiled,
    "linear_attn.in_proj_b.weight": tiled,
    "linear_attn.in_proj_a.weight": tiled,
    "linear_attn.dt_bias": tiled,
    "linear_attn.A_log": tiled,
    "linear_attn.out_proj.weight": lambda values: tiled(values.T).T,
}


def write_tiny_gguf(
    path: Path,
    *,
    seed: int = 0,
    heads: Heads = "inside",
    claimed_heads: int = 1,
    form: Form = "dense",
    changes: Mapping[str, object] | None = None,
    without: str = "",
) -> Path:
    """Writes the file; one seed gives one model, the same as write_tiny_qwen3_5's.

    form: matrices in float32, in Q8_0, or in float32 as Q8_0 would make them. changes: metadata;
    without: a tensor to leave out.
    """

    def stored(name: str, value: Floats) -> RawTensor:
        is_matrix = value.ndim == 2 and "conv1d" not in name and "ssm_out" not in name
        kind = Q8_0 if is_matrix and form != "dense" else None
        return tensor(name, value, kind, unpacked=form == "as packed")

    return write_model(
        path,
        tiny_config(),
        stored,
        seed=seed,
        heads=heads,
        claimed_heads=claimed_heads,
        changes=changes,
        without=without,
    )


def write_tiny_gguf_experts(
    path: Path,
    kind: Kind,
    *,
    seed: int = 0,
    heads: Heads = "inside",
    joined_experts: bool = False,
    joined_projection: bool = False,
    quantised: gguf.GGMLQuantizationType | None = None,
    unpacked: bool = False,
    sizes: Mapping[str, int] | None = None,
    changes: Mapping[str, object] | None = None,
    without: str = "",
) -> Path:
    """Writes the file; one seed gives one model, the same as write_tiny_experts's.

    joined_experts: gate and up in one tensor. joined_projection: Qwen3-Next's queries, keys, values
    and gates in one, as older converters left them. quantised: the type of the experts; unpacked:
    in float32 as that type would make them. sizes: hidden_size and moe_intermediate_size, if not
    the usual ones.
    """
    return write_model(
        path,
        experts_config(kind, **dict(sizes or {})),
        lambda name, value: tensor(
            name, value, quantised if "exps" in name else None, unpacked=unpacked
        ),
        seed=seed,
        heads=heads,
        changes=changes,
        without=without,
        with_joined_experts=joined_experts,
        with_joined_projection=joined_projection,
    )


def write_model(
    path: Path,
    config: Mapping[str, object],
    stored: Callable[[str, Floats], RawTensor],
    *,
    seed: int = 0,
    values: TinyValues | None = None,
    heads: Heads = "inside",
    claimed_heads: int = 1,
    changes: Mapping[str, object] | None = None,
    without: str = "",
    with_joined_experts: bool = False,
    with_joined_projection: bool = False,
) -> Path:
    """stored: a tensor of the file from its name and values; values: in place of those of a seed.

    The rest is as in the functions above.
    """
    kind = config.get("model_type")
    text = config.get("text_config", config)
    architecture, layers = ARCHITECTURES[kind], text["num_hidden_layers"]

    def named(values: Mapping[str, Floats], first: int) -> dict[str, Floats]:
        if kind == "qwen3_next":
            values = _projections(values, with_joined_projection)
        found = {
            file_name(name, architecture, first): _converted(name, value, kind)
            for name, value in values.items()
        }
        return joined_experts(found) if with_joined_experts else found

    values, tensors = values or tiny_values(config, seed), dict[str, Floats]()
    if heads != "none":
        tensors |= named(values.head, layers)
        norm = f"blk.{layers}.nextn.shared_head_norm.weight"
        tensors[norm] = tensors.pop("output_norm.weight")
    if heads == "only":
        tensors["token_embd.weight"] = values.trunk["embed_tokens.weight"]
    else:
        tensors |= named(values.trunk, 0)
    tensors.pop(without, None)
    metadata = converted_metadata(architecture, text, layers + claimed_heads)
    metadata |= vocabulary_metadata(path.parent / f"{path.stem}-tokenizer") | dict(changes or {})
    path.write_bytes(gguf_bytes(metadata, [stored(*one) for one in tensors.items()]))
    return path


@cache
def _names(architecture: str) -> gguf.TensorNameMap:
    kind = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    return gguf.get_tensor_name_map(kind, 5)


def file_name(canonical: str, architecture: str, first_block: int) -> str:
    """By the gguf package's map."""
    names = _names(architecture)
    for ours, published in RENAMED.items():
        canonical = canonical.replace(ours, published)
    if canonical.startswith("layers."):
        _, number, rest = canonical.split(".", 2)
        canonical = f"model.layers.{int(number) + first_block}.{rest}"
    base, _, ending = canonical.rpartition(".")
    if base in HEAD_NAMES:
        return f"blk.{first_block}.{HEAD_NAMES[base]}.{ending}"
    tails = (".weight", ".bias")
    found = names.get_name(canonical, tails) or names.get_name(f"model.{canonical}", tails)
    assert found is not None, canonical
    return found


def _projections(values: Mapping[str, Floats], joined: bool) -> dict[str, Floats]:
    """Of Qwen3-Next: beta and decay in one, and all the rest in one or as it was."""
    gone = ("in_proj_qkv.weight", "in_proj_z.weight") if joined else ("in_proj_qkvz.weight",)
    gone += ("in_proj_b.weight", "in_proj_a.weight")
    both = {**values, **joined_projections(values)}
    return {name: value for name, value in both.items() if not name.endswith(gone)}


def _converted(canonical: str, value: Floats, kind: str) -> Floats:
    """Qwen3-Next keeps the order of value heads; a vector has one dimension in the file."""
    if is_shifted_norm(canonical):
        return value + np.float32(1)
    if canonical.endswith("shared_expert_gate.weight"):
        return value[0]
    if canonical.endswith("conv1d.weight"):
        value = value[..., 0]
    if canonical.endswith("A_log"):
        value = -np.exp(value)
    change = next((f for end, f in TILED.items() if canonical.endswith(end)), None)
    return value if change is None or kind == "qwen3_next" else change(value)


def joined_experts(named: Mapping[str, Floats]) -> dict[str, Floats]:
    """Gate and up of experts in one tensor."""
    made = dict(named)
    for name in named:
        base = name.replace("ffn_gate_exps.weight", "{}.weight")
        if base != name:
            parts = [made.pop(base.format(f"ffn_{part}_exps")) for part in ("gate", "up")]
            made[base.format("ffn_gate_up_exps")] = np.concatenate(parts, axis=1)
    return made


def vocabulary_metadata(folder: Path) -> dict[str, object]:
    """The tiny tokenizer, which is written to `folder`, as metadata."""
    return tokenizer_metadata(make_tiny_tokenizer(folder)) | {"tokenizer.chat_template": CHATML}


def tokenizer_metadata(folder: Path) -> dict[str, object]:
    """The tokenizer in a folder as metadata."""
    core = json.loads((folder / "tokenizer.json").read_text())
    added = {token["id"]: token for token in core["added_tokens"]}
    words = {i: text for text, i in core["model"]["vocab"].items()}
    words |= {i: token["content"] for i, token in added.items()}
    types = [(3 if added[i]["special"] else 4) if i in added else 1 for i in range(len(words))]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen35",
        "tokenizer.ggml.tokens": [words[i] for i in range(len(words))],
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in core["model"]["merges"]],
        "tokenizer.ggml.eos_token_id": next(
            i for i, token in added.items() if token["content"] == "<|im_end|>"
        ),
    }
