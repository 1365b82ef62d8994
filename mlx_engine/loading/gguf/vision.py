"""A vision tower in a GGUF file of its own (`mmproj-*.gguf`), as llama.cpp's converter writes."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlx_engine.loading.gguf.file import read_gguf
from mlx_engine.loading.gguf.metadata import GgufMetadata
from mlx_engine.loading.gguf.part import GgufPart, HfTensor, arrays_of_tensor
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

_NAMES = {
    "v.patch_embd": "patch_embed.proj",
    "v.position_embd": "pos_embed",
    "v.post_ln": "merger.norm",
    "mm.0": "merger.linear_fc1",
    "mm.2": "merger.linear_fc2",
}
_IN_BLOCK = {
    "ln1": "norm1",
    "ln2": "norm2",
    "attn_qkv": "attn.qkv",
    "attn_out": "attn.proj",
    "ffn_up": "mlp.linear_fc1",
    "ffn_down": "mlp.linear_fc2",
}
_BLOCK = re.compile(r"v\.blk\.(\d+)\.(\w+)")


class GgufTower(NamedTuple):
    """A vision tower's headers: fields as in `vision_config` and preprocessor_config.json, tensors.

    Tensors have the tower's names in Hugging Face's files, the second frame's patch kernel that of
    the first and `.1`.
    """

    config: Mapping[str, object]
    processing: Mapping[str, object]
    tensors: Mapping[str, GgufPart]


def read_gguf_tower(path: Path) -> GgufTower:
    """Read a Qwen3.5 tower's headers from a GGUF file.

    Raises BadModelFile, and UnsupportedModel for towers of other kinds.
    """
    file = read_gguf(path)
    metadata = GgufMetadata(path, file.metadata)
    kind = metadata.architecture_text("projector_type")
    is_deep = any(name.startswith("v.deepstack.") for name in file.tensors)  # Qwen3-VL's
    if metadata.architecture != "clip" or kind != "qwen3vl_merger" or is_deep:
        raise UnsupportedModel("{path}: the picture part of another model.", path=path)
    count = metadata.count
    learned = file.tensor("v.position_embd.weight")
    config = {
        "depth": count("vision.block_count"),
        "hidden_size": count("vision.embedding_length"),
        "intermediate_size": count("vision.feed_forward_length"),
        "num_heads": count("vision.attention.head_count"),
        "patch_size": count("vision.patch_size"),
        "spatial_merge_size": count("vision.spatial_merge_size", 2),
        "num_position_embeddings": learned.shape[0],
        "out_hidden_size": count("vision.projection_dim"),
    }
    tensors = {}
    for name, stored in file.tensors.items():
        for part in arrays_of_tensor(
            stored, HfTensor(_vision_tensor_name(name)), None, file.half_type
        ):
            tensors[part.name] = part
    keys = {"image_mean": "clip.vision.image_mean", "image_std": "clip.vision.image_std"}
    processing: dict[str, object] = {
        ours: _read_number_list(path, file.metadata, key) for ours, key in keys.items()
    }
    limits = {"min_pixels": "vision.image_min_pixels", "max_pixels": "vision.image_max_pixels"}
    processing |= {ours: count(key) for ours, key in limits.items() if metadata.has_key(key)}
    return GgufTower(config, processing, tensors)


def _vision_tensor_name(name: str) -> str:
    """Translate a tensor's name; unknown ones stay, and have no place in the tower."""
    base, dot, kind = name.partition(".weight") if ".weight" in name else name.rpartition(".")
    block = _BLOCK.fullmatch(base)
    if block is not None and block[2] in _IN_BLOCK:
        return f"blocks.{block[1]}.{_IN_BLOCK[block[2]]}{dot}{kind}"
    return f"{_NAMES[base]}{dot}{kind}" if base in _NAMES else name


def _read_number_list(
    path: Path, metadata: Mapping[str, object], metadata_key: str
) -> list[float] | None:
    values = metadata.get(metadata_key)
    if values is None:
        return None
    numbers = np.asarray(values)
    if numbers.shape != (3,) or numbers.dtype.kind != "f":
        raise BadModelFile("{path}: {key} is not three numbers.", path=path, key=metadata_key)
    return [float(number) for number in numbers]
