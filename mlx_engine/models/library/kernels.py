"""Linear layers of mlx-lm's models that send few rows through our kernel."""

from typing import cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import QuantizedLinear

from metal_kernels.choice import Kernels
from mlx_engine.models import layers
from mlx_engine.models.library.exchange import exchange
from mlx_engine.models.matrix import Matrix, Packing


def use_kernels(model: Module, kernels: Kernels) -> None:
    """Exchange every linear layer that there is a kernel for; its parameters stay."""

    def linear(leaf: Module) -> Module | None:
        assert isinstance(leaf, Linear)
        weight: mx.array = leaf["weight"]
        dense = Matrix(weight, None, None, 0, 8 * weight.dtype.size, "dense")
        ours = layers.Linear.of(dense, kernels, leaf.get("bias"))
        return None if ours.few_rows is None else FewRowLinear(leaf, ours)

    def packed_linear(leaf: Module) -> Module | None:
        assert isinstance(leaf, QuantizedLinear)
        parts = (leaf["weight"], leaf["scales"], leaf.get("biases"))
        packed = Matrix(*parts, leaf.group_size, leaf.bits, cast(Packing, leaf.mode))
        ours = layers.Linear.of(packed, kernels, leaf.get("bias"))
        return None if ours.few_rows is None else FewRowQuantizedLinear(leaf, ours)

    names = ("mlx.nn.layers.linear.Linear", "mlx.nn.layers.quantized.QuantizedLinear")
    exchange(model, dict(zip(names, (linear, packed_linear), strict=True)))


class FewRowLinear(Linear):
    """`mlx.nn.Linear` with the same parameters and a kernel for few rows."""

    def __init__(self, stock: Linear, ours: layers.Linear) -> None:
        Module.__init__(self)  # type: ignore[no-untyped-call]
        _take_parameters(self, stock)
        self._ours = ours

    def __call__(self, x: mx.array) -> mx.array:
        """x [..., K] -> [..., N]."""
        return self._ours(x) if self._ours.is_for(x) else super().__call__(x)


class FewRowQuantizedLinear(QuantizedLinear):
    """`mlx.nn.QuantizedLinear` with the same parameters and a kernel for few rows."""

    def __init__(self, stock: QuantizedLinear, ours: layers.Linear) -> None:
        Module.__init__(self)  # type: ignore[no-untyped-call]
        _take_parameters(self, stock)
        self.group_size, self.bits, self.mode = stock.group_size, stock.bits, stock.mode
        self._ours = ours

    def __call__(self, x: mx.array) -> mx.array:
        """x [..., K] -> [..., N]."""
        if self._ours.is_for(x):
            return self._ours(x)
        y: mx.array = super().__call__(x)  # type: ignore[no-untyped-call]
        return y


def _take_parameters(layer: Module, stock: Module) -> None:
    for name in stock:
        layer[name] = stock[name]
