"""Recipes that assemble canonical weights from fused, split or transposed tensors of the files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec

_SINGLE = re.compile(
    r"(.+\.mlp)\.experts\.(\d{1,6})\.(gate_proj|up_proj|down_proj|w[123])\.(weight|scales|biases)"
)
_JOINED = re.compile(
    r"(.+\.mlp)\.(?:experts|switch_mlp(?=\.gate_up_))\.(gate_up|gate|up|down)_proj"
    r"(?:\.(weight|scales|biases))?"
)
_OF_MIXTRAL = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}


Form = Literal["stored", "transposed", "words", "joined"]


class RowChunk(NamedTuple):
    """Rows to take from a stored tensor: number `number` of `of` equal chunks."""

    number: int
    of: int


class StridedRows(NamedTuple):
    """Rows to take from a stored tensor: every `of`-th one, starting at row `number`."""

    number: int
    of: int


class StoredPiece(NamedTuple):
    """A stored tensor, or some of its rows in the given order; `axis` is the axis of rows."""

    name: str
    rows: RowChunk | StridedRows | Sequence[int] | None = None
    axis: int = -2


class Recipe(NamedTuple):
    """How to assemble a weight from stored tensors: one piece, a stack of pieces, or joined rows.

    form: "joined" concatenates rows, "transposed" swaps the last two axes, "words" reads bytes as
    rows of uint32. inputs: length of the last axis at which a "transposed" piece is already in
    canonical order.
    """

    pieces: tuple[StoredPiece, ...]
    is_stack: bool = False
    form: Form = "stored"
    inputs: int = 0

    def for_last_axis_size(self, axis_size: int) -> "Recipe":
        """Return the recipe that applies to stored pieces whose last axis has this length."""
        if axis_size != self.inputs:
            return self
        return Recipe(tuple(piece._replace(axis=-2) for piece in self.pieces), self.is_stack)


Recipes = Mapping[str, Recipe]
"""Canonical name -> how it is made of stored tensors, which the recipes use up."""


def expert_recipes(names: Iterable[str]) -> dict[str, Recipe]:
    """Recipes for the stacks `mlp.switch_mlp.*` from experts stored singly or with fused gate and
    up.

    Hugging Face stores `experts.7.up_proj.weight` (w1, w3, w2 in Mixtral's files), or
    `experts.gate_up_proj` [E, 2 D, K] with gate rows first and `experts.down_proj` [E, K, D]; MLX
    conversions store the stacks, that of dots.llm1 as `experts.up_proj.weight`, those of Hy4 with
    fused gate and up.
    """
    recipes: dict[str, Recipe] = {}
    counts: dict[str, int] = {}
    for name in names:
        single, joined = _SINGLE.fullmatch(name), _JOINED.fullmatch(name)
        if single is not None:
            stack = f"{single[1]}.experts.{{}}.{single[3]}.{single[4]}"
            counts[stack] = counts.get(stack, 0) + 1
        elif joined is not None:
            base, kind = f"{joined[1]}.switch_mlp", joined[3] or "weight"
            if joined[2] != "gate_up":
                recipes[f"{base}.{joined[2]}_proj.{kind}"] = Recipe((StoredPiece(name),))
            else:
                recipes[f"{base}.gate_proj.{kind}"] = Recipe((StoredPiece(name, RowChunk(0, 2)),))
                recipes[f"{base}.up_proj.{kind}"] = Recipe((StoredPiece(name, RowChunk(1, 2)),))
    for stack, count in counts.items():
        base, _, kind = stack.rpartition(".")
        base, _, part = base.replace(".experts.{}.", ".switch_mlp.").rpartition(".")
        pieces = tuple(StoredPiece(stack.format(number)) for number in range(count))
        recipes[f"{base}.{_OF_MIXTRAL.get(part, part)}.{kind}"] = Recipe(pieces, is_stack=True)
    return recipes


Rows = Sequence[tuple[str, int]]
"""Parts of a joined matrix from its top, by name, and how many rows each has."""


def fused_rows(parts: Rows, blocks: int = 1) -> dict[str, Sequence[int]]:
    """Row numbers of each part of a fused matrix that consists of `blocks` equal blocks.

    parts: names and row counts of the parts within a block; a name listed twice gets the rows of
    its first place in all blocks, then those of the second.
    """
    whole, start, rows = sum(count for _, count in parts), 0, dict[str, Sequence[int]]()
    for part, count in parts:
        own: Sequence[int] = range(start, start + count)
        if blocks > 1:
            own = tuple(block * whole + row for block in range(blocks) for row in own)
        rows[part] = (*rows[part], *own) if part in rows else own
        start += count
    return rows


def fused_recipes(
    names: Iterable[str], fused_name: str, parts: Rows, blocks: int = 1, row_axis: int = -2
) -> dict[str, Recipe]:
    """Recipes that split a fused matrix of the files into its parts, by tensor name.

    fused_name: of the fused matrix within a layer, such as `self_attn.qkv_proj`. parts, blocks: as
    for fused_rows, with the parts' canonical names. row_axis: of rows, -3 in convolutions.
    """
    recipes: dict[str, Recipe] = {}
    found = re.compile(rf"(.+\.){re.escape(fused_name)}\.(weight|scales|biases|bias)")
    for match in filter(None, map(found.fullmatch, names)):
        axis = -1 if match[2] == "bias" else row_axis
        for part, rows in fused_rows(parts, blocks).items():
            piece = StoredPiece(match[0], rows, axis)
            recipes[f"{match[1]}{part}.{match[2]}"] = Recipe((piece,))
    return recipes


def qkv_recipes(names: Iterable[str], block: BlockSpec) -> dict[str, Recipe]:
    """Recipes that split a stored matrix of queries, keys and values into three projections."""
    mixer = block.mixer
    assert isinstance(mixer, AttentionSpec)
    keys, values = (mixer.kv_heads * size for size in (mixer.key_dim, mixer.value_dim))
    sizes = {"q": mixer.heads * mixer.key_dim, "k": keys, "v": values}
    parts = [(f"self_attn.{part}_proj", n // mixer.qkv_blocks) for part, n in sizes.items()]
    return fused_recipes(names, "self_attn.qkv_proj", parts, mixer.qkv_blocks)
