"""Linear layers of mlx-lm's models that send few rows through our kernel."""

from dataclasses import dataclass
from typing import cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import QuantizedLinear

from metal_kernels.choice import Kernels
from mlx_engine.models.few_rows import FewRows
from mlx_engine.models.library.exchange import exchange
from mlx_engine.models.matrix import Matrix, Packing


def use_kernels(model: Module, kernels: Kernels) -> None:
    """Exchange every linear layer that there is a kernel for; its parameters stay."""

    def linear(leaf: Module) -> Module | None:
        assert isinstance(leaf, Linear)
        weight: mx.array = leaf["weight"]
        dense = Matrix(weight, None, None, 0, 8 * weight.dtype.size, "dense")
        few_rows = _few_rows(leaf, dense, kernels)
        return None if few_rows is None else FewRowLinear(leaf, few_rows)

    def packed_linear(leaf: Module) -> Module | None:
        assert isinstance(leaf, QuantizedLinear)
        parts = (leaf["weight"], leaf["scales"], leaf.get("biases"))
        packed = Matrix(*parts, leaf.group_size, leaf.bits, cast(Packing, leaf.mode))
        few_rows = _few_rows(leaf, packed, kernels)
        return None if few_rows is None else FewRowQuantizedLinear(leaf, few_rows)

    layers = "mlx.nn.layers"
    kinds = {
        f"{layers}.linear.Linear": linear,
        f"{layers}.quantized.QuantizedLinear": packed_linear,
    }
    exchange(model, kinds)


@dataclass(frozen=True, slots=True)
class BiasedFewRows:
    """A product and its bias; adding: the kernel for both, None for an addition of its own."""

    bias: mx.array
    plain: FewRows
    adding: FewRows | None

    def takes(self, x: mx.array) -> bool:
        """Whether x [..., K] has a count of rows that the product's kernel is for."""
        return self.plain.takes(x)

    def product(self, x: mx.array) -> mx.array:
        """x [..., K] -> [..., N]."""
        if self.adding is not None and self.adding.takes(x):
            return self.adding.product_onto_bias(self.bias, x)
        return self.plain.product(x) + self.bias


class FewRowLinear(Linear):
    """`mlx.nn.Linear` with the same parameters and a kernel for few rows."""

    def __init__(self, stock: Linear, few_rows: FewRows | BiasedFewRows) -> None:
        Module.__init__(self)  # type: ignore[no-untyped-call]
        _take_parameters(self, stock)
        self._few_rows = few_rows

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply."""
        if self._few_rows.takes(x):
            return self._few_rows.product(x)
        return super().__call__(x)


class FewRowQuantizedLinear(QuantizedLinear):
    """`mlx.nn.QuantizedLinear` with the same parameters and a kernel for few rows."""

    def __init__(self, stock: QuantizedLinear, few_rows: FewRows | BiasedFewRows) -> None:
        Module.__init__(self)  # type: ignore[no-untyped-call]
        _take_parameters(self, stock)
        self.group_size, self.bits, self.mode = stock.group_size, stock.bits, stock.mode
        self._few_rows = few_rows

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply."""
        if self._few_rows.takes(x):
            return self._few_rows.product(x)
        y: mx.array = super().__call__(x)  # type: ignore[no-untyped-call]
        return y


def _take_parameters(layer: Module, stock: Module) -> None:
    for name in stock:
        layer[name] = stock[name]


def _few_rows(leaf: Module, matrix: Matrix, kernels: Kernels) -> FewRows | BiasedFewRows | None:
    plain = FewRows.of(matrix, kernels, "products")
    if plain is None or "bias" not in leaf:
        return plain
    return BiasedFewRows(leaf["bias"], plain, FewRows.of(matrix, kernels, "product-add"))
