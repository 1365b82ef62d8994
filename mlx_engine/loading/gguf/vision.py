"""A vision tower in a GGUF file of its own (`mmproj-*.gguf`), as llama.cpp's converter writes."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from mlx_engine.loading.gguf.file import GgufFile, read_gguf
from mlx_engine.loading.gguf.metadata import GgufMetadata
from mlx_engine.loading.gguf.part import GgufPart, HfTensor, arrays_of_tensor
from mlx_engine.values.errors import UnsupportedModel

TowerKind = Literal["qwen3", "qwen3_vl", "gemma3", "gemma4", "gemma4_unified"]
"""Kinds of towers; that of Qwen3-VL is Qwen3.5's with deepstack."""

_BLOCK = re.compile(r"v\.blk\.(\d+)\.(\w+)")
_DEEP = re.compile(r"v\.deepstack\.(\d+)\.(norm|fc1|fc2)")
_SOUND = ("a.", "mm.a.")
"""Prefixes of tensors of an audio encoder in the same file, which is not read."""


class GgufTower(NamedTuple):
    """A vision tower's headers: fields as in config.json and preprocessor_config.json, tensors.

    Tensors have the tower's names in Hugging Face's files, the second frame's patch kernel that of
    the first and `.1`. out_hidden: size of the hidden states of the language model.
    """

    kind: TowerKind
    config: Mapping[str, object]
    processing: Mapping[str, object]
    tensors: Mapping[str, GgufPart]
    out_hidden: int


class _Form(NamedTuple):
    """Names that a GGUF file gives the parts of a tower; those in a block are behind `block`."""

    kind: TowerKind
    names: Mapping[str, str]
    block: str
    in_block: Mapping[str, str]
    read_config: Callable[[GgufFile, GgufMetadata], Mapping[str, object]]


def read_gguf_tower(path: Path) -> GgufTower:
    """Read a tower's headers from a GGUF file.

    Raises BadModelFile, and UnsupportedModel for towers of other kinds.
    """
    file = read_gguf(path)
    metadata = GgufMetadata(path, file.metadata)
    keys = ("projector_type", "vision.projector_type")  # the second beside an audio encoder's
    kind = next(filter(None, map(metadata.architecture_text, keys)), "")
    form = _FORMS.get(kind)
    if metadata.architecture != "clip" or form is None:
        raise UnsupportedModel("{path}: the picture part of another model.", path=path)
    deep_layers, tensors = _deep_layers(file), dict[str, GgufPart]()
    for name, stored in file.tensors.items():
        place = HfTensor(_vision_tensor_name(name, form, deep_layers))
        if place.name == "mm_soft_emb_norm.weight":
            place = HfTensor(place.name, change="subtract one")
        if not name.startswith(_SOUND):
            parts = arrays_of_tensor(stored, place, None, file.half_type)
            tensors |= {part.name: part for part in parts}
    processing: dict[str, object] = {}
    for field in ("image_mean", "image_std"):
        if metadata.has_key(f"vision.{field}"):
            processing[field] = list(metadata.numbers(f"vision.{field}", 3, 0.5))
    for field in ("min_pixels", "max_pixels"):
        if metadata.has_key(f"vision.image_{field}"):
            processing[field] = metadata.count(f"vision.image_{field}")
    config = form.read_config(file, metadata)
    size = metadata.count("vision.projection_dim")
    return GgufTower("qwen3_vl" if deep_layers else form.kind, config, processing, tensors, size)


def _deep_layers(file: GgufFile) -> list[int]:
    """Numbers of the layers whose outputs go into the language model, too (deepstack)."""
    return sorted({int(found[1]) for name in file.tensors if (found := _DEEP.match(name))})


def _sizes(metadata: GgufMetadata, depth: str, heads: str) -> dict[str, object]:
    """Fields of `vision_config` that all towers have; depth, heads: names of two of them."""
    return {
        depth: metadata.count("vision.block_count"),
        heads: metadata.count("vision.attention.head_count"),
        "hidden_size": metadata.count("vision.embedding_length"),
        "intermediate_size": metadata.count("vision.feed_forward_length"),
        "patch_size": metadata.count("vision.patch_size"),
    }


def _qwen3_config(file: GgufFile, metadata: GgufMetadata) -> Mapping[str, object]:
    fields = _sizes(metadata, "depth", "num_heads") | {
        "spatial_merge_size": metadata.count("vision.spatial_merge_size", 2),
        "num_position_embeddings": file.tensor("v.position_embd.weight").shape[0],
        "out_hidden_size": metadata.count("vision.projection_dim"),
        "deepstack_visual_indexes": _deep_layers(file),
    }
    return {"vision_config": fields}


def _gemma3_config(file: GgufFile, metadata: GgufMetadata) -> Mapping[str, object]:
    del file
    size, patch = metadata.count("vision.image_size"), metadata.count("vision.patch_size")
    pool = metadata.count("vision.projector.scale_factor", 4)
    fields = _sizes(metadata, "num_hidden_layers", "num_attention_heads") | {
        "image_size": size,
        "layer_norm_eps": metadata.number("vision.attention.layer_norm_epsilon", 1e-6),
    }
    side = size // max(1, patch * pool)
    return {"vision_config": fields, "mm_tokens_per_image": side**2}


