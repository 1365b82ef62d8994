"""Counts the operations of a lazy graph, by MLX's own export."""

import io
from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

_OPERATION = "shape=rectangle"


class Graph(NamedTuple):
    """Outputs not yet computed, and how long it took to write them down."""

    outputs: Sequence[mx.array]
    build_ms: float


def count_nodes(outputs: Sequence[mx.array]) -> int:
    """Operations between what is already computed and `outputs`.

    On the CPU MLX writes its fast operations (norms, rope, delta rule) out as simple ones.
    """
    text = io.StringIO()
    mx.export_to_dot(text, *outputs)
    return text.getvalue().count(_OPERATION)
