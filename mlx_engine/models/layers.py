"""Building blocks the families share: matrices dense or packed, norms, the gated feed-forward."""

from dataclasses import dataclass

import mlx.core as mx

from metal_kernels.choice import Kernels
from mlx_engine.models.few_rows import FewRows
from mlx_engine.models.matrix import Matrix, rows_of, values_of
from mlx_engine.models.weight_table import WeightTable


@dataclass(frozen=True, slots=True)
class Linear:
    """x [..., K] -> [..., N] by a matrix in whatever form the file has it.

    few_rows: the kernel for passes of few rows, None for stock MLX throughout.
    """

    matrix: Matrix
    few_rows: FewRows | None = None

    @staticmethod
    def of(matrix: Matrix, kernels: Kernels) -> "Linear":
        """By the kernel where there is one for this matrix."""
        return Linear(matrix, FewRows.of(matrix, kernels, "products"))

    @staticmethod
    def take(table: WeightTable, name: str, outputs: int, inputs: int) -> "Linear":
        """Take `name` from the table."""
        return Linear.of(table.take_matrix(name, outputs, inputs), table.kernels)

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply."""
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.product(x)
        matrix = self.matrix
        if matrix.mode == "dense":
            return x @ matrix.weight.T
        if matrix.scales is None:
            return x @ values_of(matrix, x.dtype).T
        return mx.quantized_matmul(
            x,
            matrix.weight,
            matrix.scales,
            matrix.biases,
            transpose=True,
            group_size=matrix.group_size,
            bits=matrix.bits,
            mode=matrix.mode,
        )


@dataclass(frozen=True, slots=True)
class ResidualLinear:
    """A matrix whose product goes onto the residual, and one kernel for both where rows are few."""

    linear: Linear
    few_rows: FewRows | None

    @staticmethod
    def take(table: WeightTable, name: str, outputs: int, inputs: int) -> "ResidualLinear":
        """Take `name` from the table."""
        linear = Linear.take(table, name, outputs, inputs)
        return ResidualLinear(linear, FewRows.of(linear.matrix, table.kernels, "product-add"))

    def __call__(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual [..., N] and x [..., K] -> residual + x W^T."""
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.product_onto(residual, x)
        return residual + self.linear(x)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Token ids [..., T] -> rows [..., T, H]; unpacks only the rows it is asked for."""

    matrix: Matrix
    dtype: mx.Dtype

    def __call__(self, tokens: mx.array) -> mx.array:
        """Look up."""
        rows = rows_of(self.matrix, tokens)
        return rows.weight if rows.mode == "dense" else values_of(rows, self.dtype)


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS norm (arXiv 1910.07467) over the last axis; the weight as used, in float32."""

    weight: mx.array
    eps: float

    @staticmethod
    def take(table: WeightTable, name: str, size: int, eps: float) -> "Norm":
        """Take `name`.weight [size] from the table."""
        return Norm(table.take(f"{name}.weight", (size,)), eps)

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise; the result has x's element type."""
        return mx.fast.rms_norm(x, self.weight, self.eps).astype(x.dtype)


@dataclass(frozen=True, slots=True)
class GatedFeedForward:
    """down(silu(gate(x)) * up(x)) (arXiv 2002.05202)."""

    gated: "GateAndUp | GateUp"
    down: ResidualLinear

    @staticmethod
    def take(table: WeightTable, name: str, hidden: int, inner: int) -> "GatedFeedForward":
        """Take `name`.{gate,up,down}_proj from the table."""
        return GatedFeedForward(
            gated=_take_gated(table, name, hidden, inner),
            down=ResidualLinear.take(table, f"{name}.down_proj", hidden, inner),
        )

    def __call__(self, x: mx.array) -> mx.array:
        """Feed forward."""
        return self.down.linear(self.gated(x))

    def onto(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual + what comes of x."""
        return self.down(residual, self.gated(x))


@dataclass(frozen=True, slots=True)
class GateAndUp:
    """silu(gate(x)) * up(x), by two matrices."""

    gate: Linear
    up: Linear

    def __call__(self, x: mx.array) -> mx.array:
        """[..., K] -> [..., N]."""
        return silu(self.gate(x)) * self.up(x)


@dataclass(frozen=True, slots=True)
class GateUp:
    """The same by one matrix, gates above ups, and one kernel for few rows."""

    both: Linear
    few_rows: FewRows | None

    def __call__(self, x: mx.array) -> mx.array:
        """[..., K] -> [..., N]."""
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.gate_up(x)
        gate, up = mx.split(self.both(x), 2, axis=-1)
        return silu(gate) * up


def _take_gated(table: WeightTable, name: str, hidden: int, inner: int) -> GateAndUp | GateUp:
    gate, up = f"{name}.gate_proj", f"{name}.up_proj"
    if table.kernels.has("gate-up"):
        joined = table.take_joined((gate, up), inner, hidden)
        if joined is not None:
            few_rows = FewRows.of(joined, table.kernels, "gate-up")
            return GateUp(Linear.of(joined, table.kernels), few_rows)
    return GateAndUp(Linear.take(table, gate, inner, hidden), Linear.take(table, up, inner, hidden))


def silu(x: mx.array) -> mx.array:
    """x * sigmoid(x)."""
    return x * mx.sigmoid(x)
