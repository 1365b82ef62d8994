"""What every layer is made of: products, embedding, norm, rotation, the gated feed-forward."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mlx.core as mx

from metal_kernels.choice import Kernels, Served, Work
from metal_kernels.stock import MLX, Stock
from metal_kernels.wide_norm import wide_norm
from mlx_engine.models.few_rows import FewRows
from mlx_engine.models.many_rows import ManyRows
from mlx_engine.models.matrix import Matrix, rows_of, tiles_of, values_of
from mlx_engine.models.specs import Activation, FeedForward, Rope
from mlx_engine.models.weights import Part


@dataclass(frozen=True, slots=True)
class Linear:
    """x [..., K] -> [..., N] by a matrix in whatever form the file has it, and a bias.

    The result has x's element type, so that a matrix of floats among packed ones (GGUF files have
    routers and gates so) does not make all that follows float32.
    few_rows: the kernel for passes of few rows, None for none. adding: the one for product and bias
    together. many_rows: the one for all other passes. Stock MLX does what none of them does.
    """

    matrix: Matrix
    few_rows: FewRows | None = None
    bias: mx.array | None = None
    adding: FewRows | None = None
    many_rows: ManyRows | None = None
    stock: Stock = MLX

    @staticmethod
    def of(matrix: Matrix, kernels: Kernels, bias: mx.array | None = None) -> "Linear":
        """By the kernel where there is one for this matrix."""
        few_rows = FewRows.of(matrix, kernels, "products")
        adds = few_rows is not None and bias is not None
        adding = FewRows.of(matrix, kernels, "product-add") if adds else None
        many_rows = ManyRows.of(matrix, kernels, "prompt-products")
        return Linear(matrix, few_rows, bias, adding, many_rows, kernels.stock)

    @staticmethod
    def read(part: Part, name: str, dtype: mx.Dtype | None = None) -> "Linear":
        """`name` of a part, with a bias where its description has one; dtype: if dense."""
        matrix = part.matrix(name, dtype)
        bias = f"{name}.bias"
        its = part.vector(bias, matrix.dtype) if bias in part else None
        return Linear.of(matrix, part.kernels, its)

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply."""
        if self.bias is None:
            return self._product(x)
        if self.adding is not None and self.adding.takes(x):
            return self.adding.product_onto_bias(self.bias, x)
        return self._product(x) + self.bias

    def _product(self, x: mx.array) -> mx.array:
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.product(x)
        if self.many_rows is not None and self.many_rows.is_in_use:
            return self.many_rows.product(x)
        return self._stock_product(x).astype(x.dtype)

    def _stock_product(self, x: mx.array) -> mx.array:
        matrix = self.matrix
        if matrix.mode == "dense":
            return x @ matrix.weight.T
        if matrix.scales is None:
            tiles = tiles_of(matrix, x.dtype, self.stock)
            return mx.concatenate([x @ tile.T for tile in tiles], axis=-1)
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
    def read(part: Part, name: str) -> "ResidualLinear":
        """`name` of a part; with a bias there is no kernel for all three."""
        linear = Linear.read(part, name)
        plain = linear.bias is None
        few_rows = FewRows.of(linear.matrix, part.kernels, "product-add") if plain else None
        return ResidualLinear(linear, few_rows)

    def __call__(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual [..., N] and x [..., K] -> residual + x W^T."""
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.product_onto(residual, x)
        return residual + self.linear(x)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Token ids [..., T] -> rows [..., T, H] times scale; unpacks only the rows asked for."""

    matrix: Matrix
    dtype: mx.Dtype
    scale: float = 1.0
    stock: Stock = MLX

    def __call__(self, tokens: mx.array) -> mx.array:
        """Look up."""
        rows = rows_of(self.matrix, tokens)
        is_dense = rows.mode == "dense"
        values = (
            rows.weight.astype(self.dtype) if is_dense else values_of(rows, self.dtype, self.stock)
        )
        return values if self.scale == 1.0 else values * self.scale


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS norm (arXiv 1910.07467) over the last axis; the weight as used, 1 + w in float32.

    wide: the kernel for rows of 16 bits where the weight is float32, for any number of them.
    """

    weight: mx.array
    eps: float
    stock: Stock = MLX
    wide: Served | None = None

    @staticmethod
    def read(part: Part, name: str, eps: float) -> "Norm":
        """`name`.weight of a part."""
        weight, kernels = part.vector(f"{name}.weight"), part.kernels
        work = Work("", weight.size, weight.size)
        is_wide = part.table.has_halves and weight.dtype == mx.float32
        wide = kernels.served("norms", work, whole=True) if is_wide else None
        return Norm(weight, eps, kernels.stock, wide)

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise; the result has x's element type."""
        if self.wide is not None and x.dtype != mx.float32 and 1 in self.wide:
            return wide_norm(x, self.weight, self.eps, self.wide.launcher)
        return self.stock.rms_norm(x, self.weight, self.eps).astype(x.dtype)


class Rotation:
    """Rotates [1, heads, T, size] by position as a Rope says."""

    def __init__(self, rope: Rope, stock: Stock = MLX) -> None:
        self._rope = rope
        self._stock = stock
        self._periods = self._of(rope.factors)
        self._long_periods = self._of(rope.long_factors)

    def __call__(self, x: mx.array, position: int, *, is_long: bool = False) -> mx.array:
        """The same shape; the first row stands at `position`. is_long: as in a long text."""
        rope = self._rope
        if rope.magnitude != 1 and rope.width == x.shape[-1]:
            x = rope.magnitude * x
        elif rope.magnitude != 1:
            turned, rest = mx.split(x, [rope.width], axis=-1)
            x = mx.concatenate([rope.magnitude * turned, rest], axis=-1)
        periods = self._long_periods if is_long and rope.long_factors else self._periods
        return self._stock.rope(
            x,
            rope.width,
            interleaved=rope.interleaved,
            base=rope.base if periods is None else None,
            offset=position,
            periods=periods,
        )

    def _of(self, factors: tuple[float, ...] | None) -> mx.array | None:
        """Tokens in which each pair turns by one radian."""
        if factors is None:
            return None
        width, base = self._rope.width, self._rope.base
        return mx.array(
            [base ** (2 * pair / width) * factor for pair, factor in enumerate(factors)]
        )


@dataclass(frozen=True, slots=True)
class GatedFeedForward:
    """A FeedForward (specs.py) of a description."""

    gated: "GateAndUp | GateUp"
    down: ResidualLinear

    @staticmethod
    def read(part: Part, spec: FeedForward) -> "GatedFeedForward":
        """{gate,up,down}_proj of a part; gate and up in one where a kernel takes both."""
        return GatedFeedForward(_read_gated(part, spec), ResidualLinear.read(part, "down_proj"))

    def __call__(self, x: mx.array) -> mx.array:
        """Feed forward."""
        return self.down.linear(self.gated(x))

    def onto(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual + what comes of x."""
        return self.down(residual, self.gated(x))


Gate = Callable[[mx.array, mx.array], mx.array]
"""What is made of the products of gate and up."""


@dataclass(frozen=True, slots=True)
class GateAndUp:
    """The gated product by two matrices."""

    gate: Linear
    up: Linear
    join: Gate

    def __call__(self, x: mx.array) -> mx.array:
        """[..., K] -> [..., N]."""
        return self.join(self.gate(x), self.up(x))


@dataclass(frozen=True, slots=True)
class GateUp:
    """silu(gate) * up by one matrix, gates above ups, and one kernel for few rows."""

    both: Linear
    few_rows: FewRows | None
    join: Gate

    def __call__(self, x: mx.array) -> mx.array:
        """[..., K] -> [..., N]."""
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.gate_up(x)
        gate, up = mx.split(self.both(x), 2, axis=-1)
        return self.join(gate, up)


def _read_gated(part: Part, spec: FeedForward) -> GateAndUp | GateUp:
    is_plain = spec.activation == "silu" and not spec.limit and not spec.bias
    if is_plain and part.kernels.has("gate-up"):
        joined = part.joined(("gate_proj", "up_proj"))
        if joined is not None:
            few_rows = FewRows.of(joined, part.kernels, "gate-up")
            join = gate_of(spec, part.kernels.stock)
            return GateUp(Linear.of(joined, part.kernels), few_rows, join)
    gate, up = Linear.read(part, "gate_proj"), Linear.read(part, "up_proj")
    return GateAndUp(gate, up, gate_of(spec, part.kernels.stock))


def gate_of(spec: FeedForward, stock: Stock) -> Gate:
    """The description's f(gate, up)."""
    return stock.elementwise(_gate(spec.activation, spec.limit))


@cache
def _gate(activation: Activation, limit: float) -> Gate:
    if activation == "oai":
        return lambda gate, up: _oai(gate, up, limit)
    activate = silu if activation == "silu" else gelu_tanh
    if not limit:
        return lambda gate, up: activate(gate) * up
    return lambda gate, up: mx.minimum(activate(gate), limit) * mx.clip(up, -limit, limit)


def silu(x: mx.array) -> mx.array:
    """x * sigmoid(x)."""
    return x * mx.sigmoid(x)


def gelu_tanh(x: mx.array) -> mx.array:
    """GELU by its usual approximation (arXiv 1606.08415)."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + mx.tanh(inner))


def _oai(gate: mx.array, up: mx.array, limit: float) -> mx.array:
    gate, up = mx.minimum(gate, limit), mx.clip(up, -limit, limit)
    return (up + 1) * gate * mx.sigmoid(1.702 * gate)
