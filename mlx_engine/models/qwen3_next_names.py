"""Projections that Qwen3-Next's files join, as rows of what the model wants apart."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from mlx_engine.models.qwen3_5_config import Qwen35Config
from mlx_engine.models.stored_forms import Piece, Recipe

_JOINED = re.compile(r"(.+)\.(in_proj_qkvz|in_proj_ba)\.(weight|scales|biases)")


class JoinedRows(NamedTuple):
    """Rows of the joined matrices, for each matrix that is made of them, in our order.

    For each key head `in_proj_qkvz` has a query, a key, the values of its group and their gates,
    and `in_proj_ba` the group's betas and decays.
    """

    in_proj_qkv: tuple[int, ...]
    in_proj_z: tuple[int, ...]
    in_proj_b: tuple[int, ...]
    in_proj_a: tuple[int, ...]


def joined_rows(key_heads: int, value_heads: int, key_size: int, value_size: int) -> JoinedRows:
    """From counts of heads and sizes of one head."""
    group = value_heads // key_heads
    values = group * value_size
    parts = _every_head(key_heads, (key_size, key_size, values, values))
    betas, decays = _every_head(key_heads, (group, group))
    return JoinedRows(parts[0] + parts[1] + parts[2], parts[3], betas, decays)


def projection_recipes(names: Iterable[str], sizes: Qwen35Config) -> dict[str, Recipe]:
    """Recipes for the joined projections among `names`."""
    rows = joined_rows(
        sizes.linear_num_key_heads,
        sizes.linear_num_value_heads,
        sizes.linear_key_head_dim,
        sizes.linear_value_head_dim,
    )
    recipes: dict[str, Recipe] = {}
    parts = {
        "in_proj_qkvz": {"in_proj_qkv": rows.in_proj_qkv, "in_proj_z": rows.in_proj_z},
        "in_proj_ba": {"in_proj_b": rows.in_proj_b, "in_proj_a": rows.in_proj_a},
    }
    for name in names:
        found = _JOINED.fullmatch(name)
        if found is not None:
            for part, wanted in parts[found[2]].items():
                recipes[f"{found[1]}.{part}.{found[3]}"] = Recipe((Piece(name, wanted),))
    return recipes


def _every_head(heads: int, widths: tuple[int, ...]) -> list[tuple[int, ...]]:
    """For each width the rows of that part, head after head."""
    whole, starts = sum(widths), [sum(widths[:n]) for n in range(len(widths))]
    return [
        tuple(head * whole + start + row for head in range(heads) for row in range(width))
        for start, width in zip(starts, widths, strict=True)
    ]
