"""A random Qwen3.5 that sees, as a folder in Hugging Face or MLX layout, and transformers' run."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
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
from model_edits import edit_tensors
from numpy.typing import NDArray
from PIL import Image
from tiny_gguf import tokenizer_metadata, write_tiny_gguf
from tiny_published import draw, sizes_of
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_tokenizer import make_tiny_tokenizer

from mlx_engine.decoding.prompt import EMPTY_ANSWER, ChatPrompts, Prompt
from mlx_engine.decoding.state import text_only_ids
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import Message
from mlx_engine.values.picture import Picture

VISION = {
    "model_type": "qwen3_5",
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "in_channels": 3,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 16,
    "hidden_act": "gelu_pytorch_tanh",
    "deepstack_visual_indexes": [],
}
PROCESSING = {
    "size": {"shortest_edge": 16 * 16, "longest_edge": 48 * 48},
    "patch_size": 4,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.4, 0.5],
    "image_std": [0.5, 0.5, 0.4],
    "image_processor_type": "Qwen2VLImageProcessorFast",
}
TOKENS = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
PLACEHOLDER = 299
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_vision(
    folder: Path, layout: Literal["hf", "mlx"] = "hf", bits: int | None = None, seed: int = 0
) -> Path:
    """Writes the folder and returns it; bits: pack matrices of the tower and the rest."""
    write_tiny_qwen3_5(folder, layout=layout, bits=bits, vocabulary=300, seed=seed)
    stored: dict[str, mx.array] = {}
    for name, value in tower_values(seed).items():
        array = mx.array(value)
        if layout == "mlx" and array.ndim == 5:
            array = mx.contiguous(array.transpose(0, 2, 3, 4, 1))
        prefix = "model.visual." if layout == "hf" else "vision_tower."
        base = prefix + name.removesuffix(".weight")
        if bits and array.ndim == 2 and array.shape[1] % 32 == 0:
            parts = zip(("weight", "scales", "biases"), mx.quantize(array, 32, bits), strict=True)
            stored |= {f"{base}.{part}": packed for part, packed in parts}
        else:
            stored[prefix + name] = array
    edit_tensors(folder, lambda arrays: arrays | stored)
    config = json.loads((folder / "config.json").read_text())
    config |= {"vision_config": VISION, "image_token_id": PLACEHOLDER}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_processing(folder)
    return folder


def write_processing(folder: Path) -> None:
    """Writes how pictures are prepared, and the tokenizer."""
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSING), encoding="utf-8")
    make_tiny_tokenizer(folder, 297, TEMPLATE)
    with_tokens = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    with_tokens.add_special_tokens(TOKENS)
    with_tokens.save(str(folder / "tokenizer.json"))


def write_tiny_deepstack(folder: Path, name: Literal["Qwen3VL", "Qwen3VLMoe"]) -> Path:
    """Writes a random Qwen3-VL, whose tower's two layers go into the first two of the trunk."""
    text = sizes_of("qwen3_moe" if name == "Qwen3VLMoe" else "qwen3") | {
        "head_dim": 16,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
    }
    config = getattr(hf, f"{name}Config")(
        text_config=text,
        vision_config={k: v for k, v in VISION.items() if k != "model_type"}
        | {"deepstack_visual_indexes": [1, 0]},
        image_token_id=PLACEHOLDER,
        tie_word_embeddings=False,
    )
    torch.manual_seed(3)
    model = getattr(hf, f"{name}ForConditionalGeneration")(config).eval().float()
    with torch.no_grad():
        for part, value in model.named_parameters():
            draw(part, value, 1.0)
    model.save_pretrained(folder)
    write_processing(folder)
    return folder


