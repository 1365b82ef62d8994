"""Names of NextN heads' tensors: layers behind the last one become `layers.0`, without MLX."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from mlx_engine.models.family import Parts
from mlx_engine.models.stored_forms import expert_recipes
from mlx_engine.values.errors import BadModelFile

T = TypeVar("T")

HEAD = "layers.0"
"""Where the head's tensors stand in canonical names."""

_NAME = re.compile(r"(?:language_model\.|model\.|mtp\.)*(?:layers\.)?(\d{1,6})\.(.+)")
_MARK = "eh_proj.weight"
_BUFFER = "rotary_emb.inv_freq"


class _Place(NamedTuple):
    """layer None: the name has no number of a layer."""

    layer: int | None
    name: str


def with_first_head(parts: Parts[T], layers: int, origin: str) -> Parts[T]:
    """Parts whose heads are as a model of so many layers names them -> the first head alone.

    Further heads are skipped: the first drafts every token.
    """
    return _with_head(parts, parts.head, {None, 0, layers}, origin)


def heads_of_file(raw: Mapping[str, T], origin: str) -> Parts[T]:
    """Tensors given for their head: the first layer with an eh_proj, or names without a layer."""
    marked = {place.layer for place in map(_placed, raw) if place.name == _MARK}
    numbered = marked - {None}
    layers = {min(layer for layer in marked if layer is not None)} if numbered else marked
    return _with_head(Parts({}, {}, {}), raw, layers, origin)


def _with_head(
    parts: Parts[T], raw: Mapping[str, T], layers: Collection[int | None], origin: str
) -> Parts[T]:
    head: dict[str, T] = {}
    skipped = dict(parts.skipped)
    for name, tensor in raw.items():
        place = _placed(name)
        if place.name.endswith(_BUFFER) or place.layer not in layers:
            skipped[name] = tensor
            continue
        canonical = f"{HEAD}.{place.name}"
        if canonical in head:
            raise BadModelFile(
                f"{origin}: the head's tensor {place.name} is there twice, under two names. Two "
                "conversions were put into one folder: keep one of them."
            )
        head[canonical] = tensor
    return replace(parts, head=head, skipped=skipped, head_recipes=expert_recipes(head))


def _placed(name: str) -> _Place:
    found = _NAME.fullmatch(name)
    if found is None:
        return _Place(None, name.removeprefix("model.").removeprefix("mtp."))
    return _Place(int(found[1]), found[2])


def bare(names: Iterable[str]) -> dict[str, None]:
    """The head's names without their layer."""
    return dict.fromkeys(name.removeprefix(f"{HEAD}.") for name in names)
