"""The tiny Qwen3.5 of tiny_qwen3_5.py as llama.cpp's converter would write it into a GGUF."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
from gguf.quants import dequantize, quantize
from gguf_files import RawTensor, gguf_bytes
from numpy.typing import NDArray
from tiny_qwen3_5 import TinyValues, is_shifted_norm, tiny_config, tiny_values
from tiny_tokenizer import CHATML, make_tiny_tokenizer

Floats = NDArray[np.float32]
Form = Literal["dense", "packed", "as packed"]
Q8_0 = gguf.GGMLQuantizationType.Q8_0
TensorsOf = Callable[[Mapping[str, Floats], int], dict[str, Floats]]
GROUPS, HEADS_PER_GROUP, HEAD = 2, 2, 16
KEYS = 2 * GROUPS * HEAD

NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.out_proj": "ssm_out",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "fc": "nextn.eh_proj",
    "pre_fc_norm_embedding": "nextn.enorm",
    "pre_fc_norm_hidden": "nextn.hnorm",
}


def tiled(values: Floats) -> Floats:
    """Value heads, equal runs of rows, from group by group to all first ones, all second ones."""
    split = values.reshape(GROUPS, HEADS_PER_GROUP, -1, *values.shape[1:])
    return split.swapaxes(0, 1).reshape(values.shape)


def last_rows_tiled(values: Floats) -> Floats:
    return np.concatenate([values[:KEYS], tiled(values[KEYS:])])


CONVERTED: dict[str, Callable[[Floats], Floats]] = {
    "linear_attn.in_proj_qkv.weight": last_rows_tiled,
    "linear_attn.conv1d.weight": lambda values: last_rows_tiled(values[..., 0]),
    "linear_attn.in_proj_z.weight": tiled,
    "linear_attn.in_proj_b.weight": tiled,
    "linear_attn.in_proj_a.weight": tiled,
    "linear_attn.dt_bias": tiled,
    "linear_attn.A_log": lambda values: tiled(-np.exp(values)),
    "linear_attn.out_proj.weight": lambda values: tiled(values.T).T,
}


def write_tiny_gguf(
    path: Path,
    *,
    seed: int = 0,
    heads: Literal["inside", "none", "only"] = "inside",
    claimed_heads: int = 1,
    form: Form = "dense",
    changes: Mapping[str, object] | None = None,
    without: str = "",
) -> Path:
    """Writes the file; one seed gives one model, the same as write_tiny_qwen3_5's.

    form: matrices in float32, in Q8_0, or in float32 as Q8_0 would make them. changes: metadata;
    without: a tensor to leave out.
    """
    metadata = sizes_metadata("qwen35", claimed_heads) | {"qwen35.feed_forward_length": 96}
    return write_model(
        path,
        tiny_values(tiny_config(), seed),
        metadata | dict(changes or {}),
        lambda name, value: _raw(name, value, form),
        heads=heads,
        without=without,
    )


def write_model(
    path: Path,
    values: TinyValues,
    metadata: Mapping[str, object],
    raw: Callable[[str, Floats], RawTensor],
    *,
    tensors_of: TensorsOf | None = None,
    heads: Literal["inside", "none", "only"] = "inside",
    without: str = "",
) -> Path:
    """metadata: beside the vocabulary's. raw: how a tensor of the file is stored.

    tensors_of: from canonical names and values, and the first block, those of the file.
    """
    tensors_of = tensors_of or _tensors
    named: dict[str, Floats] = {}
    if heads != "none":
        named |= tensors_of(values.head, 4)
        named["blk.4.nextn.shared_head_norm.weight"] = named.pop("output_norm.weight")
    if heads == "only":
        named["token_embd.weight"] = values.trunk["embed_tokens.weight"]
    else:
        named |= tensors_of(values.trunk, 0)
    named.pop(without, None)
    vocabulary = vocabulary_metadata(path.parent / f"{path.stem}-tokenizer")
    tensors = [raw(name, value) for name, value in named.items()]
    path.write_bytes(gguf_bytes({**vocabulary, **metadata}, tensors))
    return path


def _tensors(values: Mapping[str, Floats], first_block: int) -> dict[str, Floats]:
    return {file_name(name, first_block): converted(name, value) for name, value in values.items()}


def file_name(canonical: str, first_block: int) -> str:
    base, _, kind = canonical.rpartition(".")
    layer = ""
    if canonical.startswith("layers."):
        _, number, rest = canonical.split(".", 2)
        layer, base = f"blk.{int(number) + first_block}.", rest.rpartition(".")[0]
    if canonical.endswith("A_log"):
        return f"{layer}ssm_a"
    if canonical.endswith("dt_bias"):
        return f"{layer}ssm_dt.bias"
    name = NAMES[base]
    block = f"blk.{first_block}." if name.startswith("nextn") else layer
    return f"{block}{name}.{kind}"


def converted(canonical: str, value: Floats) -> Floats:
    change = next((f for end, f in CONVERTED.items() if canonical.endswith(end)), None)
    if change is not None:
        return np.ascontiguousarray(change(value), np.float32)
    return value + np.float32(1) if is_shifted_norm(canonical) else value


def _raw(name: str, value: Floats, form: Form) -> RawTensor:
    is_matrix = value.ndim == 2 and "conv1d" not in name and "ssm_out" not in name
    if form == "dense" or not is_matrix:
        return RawTensor(name, 0, value.shape, value.tobytes())
    blocks = quantize(value, Q8_0)
    if form == "packed":
        return RawTensor(name, Q8_0.value, value.shape, blocks.tobytes())
    return RawTensor(name, 0, value.shape, dequantize(blocks, Q8_0).tobytes())


def vocabulary_metadata(folder: Path) -> dict[str, object]:
    """The tiny tokenizer, which is written to `folder`, as metadata."""
    core = json.loads((make_tiny_tokenizer(folder) / "tokenizer.json").read_text())
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
        "tokenizer.chat_template": CHATML,
    }


def sizes_metadata(architecture: str, claimed_heads: int) -> dict[str, object]:
    """What the tiny models of all architectures have in common."""
    own = {
        "block_count": 4 + claimed_heads,
        "context_length": 512,
        "embedding_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 32,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": 8,
        "nextn_predict_layers": claimed_heads,
        "ssm.conv_kernel": 4,
        "ssm.state_size": HEAD,
        "ssm.group_count": GROUPS,
        "ssm.time_step_rank": GROUPS * HEADS_PER_GROUP,
        "ssm.inner_size": GROUPS * HEADS_PER_GROUP * HEAD,
        "full_attention_interval": 4,
    }
    named = {f"{architecture}.{key}": value for key, value in own.items()}
    return named | {"general.architecture": architecture}
