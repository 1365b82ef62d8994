"""Tensors of a file by part and, for types taken apart, under one form of their names."""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeVar

from mlx_engine.models.family import Parts
from mlx_engine.values.errors import BadModelFile

T = TypeVar("T")

_VISION = re.compile(
    r"(model\.)?(visual|vision_tower|vision_model|multi_modal_projector|vision_embed_tokens)\."
)
_BUFFER = "rotary_emb.inv_freq"
_HEAD = re.compile(r"(language_model\.)?(model\.)?(language_model\.)?mtp(_layers|_block)?\.(.+)")
_LAYER = re.compile(r"(language_model\.)?(model\.)?(language_model\.)?layers\.(\d{1,6})\..+")

# Longest first: the first that fits is replaced.
_WRAPPERS = {
    "model.language_model.": "model.",
    "language_model.model.": "model.",
    "language_model.": "",
}


class _Place(NamedTuple):
    part: Literal["trunk", "head", "skipped"]
    name: str


def split(
    raw: Mapping[str, T], *, layers: int, structured: bool, tied: bool | None, origin: str
) -> Parts[T]:
    """Tensors by part; heads are named `mtp.*` or lie in layers behind the last one.

    structured: names become `model.*` and `lm_head.*` whatever the file wraps them in, and what
    text does not need is skipped; else all but heads is left to mlx-lm's own class. tied: what the
    config says of the output head; a copy of a tied one is skipped.
    """
    parts: Parts[T] = Parts({}, {}, {})
    for name, tensor in raw.items():
        place = _place(name, layers, structured=structured)
        if tied and structured and place.name.startswith("lm_head."):
            place = _Place("skipped", name)
        chosen = {"trunk": parts.trunk, "head": parts.head, "skipped": parts.skipped}[place.part]
        if place.name in chosen:
            raise BadModelFile(
                f"{origin}: the tensor {place.name} is there twice, under two names. Two "
                "conversions were put into one folder: keep one of them."
            )
        chosen[place.name] = tensor
    return parts


def group(name: str) -> str:
    """The tensor group of a trunk tensor."""
    if "embed_tokens." in name or ".wte." in name:
        return "embedding"
    if name.startswith("lm_head."):
        return "output head"
    if name.endswith(("norm.weight", "norm.bias")):
        return "norms"
    if any(part in name for part in (".experts.", ".switch_mlp.", ".moe.")):
        return "experts"
    if "attn." in name or "attention." in name:
        return "attention"
    return "mlp" if ".mlp." in name or ".block_sparse_moe." in name else "other"


def _place(name: str, layers: int, *, structured: bool) -> _Place:
    layer = _LAYER.fullmatch(name)
    if _HEAD.fullmatch(name) or (layer is not None and int(layer[4]) >= layers):
        return _Place("head", name)
    if not structured:
        return _Place("trunk", name)
    if _VISION.match(name) or name.endswith(_BUFFER):
        return _Place("skipped", name)
    wrapper = next((prefix for prefix in _WRAPPERS if name.startswith(prefix)), None)
    if wrapper is None:
        return _Place("trunk", name)
    return _Place("trunk", _WRAPPERS[wrapper] + name.removeprefix(wrapper))
