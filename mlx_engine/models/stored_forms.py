"""How tensors of a file that come in other pieces than the model wants them are put together."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

_SINGLE = re.compile(r"(.+\.mlp)\.experts\.(\d{1,6})\.(gate|up|down)_proj\.(weight|scales|biases)")
_JOINED = re.compile(r"(.+\.mlp)\.experts\.(gate_up|down)_proj(?:\.(weight|scales|biases))?")


class Run(NamedTuple):
    """The `number`-th of `of` equal runs of rows."""

    number: int
    of: int


class Piece(NamedTuple):
    """A tensor of the file, all of it or some of its rows (the last axis but one), in our order."""

    name: str
    rows: Run | Sequence[int] | None = None


class Recipe(NamedTuple):
    """The tensor is its one piece; or, for a stack, its pieces along a new first axis."""

    pieces: tuple[Piece, ...]
    is_stack: bool = False


Recipes = Mapping[str, Recipe]
"""Canonical name -> how it is made of stored tensors, which the recipes use up."""


def expert_recipes(names: Iterable[str]) -> dict[str, Recipe]:
    """Experts stored one by one or with gate and up joined -> the stacks `mlp.switch_mlp.*`.

    Hugging Face has `experts.7.up_proj.weight`, or `experts.gate_up_proj` [E, 2 D, K] with the
    gates' rows first and `experts.down_proj` [E, K, D]; MLX conversions the stacks themselves.
    """
    recipes: dict[str, Recipe] = {}
    counts: dict[str, int] = {}
    for name in names:
        single, joined = _SINGLE.fullmatch(name), _JOINED.fullmatch(name)
        if single is not None:
            stack = f"{single[1]}.experts.{{}}.{single[3]}_proj.{single[4]}"
            counts[stack] = counts.get(stack, 0) + 1
        elif joined is not None:
            base, kind = f"{joined[1]}.switch_mlp", joined[3] or "weight"
            if joined[2] == "down":
                recipes[f"{base}.down_proj.{kind}"] = Recipe((Piece(name),))
            else:
                recipes[f"{base}.gate_proj.{kind}"] = Recipe((Piece(name, Run(0, 2)),))
                recipes[f"{base}.up_proj.{kind}"] = Recipe((Piece(name, Run(1, 2)),))
    for stack, count in counts.items():
        made = stack.replace(".experts.{}.", ".switch_mlp.")
        pieces = tuple(Piece(stack.format(number)) for number in range(count))
        recipes[made] = Recipe(pieces, is_stack=True)
    return recipes