def write_tiny_deepstack_gguf(folder: Path, like: Path) -> Path:
    """Writes the dense model of write_tiny_deepstack and its tower, as llama.cpp's converter does.

    Returns the model's file.
    """
    whole = reference(like)
    plain = hf.Qwen3Config(**whole.config.text_config.to_dict() | {"model_type": "qwen3"})
    text = hf.Qwen3ForCausalLM(plain)
    text.model.load_state_dict(whole.model.language_model.state_dict())
    text.lm_head.load_state_dict(whole.lm_head.state_dict())
    text.save_pretrained(folder / "text")
    words = tokenizer_metadata(like) | {"tokenizer.chat_template": TEMPLATE}
    file = convert(folder / "text", folder / "tiny.gguf", architecture="qwen3vl", changes=words)
    values = {name: value.numpy() for name, value in whole.model.visual.state_dict().items()}
    write_tower_gguf(folder / "mmproj-F32.gguf", values, deep_layers=(1, 0))
    return file


def write_tiny_vision_gguf(
    folder: Path,
    like: Path,
    tower: str = "mmproj-F32.gguf",
    kind: gguf.GGMLQuantizationType | None = None,
    changes: Mapping[str, object] | None = None,
    sections: Sequence[int] = (),
) -> Path:
    """Writes the model of write_tiny_vision and its tower as llama.cpp's converter does.

    like: the folder, for its tokenizer. kind: of the tower's matrices. changes: metadata of the
    tower. sections: of M-RoPE. Returns the model's file.
    """
    folder.mkdir(exist_ok=True)
    write_tower_gguf(folder / tower, tower_values(0), kind, changes)
    vocabulary = tokenizer_metadata(like) | {"tokenizer.chat_template": TEMPLATE}
    if sections:
        key = gguf.Keys.Rope.DIMENSION_SECTIONS.format(arch="qwen35")
        vocabulary[key] = np.array([*sections, 0], np.int32)
    return write_tiny_gguf(folder / "tiny.gguf", changes=vocabulary)


def write_tower_gguf(
    path: Path,
    values: Mapping[str, NDArray[np.float32]],
    kind: gguf.GGMLQuantizationType | None = None,
    changes: Mapping[str, object] | None = None,
    deep_layers: Sequence[int] = (),
) -> None:
    """kind: of matrices. deep_layers: those whose outputs go into the language model, too."""
    sizes = {
        "embedding_length": 32,
        "feed_forward_length": 48,
        "block_count": 2,
        "attention.head_count": 2,
        "attention.layer_norm_epsilon": 1e-6,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "projection_dim": 64,
        "image_size": 16,
        "image_mean": np.array(PROCESSING["image_mean"], np.float32),
        "image_std": np.array(PROCESSING["image_std"], np.float32),
        "image_min_pixels": 16 * 16,
        "image_max_pixels": 48 * 48,
    }
    metadata: dict[str, object] = {f"clip.vision.{key}": value for key, value in sizes.items()}
    metadata |= {
        "general.architecture": "clip",
        "general.type": "mmproj",
        "clip.projector_type": "qwen3vl_merger",
        "clip.vision.is_deepstack_layers": np.array([layer in deep_layers for layer in range(2)]),
        **(changes or {}),
    }
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 2)
    merger = {"norm": "v.post_ln", "linear_fc1": "mm.0", "linear_fc2": "mm.2"}
    stored: list[RawTensor] = []
    for name, value in values.items():
        base, _, part = name.rpartition(".")
        if base.startswith("deepstack"):
            _, number, role = base.split(".")
            theirs = f"v.deepstack.{deep_layers[int(number)]}.{role.removeprefix('linear_')}"
            stored.append(tensor(f"{theirs}.{part}", value))
            continue
        theirs = merger.get(base.removeprefix("merger.")) or names.get_name(f"visual.{base}")
        assert theirs is not None
        if value.ndim == 5:
            frames = zip(("weight", "weight.1"), value.swapaxes(0, 2).swapaxes(1, 2), strict=True)
            stored += [tensor(f"{theirs}.{last}", frame) for last, frame in frames]
        else:
            is_matrix = value.ndim == 2 and value.shape[1] % 32 == 0 and "pos" not in name
            stored.append(tensor(f"{theirs}.{part}", value, kind if is_matrix else None))
    path.write_bytes(gguf_bytes(metadata, stored))


