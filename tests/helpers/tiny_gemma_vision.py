"""Random Gemmas that see, as folders and GGUF files, and what transformers says of them."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import gguf
import mlx.core as mx
import numpy as np
import tokenizers
import torch
import transformers as hf
from converted_gguf import convert
from gguf_blocks import tensor
from gguf_files import RawTensor, gguf_bytes
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tiny_gguf import tokenizer_metadata
from tiny_published import draw
from tiny_tokenizer import make_tiny_tokenizer
from tiny_vision import TEMPLATE

from mlx_engine.values.picture import Picture

Kind = Literal["gemma3", "gemma4", "gemma4 small", "gemma4 12b"]
KINDS: tuple[Kind, ...] = ("gemma3", "gemma4", "gemma4 small", "gemma4 12b")
CLASSES = {"gemma3": "Gemma3", "gemma4 12b": "Gemma4Unified"}
VOCABULARY, PLACEHOLDER = 300, 298
MARKS = {
    "gemma3": ("<start_of_image>", "<image_soft_token>", "<end_of_image>"),
    "gemma4": ("<|image>", "<|image|>", "<image|>"),
}
IN_TEMPLATE = {"gemma3": "<start_of_image>", "gemma4": "\n\n<|image|>\n\n"}
PROJECTORS = ("clip.projector_type", "clip.vision.projector_type")
IDS = {"boi": 297, "eoi": 299}
_TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "sliding_window": 6,
    "max_position_embeddings": 512,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 294,
}
_VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": 4,
}
PROCESSING: dict[str, dict[str, object]] = {
    "gemma3": {
        "size": {"height": 24, "width": 24},
        "image_mean": [0.5, 0.4, 0.5],
        "image_std": [0.5, 0.5, 0.4],
        "resample": 2,
    },
    "gemma4": {"max_soft_tokens": 70, "patch_size": 4, "pooling_kernel_size": 2, "resample": 3},
}


def family(kind: Kind) -> str:
    return kind.split()[0]


def _config(kind: Kind) -> hf.PreTrainedConfig:
    if kind == "gemma3":
        return hf.Gemma3Config(
            text_config=_TEXT | {"query_pre_attn_scalar": 16},
            vision_config=_VISION
            | {"model_type": "siglip_vision_model", "image_size": 24, "vision_use_head": False},
            mm_tokens_per_image=9,
            boi_token_index=IDS["boi"],
            eoi_token_index=IDS["eoi"],
            image_token_index=PLACEHOLDER,
        )
    marks = {
        "boi_token_id": IDS["boi"],
        "eoi_token_id": IDS["eoi"],
        "image_token_id": PLACEHOLDER,
        "video_token_id": -1,
        "audio_token_id": -1,
    }
    if kind == "gemma4 12b":
        vision = {"patch_size": 4, "pooling_kernel_size": 2, "mm_embed_dim": 32,
                  "mm_posemb_size": 280, "output_proj_dims": 32}  # fmt: skip
        text = _TEXT | {"global_head_dim": 32, "final_logit_softcapping": 20.0}
        return hf.Gemma4UnifiedConfig(text_config=text, vision_config=vision, **marks)
    is_small = kind == "gemma4 small"
    text = {
        "global_head_dim": 32,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 16 if is_small else 0,
        "use_bidirectional_attention": None if is_small else "vision",
        "num_kv_shared_layers": 0,
        "final_logit_softcapping": 20.0,
    }
    vision = {
        "num_key_value_heads": 2,
        "head_dim": 16,
        "pooling_kernel_size": 2,
        "position_embedding_size": 560,
        "use_clipped_linears": is_small,
        "standardize": not is_small,
    }
    return hf.Gemma4Config(
        text_config=_TEXT | text,
        vision_config=_VISION | vision,
        **marks,
    )


@cache
def reference(kind: Kind) -> hf.PreTrainedModel:
    """transformers' model, in float32."""
    torch.manual_seed(7)
    name = CLASSES.get(kind, "Gemma4")
    model = getattr(hf, f"{name}ForConditionalGeneration")(_config(kind)).eval().float()
    with torch.no_grad():
        for part, value in [*model.named_parameters(), *model.named_buffers()]:
            if part.endswith(("_min", "_max")):
                value.fill_(-0.9 if part.endswith("_min") else 0.7)
            elif part.endswith(("position_embedding_table", "pos_embedding")):
                value.normal_(0, 0.3)
            elif part.endswith("input_projection_weight"):
                value.normal_(0, 0.2)
            else:
                draw(part, value, 2.0, is_unscaled=kind != "gemma3")
    return model


