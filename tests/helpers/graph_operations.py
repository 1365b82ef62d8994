"""Operations of a pass of one token, counted in MLX's graph of it."""

import io
import re
from collections import Counter
from collections.abc import Mapping

import mlx.core as mx
from kernel_models import every_kernel, kernel_model

from metal_kernels.kernel import Call, Source

VIEWS = {
    *("AsStrided", "Broadcast", "ExpandDims", "Flatten", "Reshape", "Slice", "Split", "Squeeze"),
    *("Transpose", "Unflatten"),
}
"""Operations that a GPU need not be asked for."""


class Unrun:
    """A launcher whose calls stand in the graph as one operation each, Depends."""

    def run(self, source: Source, call: Call) -> tuple[mx.array, ...]:
        """Zeros."""
        del source
        made = [mx.zeros(output.shape, output.dtype) for output in call.outputs]
        mx.eval(made)
        return tuple(mx.depends(made, list(call.inputs)))


def operations(off: Mapping[str, str]) -> Counter[str]:
    """Of the dense tiny model without the kernels of `off`: a token after one that was kept.

    As on MLX's CPU backend, where norms and rotations are a few operations each.
    """
    model = kernel_model("dense", every_kernel(Unrun(), off=off))
    caches = model.make_caches()
    for _ in range(2):
        hidden = model.forward(mx.array([[5]]), caches)
        caches.keep(1)
        arrays = [model.logits(hidden), *(a for layer in caches.layers for a in layer.arrays())]
        graph = io.StringIO()
        mx.export_to_dot(graph, *arrays)
        mx.eval(arrays)
    names = re.findall(r'\[label ="([^"]+)", shape=rectangle\]', graph.getvalue())
    return Counter(name for name in names if name not in VIEWS)