@cache
def tower_values(seed: int) -> Mapping[str, NDArray[np.float32]]:
    """Random weights of a tower, by transformers' names."""
    draw = np.random.default_rng(seed + 100)
    config = hf.Qwen3_5Config(vision_config=dict(VISION)).vision_config
    shapes = hf.AutoModel.from_config(config).state_dict()
    made = {}
    for name, each in shapes.items():
        spread = max(1, int(np.prod(each.shape[1:]))) ** -0.5 if each.ndim > 1 else 0.2
        spread = 0.5 if name == "pos_embed.weight" else spread
        value = draw.normal(0, spread, tuple(each.shape)) + (each.ndim == 1 and "norm" in name)
        made[name] = value.astype(np.float32)
    return made


def picture(seed: int, width: int, height: int) -> Image.Image:
    """A picture of random colours, coarse enough to survive a change of size."""
    rough = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(rough).resize((width, height), Image.Resampling.BICUBIC)


def chat_about(pictures: Sequence[Picture]) -> list[Message]:
    """Two pictures in the first question, a third alone in the second, none in the last."""
    return [
        Message("user", "Hello fox", images=tuple(pictures[:2])),
        Message("assistant", "The dog"),
        Message("user", "", images=(pictures[2],)),
        Message("assistant", "sleeps"),
        Message("user", "Hello there"),
    ]


@cache
def reference(folder: Path) -> hf.PreTrainedModel:
    """transformers' model of a folder in Hugging Face layout, in float32."""
    return hf.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()


def reference_logits(
    folder: Path, ids: Sequence[int], pictures: Sequence[Picture]
) -> NDArray[np.float32]:
    """transformers' logits [T, V] of token ids, placeholders among them, with their pictures."""
    seen = hf.Qwen2VLImageProcessorPil(**PROCESSING)
    inputs = seen([each.decode() for each in pictures], return_tensors="pt") if pictures else {}
    tokens = torch.tensor([list(ids)])
    with torch.no_grad():
        out = reference(folder)(
            input_ids=tokens, mm_token_type_ids=(tokens == PLACEHOLDER).int(), **inputs
        )
    return out.logits[0].numpy()


def encoded(engine: Engine, each: Picture) -> NDArray[np.float32]:
    """Our embeddings [tokens, H] of a picture."""
    *_, last = engine.parts.pictures.encode(each)
    assert last.embeddings is not None
    return np.array(last.embeddings[0])


def logits(engine: Engine, prompt: Prompt, chunk: int) -> NDArray[np.float32]:
    """Our logits [T, V] of a prompt in chunks, longer or shorter where pictures are read whole."""
    model, made = engine.parts.model, []
    caches, pictures = model.make_caches(), prompt.pictures
    assert pictures is not None
    start = end = 0
    while end < len(prompt.ids):
        start, end = end, pictures.whole_chunk_end(end, min(end + chunk, len(prompt.ids)))
        list(pictures.encode(start, end))
        rows, tokens = (
            pictures.embeddings(start, end),
            mx.array([text_only_ids(prompt.ids[start:end])]),
        )
        if rows is None:  # text behind a picture
            for cache in caches.layers:
                if hasattr(cache, "shift"):
                    cache.shift = pictures.position_shift(start)
        made.append(model.logits(model.forward(tokens, caches, rows))[0])
        caches.commit(end - start)
    return np.array(mx.concatenate(made))


def prompt_of(engine: Engine, messages: list[Message]) -> Prompt:
    """The prompt of a chat."""
    settings = engine.session()._settings
    return ChatPrompts(engine.parts, settings).make_prompt(messages, EMPTY_ANSWER)
