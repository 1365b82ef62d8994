"""A tiny Qwen3.5 GGUF with rows of 256 in blocks that kernels read, or with the blocks' values."""

from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Types
from gguf_blocks import put_halves, tensor
from gguf_files import RawTensor
from numpy.typing import NDArray
from tiny_gguf import Floats, write_model
from tiny_qwen3_5 import tiny_config

HIDDEN = 256
OF_EXPERTS = {
    "hidden_size": HIDDEN,
    "moe_intermediate_size": HIDDEN,
    "num_hidden_layers": 2,
    "full_attention_interval": 2,
}
"""Of a model with experts in such rows, a layer of each kind."""

_STEPS = {
    Types.Q6_K: {208: 4e-5},
    Types.Q3_K: {108: 1.5e-3},
    Types.Q2_K: {80: 4e-3, 82: 4e-3},
    Types.IQ4_NL: {0: 1e-3},
    Types.IQ4_XS: {0: 5e-5},
    Types.IQ2_XXS: {0: 1.5e-3},
    Types.IQ2_XS: {0: 1.5e-3},
    Types.IQ2_S: {0: 1.5e-3},
}
"""Of a block's float16 numbers: where, and how large for values of about 1/16."""

_STORED = {
    "ffn_gate": Types.IQ4_XS,
    "ffn_up": Types.IQ4_XS,
    "ffn_down": Types.IQ4_NL,
    "attn_gate": Types.Q2_K,
    "attn_k": Types.IQ2_XS,
    "attn_q.": Types.IQ2_XXS,
    "attn_output": Types.Q2_K,
    "attn_qkv": Types.IQ2_S,
    "token_embd": Types.Q6_K,
    "nextn.eh_proj": Types.Q6_K,
    "ssm_out": Types.Q6_K,
}
"""Type of a matrix; all others are Q3_K."""


def write_kept_gguf(
    path: Path, *, blocks: bool, bad_scale: bool = False, kind: Types | None = None
) -> Path:
    """blocks: as blocks, else their values in float32; bad_scale: one of them is not a number;
    kind: of all matrices, if not one of each.
    """
    config = tiny_config(hidden=HIDDEN, layers=2)
    text = config["text_config"]
    assert isinstance(text, dict)
    text |= {"intermediate_size": HIDDEN, "linear_value_head_dim": HIDDEN // 4}

    def kept(name: str, value: Floats) -> RawTensor:
        return _kept(name, value, kind or _kind_of(name), blocks, bad_scale)

    return write_model(path, config, kept, seed=1)


def _kind_of(name: str) -> Types:
    return next((kind for part, kind in _STORED.items() if part in name), Types.Q3_K)


def _kept(name: str, value: Floats, kind: Types, blocks: bool, bad_scale: bool) -> RawTensor:
    if value.ndim != 2 or "conv1d" in name or value.shape[1] % 256:
        return tensor(name, value)
    made = blocks_of(kind, value.shape, len(name) + value.shape[0])
    if bad_scale and "ffn_down" in name:
        made.reshape(-1, 18)[3, :2] = 0x7E
    return tensor(name, value, kind, blocks=made, unpacked=not blocks)


def blocks_of(kind: Types, shape: tuple[int, ...], seed: int) -> NDArray[np.uint8]:
    """Random blocks [rows, bytes of a row], the same for the same seed."""
    elements, nbytes = GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(seed)
    data = random.integers(0, 256, (shape[0], shape[1] // elements, nbytes), dtype=np.uint8)
    steps = _STEPS[kind]
    halves = {at: size * random.normal(1, 0.2, data.shape[:2]) for at, size in steps.items()}
    put_halves(data, kind.name, halves)
    return data.reshape(shape[0], -1)