def write_gemma(
    folder: Path,
    kind: Kind,
    layout: Literal["hf", "mlx"] = "hf",
    bits: int | None = None,
    changes: Mapping[str, object] | None = None,
) -> Path:
    """Writes the folder; bits: of the tower's matrices. changes: of `vision_config`."""
    reference(kind).save_pretrained(folder)
    stored = load_file(folder / "model.safetensors")
    made: dict[str, NDArray[np.generic]] = {}
    for name, value in stored.items():
        is_tower = "vision" in name or "projector" in name
        place = name.removeprefix("model.") if layout == "mlx" else name
        if kind == "gemma3":
            place = place.replace("vision_tower.", "vision_tower.vision_model.")
        is_kernel = layout == "mlx" and value.ndim == 4
        array = value.transpose(0, 2, 3, 1) if is_kernel else value
        if bits and is_tower and name.endswith(".weight") and value.shape[1:] == (32,):
            base, parts = place.removesuffix(".weight"), ("weight", "scales", "biases")
            packed = zip(parts, mx.quantize(mx.array(value), 32, bits), strict=True)
            made |= {f"{base}.{part}": np.array(piece) for part, piece in packed}
        else:
            made[place] = np.ascontiguousarray(array)
    save_file(made, folder / "model.safetensors", metadata={"format": "mlx"} if bits else None)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["vision_config"] |= dict(changes or {})
    path.write_text(json.dumps(config))
    processing = json.dumps(PROCESSING[family(kind)])
    (folder / "preprocessor_config.json").write_text(processing, encoding="utf-8")
    write_tokenizer(folder, kind)
    return folder


def write_tokenizer(folder: Path, kind: Kind) -> None:
    """The tiny tokenizer with a family's marks of pictures, and a template that writes them."""
    written = IN_TEMPLATE[family(kind)].replace("\n", "\\n")
    template = TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", written)
    make_tiny_tokenizer(folder, VOCABULARY - 3, template)
    file = folder / "tokenizer.json"
    marked = tokenizers.Tokenizer.from_file(str(file))
    marked.add_special_tokens([*MARKS[family(kind)]])
    marked.save(str(file))


def image_processor(kind: Kind, **changes: int) -> hf.BaseImageProcessor:
    """transformers' processor of pictures; the 12B's own needs torchvision, and cuts likewise."""
    if kind == "gemma4 12b":
        changes = {"patch_size": 8, "pooling_kernel_size": 1} | changes
    made = hf.Gemma3ImageProcessorPil if kind == "gemma3" else hf.Gemma4ImageProcessorPil
    return made(**PROCESSING[family(kind)] | changes)


def reference_ids(folder: Path, kind: Kind, text: str, pictures: Sequence[Picture]) -> list[int]:
    """Token ids of a text and its pictures by transformers' processor.

    That of Gemma 4 needs torchvision; here its own method writes what a picture becomes.
    """
    marks = zip(("boi_token", "image_token", "eoi_token"), MARKS[family(kind)], strict=True)
    names = dict(marks)
    file = str(folder / "tokenizer.json")
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=file, extra_special_tokens=names)
    images, seen = image_processor(kind), [each.decode() for each in pictures]
    if kind == "gemma3":
        whole = hf.Gemma3Processor(images, tokenizer, image_seq_length=9)
        return whole(text=[text], images=seen)["input_ids"][0]
    inputs = images(seen)
    for number in range(len(seen)):
        made = hf.Gemma4Processor.replace_image_token(SimpleNamespace(**names), inputs, number)
        text = text.replace(names["image_token"], made.replace(names["image_token"], "\0"), 1)
    return tokenizer(text.replace("\0", names["image_token"]))["input_ids"]


def reference_embeddings(kind: Kind, picture: Picture, **changes: int) -> NDArray[np.float32]:
    """transformers' embeddings [tokens, H] of a picture; changes: of its processing."""
    inputs = image_processor(kind, **changes)([picture.decode()], return_tensors="pt")
    taken = {
        name: inputs[name] for name in ("pixel_values", "image_position_ids") if name in inputs
    }
    with torch.no_grad():
        found = reference(kind).model.get_image_features(**taken).pooler_output
    return (found[0] if isinstance(found, tuple | list) else found).reshape(-1, 32).numpy()


