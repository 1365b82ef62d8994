"""Building blocks the families share: matrices dense or packed, norms, the gated feed-forward."""

from dataclasses import dataclass

import mlx.core as mx

from mlx_engine.models.weight_table import Matrix, WeightTable


@dataclass(frozen=True, slots=True)
class Linear:
    """x [..., K] -> [..., N] by a matrix in whatever form the file has it."""

    matrix: Matrix

    @staticmethod
    def take(table: WeightTable, name: str, outputs: int, inputs: int) -> "Linear":
        """Take `name` from the table."""
        return Linear(table.take_matrix(name, outputs, inputs))

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply."""
        matrix = self.matrix
        if matrix.scales is None:
            return x @ matrix.weight.T
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
class Embedding:
    """Token ids [..., T] -> rows [..., T, H]; unpacks only the rows it is asked for."""

    matrix: Matrix
    dtype: mx.Dtype

    def __call__(self, tokens: mx.array) -> mx.array:
        """Look up."""
        matrix = self.matrix
        rows = matrix.weight[tokens]
        if matrix.scales is None:
            return rows
        return mx.dequantize(
            rows,
            matrix.scales[tokens],
            None if matrix.biases is None else matrix.biases[tokens],
            group_size=matrix.group_size,
            bits=matrix.bits,
            mode=matrix.mode,
            dtype=self.dtype,
        )


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

    gate: Linear
    up: Linear
    down: Linear

    @staticmethod
    def take(table: WeightTable, name: str, hidden: int, inner: int) -> "GatedFeedForward":
        """Take `name`.{gate,up,down}_proj from the table."""
        return GatedFeedForward(
            gate=Linear.take(table, f"{name}.gate_proj", inner, hidden),
            up=Linear.take(table, f"{name}.up_proj", inner, hidden),
            down=Linear.take(table, f"{name}.down_proj", hidden, inner),
        )

    def __call__(self, x: mx.array) -> mx.array:
        """Feed forward."""
        return self.down(silu(self.gate(x)) * self.up(x))


def silu(x: mx.array) -> mx.array:
    """x * sigmoid(x)."""
    return x * mx.sigmoid(x)
