"""Operations of a pass of one token, counted in MLX's graph of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import mlx.core as mx
from kernel_models import every_kernel, kernel_model
from lazy_graph import StandIn, nothing_begun, primitives

from metal_kernels.kernel import Launch

VIEWS = {
    *("AsStrided", "Broadcast", "ExpandDims", "Flatten", "Reshape", "Slice", "Split", "Squeeze"),
    *("Transpose", "Unflatten"),
}
"""Operations that a GPU need not be asked for."""


class Unrun:
    """A launcher whose calls stand in the graph as one operation each, Depends."""

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        """Zeros."""
        return mx.depends(_zeros(launch.shapes, launch.dtypes), list(inputs))


@cache
def _zeros(shapes: tuple[tuple[int, ...], ...], dtypes: tuple[mx.Dtype, ...]) -> list[mx.array]:
    made = [mx.zeros(*one) for one in zip(shapes, dtypes, strict=True)]
    mx.eval(made)
    return made


def operations(off: Mapping[str, str], *, on_metal: bool = False) -> Counter[str]:
    """Of the dense tiny model without the kernels of `off`: a token after one that was kept.

    As on MLX's CPU backend, where norms and rotations are a few operations each; on_metal: one each
    as there, of numbers of 16 bits.
    """
    kernels = every_kernel(Unrun(), off=off)
    if on_metal:
        kernels = replace(kernels, stock=StandIn())
    model = kernel_model("dense", kernels, halves=on_metal)
    caches = model.make_caches()
    for _ in range(2):
        with nothing_begun():
            hidden = model.forward(mx.array([[5]]), caches)
        caches.commit(1)
        arrays = [model.logits(hidden), *(a for layer in caches.layers for a in layer.arrays())]
        found = primitives(*arrays)
        mx.eval(arrays)
    return Counter({name: count for name, count in found.items() if name not in VIEWS})