def _of_model(inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {n: inputs[n] for n in ("pixel_values", "image_position_ids") if n in inputs}


def reference_logits(
    kind: Kind, ids: Sequence[int], pictures: Sequence[Picture]
) -> NDArray[np.float32]:
    """transformers' logits [T, V] of token ids, placeholders among them, with their pictures."""
    tokens = torch.tensor([list(ids)])
    seen = image_processor(kind)
    inputs = seen([each.decode() for each in pictures], return_tensors="pt") if pictures else {}
    kinds = (tokens == PLACEHOLDER).int()
    kept = _of_model(inputs)
    kept["token_type_ids" if kind == "gemma3" else "mm_token_type_ids"] = kinds
    model, made = reference(kind), torch.zeros(1, len(ids), 32)
    if kind == "gemma4 12b":  # masks as for generating; a bare forward pass there has others
        told = {"past_key_values": None, "position_ids": torch.arange(len(ids))[None]}
        kept["attention_mask"] = model.create_masks_for_generate(
            model.config, made, None, mm_token_type_ids=kinds, **told
        )
    with torch.no_grad():
        return model(input_ids=tokens, **kept).logits[0].numpy()


def write_gemma_gguf(
    folder: Path,
    kind: Kind,
    like: Path,
    matrices: gguf.GGMLQuantizationType | None = None,
    changes: Mapping[str, object] | None = None,
) -> Path:
    """Writes model and tower as llama.cpp's converter does; like: the folder.

    matrices: type of the tower's. changes: metadata of the tower. Returns the model's file.
    """
    model = reference(kind)
    text = folder / "text"
    name = "Gemma3ForCausalLM" if kind == "gemma3" else "Gemma4ForCausalLM"
    plain = getattr(hf, name)(_config("gemma4" if kind == "gemma4 12b" else kind).text_config)
    plain.model.load_state_dict(model.model.language_model.state_dict())
    plain.save_pretrained(text)
    folder.mkdir(exist_ok=True)
    told = json.loads((like / "tokenizer_config.json").read_text())
    changes_of_text = tokenizer_metadata(like) | {"tokenizer.chat_template": told["chat_template"]}
    if kind == "gemma3":  # in published files 6, which needs as many layers
        changes_of_text["gemma3.attention.sliding_window_pattern"] = 3
    file = convert(text, folder / "tiny.gguf", changes=changes_of_text)
    vision = model.config.vision_config
    processing = PROCESSING[family(kind)]
    sizes: dict[str, object] = {
        "image_size": 24 if kind == "gemma3" else 224,
        "patch_size": 4,
        "embedding_length": 32,
        "feed_forward_length": getattr(vision, "intermediate_size", 0),
        "block_count": getattr(vision, "num_hidden_layers", 0),
        "attention.head_count": getattr(vision, "num_attention_heads", 0),
        "attention.layer_norm_epsilon": 1e-6,
        "projection_dim": 32,
        "projector.scale_factor": 2,
        "image_mean": np.array(processing.get("image_mean", [0.0] * 3), np.float32),
        "image_std": np.array(processing.get("image_std", [1.0] * 3), np.float32),
    }
    projector = PROJECTORS[kind != "gemma3"]
    metadata = {f"clip.vision.{key}": value for key, value in sizes.items()} | {
        "general.architecture": "clip",
        "general.type": "mmproj",
        projector: {"gemma3": "gemma3", "gemma4 12b": "gemma4uv"}.get(kind, "gemma4v"),
        **(changes or {}),
    }
    stored = [_converted(part, value, matrices) for part, value in _tower(like).items()]
    if kind == "gemma4 small":
        stored.append(tensor("a.conv1d.0.weight", np.zeros((4, 4), np.float32)))
    (folder / "mmproj-tiny.gguf").write_bytes(gguf_bytes(metadata, stored))
    return file


def _tower(folder: Path) -> dict[str, NDArray[np.float32]]:
    found = load_file(folder / "model.safetensors")
    parts = ("vision_tower", "vision_embedder", "embed_vision", "multi_modal_projector")
    return {name: value for name, value in found.items() if any(part in name for part in parts)}


_EMBEDDER = {
    "patch_dense": "v.patch_embd",
    "patch_ln1": "v.patch_norm.1",
    "patch_ln2": "v.patch_norm.2",
    "pos_norm": "v.patch_norm.3",
    "pos_embedding": "v.position_embd.weight",
}


def _converted_embedder(name: str, value: NDArray[np.float32]) -> RawTensor:
    """Of Gemma 4 12B; the weights of pixels are put colour by colour."""
    base, dot, part = name.partition(".")
    if name == "pos_embedding":
        value = value.transpose(1, 0, 2)
    if name in ("patch_dense.weight", "patch_ln1.weight", "patch_ln1.bias"):
        value = value.reshape(*value.shape[:-1], -1, 3).swapaxes(-1, -2).reshape(value.shape)
    return tensor(f"{_EMBEDDER[base]}{dot}{part}", value)


_NAMES = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 2)


def _converted(
    name: str, value: NDArray[np.float32], matrices: gguf.GGMLQuantizationType | None
) -> RawTensor:
    """As conversion/gemma.py names and arranges a tensor of a tower."""
    if value.ndim == 0:
        value = value[None]
    if "soft_emb_norm" in name:
        value = value + 1
    if name.endswith("input_proj.weight"):
        value = value.reshape(32, 4, 4, 3).transpose(0, 3, 1, 2)
    if "vision_embedder" in name:
        return _converted_embedder(name.removeprefix("model.vision_embedder."), value)
    name = name.replace("_weight", ".weight")
    name = name.replace("model.vision_tower.encoder.", "vision_model.model.")
    name = name.replace(".linear.weight", ".weight")
    if name.endswith("position_embedding_table"):
        name += ".weight"
    tails = (".weight", ".bias", ".input_max", ".input_min", ".output_max", ".output_min")
    mapped = _NAMES.get_name(name, tails)
    assert mapped is not None, name
    is_block = mapped.startswith("v.blk") and value.ndim == 2
    return tensor(mapped, value, matrices if is_block else None)
