"""How tensors of a file that come in other pieces than the model wants them are put together."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

_SINGLE = re.compile(
    r"(.+\.mlp)\.experts\.(\d{1,6})\.(gate_proj|up_proj|down_proj|w[123])\.(weight|scales|biases)"
)
_JOINED = re.compile(r"(.+\.mlp)\.experts\.(gate_up|down)_proj(?:\.(weight|scales|biases))?")
_OURS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}


Form = Literal["stored", "transposed", "words"]


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
    """The tensor is its one piece; or, for a stack, its pieces along a new first axis.

    form: then the last two axes change places, or the bytes of both are read as rows of uint32.
    """

    pieces: tuple[Piece, ...]
    is_stack: bool = False
    form: Form = "stored"


Recipes = Mapping[str, Recipe]
"""Canonical name -> how it is made of stored tensors, which the recipes use up."""


def expert_recipes(names: Iterable[str]) -> dict[str, Recipe]:
    """Experts stored one by one or with gate and up joined -> the stacks `mlp.switch_mlp.*`.

    Hugging Face has `experts.7.up_proj.weight` (w1, w3, w2 in Mixtral's files), or
    `experts.gate_up_proj` [E, 2 D, K] with the gates' rows first and `experts.down_proj` [E, K, D];
    MLX conversions the stacks themselves.
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
            if joined[2] == "down":
                recipes[f"{base}.down_proj.{kind}"] = Recipe((Piece(name),))
            else:
                recipes[f"{base}.gate_proj.{kind}"] = Recipe((Piece(name, Run(0, 2)),))
                recipes[f"{base}.up_proj.{kind}"] = Recipe((Piece(name, Run(1, 2)),))
    for stack, count in counts.items():
        base, _, kind = stack.rpartition(".")
        base, _, part = base.replace(".experts.{}.", ".switch_mlp.").rpartition(".")
        pieces = tuple(Piece(stack.format(number)) for number in range(count))
        recipes[f"{base}.{_OURS.get(part, part)}.{kind}"] = Recipe(pieces, is_stack=True)
    return recipes


def row_recipes(names: Iterable[str], joined: str, parts: Mapping[str, int]) -> dict[str, Recipe]:
    """Matrices stored one below the other in `joined`; parts: their names and rows, in order.

    Both names are those within a layer: `self_attn.qkv_proj` -> `self_attn.q_proj` and others.
    """
    recipes: dict[str, Recipe] = {}
    found = re.compile(rf"(.+\.){re.escape(joined)}\.(weight|scales|biases|bias)")
    for match in filter(None, map(found.fullmatch, names)):
        start = 0
        for part, rows in parts.items():
            axis = -1 if match[2] == "bias" else -2
            piece = Piece(match[0], range(start, start + rows), axis)
            recipes[f"{match[1]}{part}.{match[2]}"] = Recipe((piece,))
            start += rows
    return recipes
