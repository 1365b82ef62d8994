"""Recipes that assemble tensors from differently split tensors of a file."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec

_SINGLE = re.compile(
    r"(.+\.mlp)\.experts\.(\d{1,6})\.(gate_proj|up_proj|down_proj|w[123])\.(weight|scales|biases)"
)
_JOINED = re.compile(
    r"(.+\.mlp)\.experts\.(gate_up|gate|up|down)_proj(?:\.(weight|scales|biases))?"
)
_OURS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}


Form = Literal["stored", "transposed", "words", "joined"]


class Run(NamedTuple):
    """The `number`-th of `of` equal runs of rows."""

    number: int
    of: int


class Turn(NamedTuple):
    """Every `of`-th row, from the `number`-th on."""

    number: int
    of: int


class Piece(NamedTuple):
    """A tensor of the file, all of it or some of its rows, in our order; they lie along `axis`."""

    name: str
    rows: Run | Turn | Sequence[int] | None = None
    axis: int = -2


class Recipe(NamedTuple):
    """The tensor is its one piece; or, for a stack, its pieces along a new first axis; or "joined",
    one below the other.

    form: then the last two axes change places, or the bytes of both are read as rows of uint32.
    inputs: of a "transposed" one that some files have in our order: how long its last axis then is.
    """

    pieces: tuple[Piece, ...]
    is_stack: bool = False
    form: Form = "stored"
    inputs: int = 0

    def for_last_axis(self, length: int) -> "Recipe":
        """The recipe for pieces whose last axis has this length."""
        if length != self.inputs:
            return self
        return Recipe(tuple(piece._replace(axis=-2) for piece in self.pieces), self.is_stack)


Recipes = Mapping[str, Recipe]
"""Canonical name -> how it is made of stored tensors, which the recipes use up."""


def expert_recipes(names: Iterable[str]) -> dict[str, Recipe]:
    """Experts stored one by one or with gate and up joined -> the stacks `mlp.switch_mlp.*`.

    Hugging Face has `experts.7.up_proj.weight` (w1, w3, w2 in Mixtral's files), or
    `experts.gate_up_proj` [E, 2 D, K] with the gates' rows first and `experts.down_proj` [E, K, D];
    MLX conversions the stacks themselves, of dots.llm1 as `experts.up_proj.weight`.
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
                recipes[f"{base}.{joined[2]}_proj.{kind}"] = Recipe((Piece(name),))
            else:
                recipes[f"{base}.gate_proj.{kind}"] = Recipe((Piece(name, Run(0, 2)),))
                recipes[f"{base}.up_proj.{kind}"] = Recipe((Piece(name, Run(1, 2)),))
    for stack, count in counts.items():
        base, _, kind = stack.rpartition(".")
        base, _, part = base.replace(".experts.{}.", ".switch_mlp.").rpartition(".")
        pieces = tuple(Piece(stack.format(number)) for number in range(count))
        recipes[f"{base}.{_OURS.get(part, part)}.{kind}"] = Recipe(pieces, is_stack=True)
    return recipes


Rows = Sequence[tuple[str, int]]
"""Parts of a joined matrix from its top, by name, and how many rows each has."""


def fused_rows(parts: Rows, blocks: int = 1) -> dict[str, Sequence[int]]:
    """The rows of each part, of a matrix of so many equal blocks with all parts in each.

    Of a part that comes twice those of its first place are first, in all blocks.
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
    names: Iterable[str], joined: str, parts: Rows, blocks: int = 1
) -> dict[str, Recipe]:
    """Matrices stored one below the other in `joined`, in blocks as joined_rows has them.

    Both names are those within a layer: `self_attn.qkv_proj` -> `self_attn.q_proj` and others.
    """
    recipes: dict[str, Recipe] = {}
    found = re.compile(rf"(.+\.){re.escape(joined)}\.(weight|scales|biases|bias)")
    for match in filter(None, map(found.fullmatch, names)):
        axis = -1 if match[2] == "bias" else -2
        for part, rows in fused_rows(parts, blocks).items():
            piece = Piece(match[0], rows, axis)
            recipes[f"{match[1]}{part}.{match[2]}"] = Recipe((piece,))
    return recipes


def qkv_recipes(names: Iterable[str], block: BlockSpec) -> dict[str, Recipe]:
    """Queries, keys and values stored in one matrix."""
    mixer = block.mixer
    assert isinstance(mixer, AttentionSpec)
    keys, values = (mixer.kv_heads * size for size in (mixer.key_dim, mixer.value_dim))
    sizes = {"q": mixer.heads * mixer.key_dim, "k": keys, "v": values}
    parts = [(f"self_attn.{part}_proj", n // mixer.qkv_blocks) for part, n in sizes.items()]
    return fused_recipes(names, "self_attn.qkv_proj", parts, mixer.qkv_blocks)