def _gemma4_config(file: GgufFile, metadata: GgufMetadata) -> Mapping[str, object]:
    fields = _sizes(metadata, "num_hidden_layers", "num_attention_heads")
    heads = max(1, metadata.count("vision.attention.head_count"))
    fields |= {
        "head_dim": metadata.count("vision.embedding_length") // heads,
        "position_embedding_size": file.tensor("v.position_embd.weight").shape[1],
        "pooling_kernel_size": metadata.count("vision.projector.scale_factor", 3),
        "rms_norm_eps": metadata.number("vision.attention.layer_norm_epsilon", 1e-6),
        "use_clipped_linears": "v.blk.0.attn_q.input_min" in file.tensors,
        "standardize": "v.std_bias" in file.tensors,
    }
    return {"vision_config": fields}


def _gemma4_unified_config(file: GgufFile, metadata: GgufMetadata) -> Mapping[str, object]:
    fields = {
        "patch_size": metadata.count("vision.patch_size"),
        "pooling_kernel_size": metadata.count("vision.projector.scale_factor", 3),
        "mm_embed_dim": metadata.count("vision.embedding_length"),
        "mm_posemb_size": file.tensor("v.position_embd.weight").shape[1],
        "rms_norm_eps": metadata.number("vision.attention.layer_norm_epsilon", 1e-6),
        "colour_planes": True,
    }
    return {"vision_config": fields}


_FORMS = {
    "qwen3vl_merger": _Form(
        "qwen3",
        {
            "v.patch_embd": "patch_embed.proj",
            "v.position_embd": "pos_embed",
            "v.post_ln": "merger.norm",
            "mm.0": "merger.linear_fc1",
            "mm.2": "merger.linear_fc2",
        },
        "blocks",
        {
            "ln1": "norm1",
            "ln2": "norm2",
            "attn_qkv": "attn.qkv",
            "attn_out": "attn.proj",
            "ffn_up": "mlp.linear_fc1",
            "ffn_down": "mlp.linear_fc2",
        },
        _qwen3_config,
    ),
    "gemma3": _Form(
        "gemma3",
        {
            "v.patch_embd": "embeddings.patch_embedding",
            "v.position_embd": "embeddings.position_embedding",
            "v.post_ln": "post_layernorm",
            "mm.soft_emb_norm": "mm_soft_emb_norm",
            "mm.input_projection": "mm_input_projection",
        },
        "encoder.layers",
        {
            "ln1": "layer_norm1",
            "ln2": "layer_norm2",
            "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj",
            "attn_out": "self_attn.out_proj",
            "ffn_up": "mlp.fc1",
            "ffn_down": "mlp.fc2",
        },
        _gemma3_config,
    ),
    "gemma4v": _Form(
        "gemma4",
        {
            "v.patch_embd": "patch_embedder.input_proj",
            "v.position_embd": "patch_embedder.position_embedding_table",
            "mm.input_projection": "embed_vision.embedding_projection",
        },
        "encoder.layers",
        {
            "ln1": "input_layernorm",
            "ln2": "pre_feedforward_layernorm",
            "attn_post_norm": "post_attention_layernorm",
            "ffn_post_norm": "post_feedforward_layernorm",
            "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj",
            "attn_out": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm",
            "attn_k_norm": "self_attn.k_norm",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj",
        },
        _gemma4_config,
    ),
    "gemma4uv": _Form(
        "gemma4_unified",
        {
            "v.patch_embd": "patch_dense",
            "v.patch_norm.1": "patch_ln1",
            "v.patch_norm.2": "patch_ln2",
            "v.patch_norm.3": "pos_norm",
            "v.position_embd": "pos_embedding",
            "mm.input_projection": "embed_vision.embedding_projection",
        },
        "",
        {},
        _gemma4_unified_config,
    ),
}
"""Forms of towers by `clip.projector_type`."""


def _vision_tensor_name(name: str, form: _Form, deep_layers: Sequence[int]) -> str:
    """Translate a tensor's name; unknown ones stay, and have no place in the tower."""
    if name in ("v.std_bias", "v.std_scale"):
        return name.removeprefix("v.")
    base, dot, kind = name.partition(".weight") if ".weight" in name else name.rpartition(".")
    block, deep = _BLOCK.fullmatch(base), _DEEP.fullmatch(base)
    if deep is not None:
        merger = f"deepstack_merger_list.{deep_layers.index(int(deep[1]))}"
        return f"{merger}.{deep[2].replace('fc', 'linear_fc')}{dot}{kind}"
    if block is not None and block[2] in form.in_block:
        return f"{form.block}.{block[1]}.{form.in_block[block[2]]}{dot}{kind}"
    if base.endswith("position_embd") and form.kind in ("gemma4", "gemma4_unified"):
        return form.names[base]
    return f"{form.names[base]}{dot}{kind}" if base in form.names else name
