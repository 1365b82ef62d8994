"""The tiny Qwens with experts as llama.cpp's converter would write them into a GGUF."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
from converted_gguf import packed
from gguf.quants import dequantize
from gguf_files import RawTensor
from tiny_gguf import Floats, converted, file_name, sizes_metadata, write_model
from tiny_qwen3_5 import is_shifted_norm
from tiny_qwen_experts import (
    CHOSEN,
    COUNT,
    INNER,
    Kind,
    experts_values,
    joined_projections,
)

ARCHITECTURES = {"qwen3_5_moe": "qwen35moe", "qwen3_next": "qwen3next"}
NAMES = {
    "mlp.gate": "ffn_gate_inp",
    "mlp.switch_mlp.gate_proj": "ffn_gate_exps",
    "mlp.switch_mlp.up_proj": "ffn_up_exps",
    "mlp.switch_mlp.down_proj": "ffn_down_exps",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.in_proj_qkvz": "ssm_in",
}
Form = Literal["packed", "as packed"]


def write_tiny_gguf_experts(
    path: Path,
    kind: Kind,
    *,
    seed: int = 0,
    heads: Literal["inside", "none", "only"] = "inside",
    joined_experts: bool = False,
    joined_projection: bool = False,
    quantised: gguf.GGMLQuantizationType | None = None,
    form: Form = "packed",
    sizes: Mapping[str, int] | None = None,
    changes: Mapping[str, object] | None = None,
    without: str = "",
) -> Path:
    """Writes the file; one seed gives one model, the same as write_tiny_experts's.

    joined_experts: gate and up in one tensor. joined_projection: Qwen3-Next's queries, keys, values
    and gates in one, as older converters left them. quantised: the type of the experts, whose
    values are stored packed, or as float32 as that type would make them. sizes: hidden_size and
    moe_intermediate_size, if not the usual ones.
    """

    def tensors_of(values: Mapping[str, Floats], first_block: int) -> dict[str, Floats]:
        found = _file_tensors(values, kind, first_block, joined_projection)
        return _with_joined_experts(found) if joined_experts else found

    return write_model(
        path,
        experts_values(kind, seed, **dict(sizes or {})),
        _metadata(kind, sizes or {}) | dict(changes or {}),
        lambda name, value: _raw(name, value, quantised, form),
        tensors_of=tensors_of,
        heads=heads,
        without=without,
    )


def _file_tensors(
    values: Mapping[str, Floats], kind: Kind, first_block: int, joined_projection: bool
) -> dict[str, Floats]:
    if kind == "qwen3_next":
        joined = joined_projections(values)
        values = {
            n: v
            for n, v in {**values, **joined}.items()
            if not n.endswith(("in_proj_b.weight", "in_proj_a.weight"))
            and not (joined_projection and n.endswith(("in_proj_qkv.weight", "in_proj_z.weight")))
            and not (not joined_projection and n.endswith("in_proj_qkvz.weight"))
        }
    return {
        _name(name, first_block): _converted(name, value, kind) for name, value in values.items()
    }


def _name(canonical: str, first_block: int) -> str:
    if canonical.startswith("layers."):
        _, number, rest = canonical.split(".", 2)
        base, _, kind = rest.rpartition(".")
        if base in NAMES:
            return f"blk.{int(number) + first_block}.{NAMES[base]}.{kind}"
    return file_name(canonical, first_block)


def _converted(canonical: str, value: Floats, kind: Kind) -> Floats:
    """Qwen3-Next keeps the order of value heads; a vector has one dimension in the file."""
    if canonical.endswith("shared_expert_gate.weight"):
        return value[0]
    if kind == "qwen3_5_moe":
        return converted(canonical, value)
    if canonical.endswith("conv1d.weight"):
        return np.ascontiguousarray(value[..., 0])
    if canonical.endswith("A_log"):
        return -np.exp(value)
    return value + np.float32(1) if is_shifted_norm(canonical) else value


def _with_joined_experts(named: Mapping[str, Floats]) -> dict[str, Floats]:
    made = dict(named)
    for name in named:
        if name.endswith("ffn_gate_exps.weight"):
            up = name.replace("ffn_gate_exps", "ffn_up_exps")
            both = np.concatenate([made.pop(name), made.pop(up)], axis=1)
            made[name.replace("ffn_gate_exps", "ffn_gate_up_exps")] = both
    return made


def _raw(
    name: str, value: Floats, quantised: gguf.GGMLQuantizationType | None, form: Form
) -> RawTensor:
    value = np.ascontiguousarray(value, np.float32)
    if quantised is None or "exps" not in name:
        return RawTensor(name, 0, value.shape, value.tobytes())
    blocks = packed(value, quantised)
    if form == "packed":
        return RawTensor(name, quantised.value, value.shape, blocks.tobytes())
    return RawTensor(name, 0, value.shape, dequantize(blocks, quantised).tobytes())


def _metadata(kind: Kind, sizes: Mapping[str, int]) -> dict[str, object]:
    architecture = ARCHITECTURES[kind]
    own = {
        "expert_count": COUNT,
        "expert_used_count": CHOSEN,
        "expert_feed_forward_length": sizes.get("moe_intermediate_size", INNER),
        "expert_shared_feed_forward_length": INNER,
        "embedding_length": sizes.get("hidden_size", 64),
    }
    named = {f"{architecture}.{key}": value for key, value in own.items()}
    return sizes_metadata(architecture, 1) | named
