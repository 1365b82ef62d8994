"""Names of heads' tensors as published -> `layers.{head}.*`, and fused projections taken apart."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.family import Parts
from mlx_engine.models.head_stack.definition import StackDefinition
from mlx_engine.models.stored_forms import Piece, Recipe
from mlx_engine.values.errors import BadModelFile

T = TypeVar("T")

_BUFFER = "rotary_emb.inv_freq"
_FUSED = re.compile(r"(.*\.self_attn)\.qkv_proj\.(weight|scales|biases)")
_TRUNK_LAYER = re.compile(r"model\.layers\.(\d{1,6})\..+")


class _Place(NamedTuple):
    number: int
    name: str


def heads_of_model(
    parts: Parts[T], definition: StackDefinition, first: int, origin: str
) -> Parts[T]:
    """Parts with heads as published, the first one numbered `first`; more than are run are skipped.

    How many there are is told by the tensors: configs say too few, too many or nothing.
    """
    placed = {name: _placed(name, definition) for name in parts.head}
    wanted = range(first, first + definition.most)
    return _sorted_out(parts, parts.head, placed, wanted, origin)


def heads_of_file(raw: Mapping[str, T], definition: StackDefinition, origin: str) -> Parts[T]:
    """Tensors given for their heads: the layers that have a join, in order."""
    placed = {name: _placed(name, definition) for name in raw}
    numbers = {p.number for p in placed.values() if p is not None and p.name == "join.weight"}
    first = min(numbers, default=0)
    wanted = range(first, first + definition.most)
    return _sorted_out(Parts({}, {}, {}), raw, placed, wanted, origin)


def _sorted_out(
    parts: Parts[T],
    raw: Mapping[str, T],
    placed: Mapping[str, _Place | None],
    wanted: Sequence[int],
    origin: str,
) -> Parts[T]:
    head: dict[str, T] = {}
    skipped = dict(parts.skipped)
    for name, tensor in raw.items():
        place = placed[name]
        if place is None or place.number not in wanted or place.name.endswith(_BUFFER):
            skipped[name] = tensor
            continue
        canonical = f"layers.{place.number - wanted[0]}.{place.name}"
        if canonical in head:
            raise BadModelFile(
                f"{origin}: the heads' tensor {canonical} is there twice, under two names. Two "
                "conversions were put into one folder: keep one of them."
            )
        head[canonical] = tensor
    return Parts(parts.trunk, head, skipped, parts.trunk_recipes, parts.head_recipes)


def _placed(name: str, definition: StackDefinition) -> _Place | None:
    found = re.fullmatch(definition.names, name)
    if found is None:
        return None
    base, _, kind = found[2].rpartition(".")
    return _Place(int(found[1]), f"{definition.renamed.get(base, base)}.{kind}".lstrip("."))


def split_projections(parts: Parts[T], fields: ConfigFields) -> Parts[T]:
    """MiMo-V2's `qkv_proj` as queries, keys and values, rows in this order."""
    pattern = fields.counts("hybrid_layer_pattern")

    def is_windowed(name: str) -> bool:
        layer = _TRUNK_LAYER.fullmatch(name)
        number = int(layer[1]) if layer else 0
        return number < len(pattern) and pattern[number] == 1

    return Parts(
        parts.trunk,
        parts.head,
        parts.skipped,
        {**parts.trunk_recipes, **_projections(parts.trunk, fields, is_windowed)},
        {**parts.head_recipes, **_projections(parts.head, fields, lambda _: True)},
    )


def _projections(
    names: Iterable[str], fields: ConfigFields, is_windowed: Callable[[str], bool]
) -> dict[str, Recipe]:
    recipes: dict[str, Recipe] = {}
    for name in names:
        found = _FUSED.fullmatch(name)
        if found is None:
            continue
        start = 0
        for kind, rows in _rows(fields, "swa_" if is_windowed(name) else "").items():
            piece = Piece(name, tuple(range(start, start + rows)))
            recipes[f"{found[1]}.{kind}_proj.{found[2]}"] = Recipe((piece,))
            start += rows
    return recipes


def _rows(fields: ConfigFields, prefix: str) -> dict[str, int]:
    kept = fields.count(f"{prefix}num_key_value_heads")
    size, value = fields.count(f"{prefix}head_dim"), fields.count(f"{prefix}v_head_dim")
    queries = fields.count(f"{prefix}num_attention_heads") * size
    return {"q": queries, "k": kept * size, "v": kept * value}
