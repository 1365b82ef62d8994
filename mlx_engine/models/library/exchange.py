"""Layers of mlx-lm's models in whose place others do what was trained, or do it faster."""

from collections.abc import Callable, Mapping

from mlx.nn.layers.base import Module
from mlx.utils import tree_unflatten

Maker = Callable[[Module], Module | None]
"""Of a layer, what takes its place; None where it stays."""


def exchange(model: Module, makers: Mapping[str, Maker]) -> None:
    """Put what a maker makes of a layer within the model in its place, with the same parameters.

    makers: by the whole name of a class, so that none is imported for this. What is derived from it
    may mean something else and stays.
    """
    modules = model.named_modules()  # type: ignore[no-untyped-call]
    made = []
    for path, layer in modules:
        kind = type(layer)
        maker = makers.get(f"{kind.__module__}.{kind.__qualname__}") if path else None
        mine = maker(layer) if maker is not None else None
        if mine is not None:
            made.append((path, mine))
    if made:
        model.update_modules(tree_unflatten(made))
