"""A tiny Qwen3.5 GGUF with rows of 256 in blocks that kernels read, or with the blocks' values."""

from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Types
from gguf.quants import dequantize
from gguf_files import RawTensor, gguf_bytes
from numpy.typing import NDArray
from tiny_gguf import Floats, converted, file_name, sizes_metadata, vocabulary_metadata
from tiny_qwen3_5 import tiny_config, tiny_values

HIDDEN, LAYERS = 256, 4

STEPS = {
    Types.Q6_K: {208: 4e-5},
    Types.Q3_K: {108: 1.5e-3},
    Types.Q2_K: {80: 4e-3, 82: 4e-3},
    Types.IQ4_NL: {0: 1e-3},
    Types.IQ4_XS: {0: 5e-5},
}
"""Of a block's float16 numbers: where, and how large for values of about 1/16."""

STORED = {
    "ffn_gate": Types.IQ4_XS,
    "ffn_up": Types.IQ4_XS,
    "ffn_down": Types.IQ4_NL,
    "attn_gate": Types.Q2_K,
    "attn_output": Types.Q2_K,
    "token_embd": Types.Q6_K,
    "nextn.eh_proj": Types.Q6_K,
    "ssm_out": Types.Q6_K,
}
"""Type of a matrix; all others are Q3_K."""


def write_kept_gguf(path: Path, *, blocks: bool, bad_scale: bool = False) -> Path:
    """blocks: as blocks, else their values in float32; bad_scale: one of them is not a number."""
    config = tiny_config(hidden=HIDDEN)
    text = config["text_config"]
    assert isinstance(text, dict)
    text |= {"intermediate_size": HIDDEN}
    values = tiny_values(config, 1)
    named = {file_name(name, LAYERS): converted(name, value) for name, value in values.head.items()}
    named[f"blk.{LAYERS}.nextn.shared_head_norm.weight"] = named.pop("output_norm.weight")
    named |= {file_name(name, 0): converted(name, value) for name, value in values.trunk.items()}
    tensors = [_raw(name, value, blocks, bad_scale) for name, value in named.items()]
    sizes = {
        "embedding_length": HIDDEN,
        "feed_forward_length": HIDDEN,
    }
    metadata = sizes_metadata("qwen35", 1) | {f"qwen35.{k}": v for k, v in sizes.items()}
    metadata |= vocabulary_metadata(path.parent / f"{path.stem}-tokenizer")
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


def _raw(name: str, value: Floats, blocks: bool, bad_scale: bool) -> RawTensor:
    if value.ndim != 2 or "conv1d" in name or value.shape[1] % 256:
        return RawTensor(name, 0, value.shape, value.tobytes())
    kind = next((kind for part, kind in STORED.items() if part in name), Types.Q3_K)
    made = blocks_of(kind, value.shape, len(name) + value.shape[0])
    if bad_scale and "ffn_down" in name:
        made.reshape(-1, 18)[3, :2] = 0x7E
    if blocks:
        return RawTensor(name, kind.value, value.shape, made.tobytes())
    return RawTensor(name, 0, value.shape, dequantize(made, kind).tobytes())


def blocks_of(kind: Types, shape: tuple[int, ...], seed: int) -> NDArray[np.uint8]:
    """Random blocks [rows, bytes of a row], the same for the same seed."""
    elements, nbytes = GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(seed)
    data = random.integers(0, 256, (shape[0], shape[1] // elements, nbytes), dtype=np.uint8)
    for at, size in STEPS[kind].items():
        steps = (size * random.normal(1, 0.2, data.shape[:2])).astype(np.float16)
        data[..., at : at + 2] = steps[..., None].view(np.uint8)
    return data.reshape(shape[0], -1)
