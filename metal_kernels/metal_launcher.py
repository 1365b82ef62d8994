"""Runs kernels on this machine's GPU, each built when it is first called."""

from collections.abc import Callable
from typing import cast

import mlx.core as mx

from metal_kernels.kernel import Call, Source
from metal_kernels.unrolled import unrolled


class MetalLauncher:
    """The launcher of the product. Only where `mx.metal.is_available()`; the call raises elsewhere.

    Outputs are lazy. MLX compiles a source once for each set of template arguments and dtypes.
    """

    def __init__(self) -> None:
        self._built: dict[str, Callable[..., list[mx.array]]] = {}

    def run(self, source: Source, call: Call) -> tuple[mx.array, ...]:
        """The outputs of one call."""
        outputs = self._kernel(source)(
            inputs=list(call.inputs),
            template=[(name, value) for name, value in call.parameters] or None,
            grid=call.grid,
            threadgroup=call.threadgroup,
            output_shapes=[output.shape for output in call.outputs],
            output_dtypes=[output.dtype for output in call.outputs],
        )
        return tuple(outputs)

    def _kernel(self, source: Source) -> Callable[..., list[mx.array]]:
        if source.name not in self._built:
            built = mx.fast.metal_kernel(
                name=source.name,
                input_names=list(source.inputs),
                output_names=list(source.outputs),
                source=unrolled(source.body),
                header=unrolled(source.header),
                ensure_row_contiguous=source.row_contiguous,
            )
            # MLX's own stub calls it an object
            self._built[source.name] = cast(Callable[..., list[mx.array]], built)
        return self._built[source.name]
