"""Building blocks of layers: linear, embedding, norm, RoPE, gated feed-forward."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import Kernels, Served, Work
from metal_kernels.stock import Position, RopeParams, RowFunction, Stock
from metal_kernels.stock_on_cpu import MLX
from metal_kernels.wide_norm import wide_norm
from mlx_engine.models.kernel_matrices import FewRowMatrix, ManyRowMatrix
from mlx_engine.models.layer_specs import Activation, FeedForwardSpec, RopeSpec
from mlx_engine.models.matrix import (
    ColumnProduct,
    Matrix,
    dequantised,
    dequantised_tiles,
    take_rows,
)
from mlx_engine.models.weights import Part


@dataclass(eq=False, slots=True)
class Linear:
    """x [..., K] -> [..., N] by a matrix in whatever form the file has it, and a bias.

    The result has x's element type, so that a matrix of floats among packed ones (GGUF files have
    routers and gates so) does not make all that follows float32.
    few_rows: the kernel for passes of few rows, None for none. adding: the one for product and bias
    together. many_rows: the one for all other passes. Stock MLX does what none of them does.
    columns: [1, K, N] of a dense matrix, a view that is made once. by_columns: of one in that mode.
    """

    matrix: Matrix
    few_rows: FewRowMatrix | None = None
    bias: mx.array | None = None
    adding: FewRowMatrix | None = None
    many_rows: ManyRowMatrix | None = None
    stock: Stock = MLX
    columns: mx.array | None = field(init=False, default=None)
    column_layout: ColumnProduct | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.matrix.mode == "dense":
            self.columns = self.matrix.weight.T[None]
        if self.matrix.mode == "columns":
            self.column_layout = ColumnProduct(self.matrix)

    @staticmethod
    def of(matrix: Matrix, kernels: Kernels, bias: mx.array | None = None) -> "Linear":
        """Wrap a matrix, with the kernel where it serves."""
        few_rows = FewRowMatrix.of(matrix, kernels, "products")
        adds = few_rows is not None and bias is not None
        adding = FewRowMatrix.of(matrix, kernels, "product-add") if adds else None
        many_rows = ManyRowMatrix.of(matrix, kernels, "prompt-products")
        return Linear(matrix, few_rows, bias, adding, many_rows, kernels.stock)

    @staticmethod
    def read(part: Part, name: str, dtype: mx.Dtype | None = None) -> "Linear":
        """`name` of a part, with a bias where its description has one; dtype: if dense."""
        matrix = part.matrix(name, dtype)
        bias = f"{name}.bias"
        bias_array = part.vector(bias, matrix.dtype) if bias in part else None
        return Linear.of(matrix, part.kernels, bias_array)

    @property
    def padding(self) -> int:
        """Columns that are left behind those of a padded product."""
        return self.matrix.padding if self.bias is None else 0

    def padded_product(self, x: mx.array) -> mx.array:
        """The product for those who cut it anyway."""
        return self.column_layout(x) if self.column_layout and self.padding else self(x)

    def __call__(self, x: mx.array) -> mx.array:
        """Multiply."""
        if self.bias is None:
            return self._product(x)
        if self.adding is not None and self.adding.takes(x):
            return self.adding.product_plus_bias(self.bias, x)
        return self._product(x) + self.bias

    def has_kernel_for(self, x: mx.array) -> bool:
        """Whether the kernel for few rows takes x [..., K]."""
        return self.few_rows is not None and self.few_rows.takes(x)

    def add_to(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual [1, T, N] + the product with x."""
        columns, is_alike = self.columns, residual.dtype == x.dtype
        if columns is None or self.bias is not None or self.has_kernel_for(x) or not is_alike:
            return residual + self(x)
        return mx.addmm(residual, x, columns)

    def _product(self, x: mx.array) -> mx.array:
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.product(x)
        if self.many_rows is not None and self.many_rows.is_enabled:
            return self.many_rows.product(x)
        return self._stock_product(x).astype(x.dtype)

    def _stock_product(self, x: mx.array) -> mx.array:
        matrix = self.matrix
        if self.column_layout is not None:
            products = self.column_layout(x)
            return products[..., : matrix.outputs] if matrix.padding else products
        if self.columns is not None:
            # MLX flattens rows [1, T, K] beside a matrix, but not beside a batch of one
            return x @ (self.columns if x.ndim == 3 else matrix.weight.T)
        if matrix.scales is None:
            tiles = dequantised_tiles(matrix, x.dtype, self.stock)
            return mx.concatenate([x @ tile.T for tile in tiles], axis=-1)
        return matrix.multiply(x)


class PartLocation(NamedTuple):
    """Where a part lies in the products of several matrices."""

    matrix: int
    column: int


@dataclass(frozen=True, slots=True)
class Projections:
    """Matrices with the same input, stacked wherever their packings agree.

    cuts: where the result of each is cut. pieces: of how many of those each part consists.
    """

    linears: tuple[Linear, ...]
    cuts: tuple[tuple[int, ...], ...]
    pieces: tuple[int, ...]

    @staticmethod
    def read(
        part: Part,
        names: Sequence[str],
        sizes: Sequence[int] = (),
        order: Mapping[str, Sequence[int]] | None = None,
    ) -> "Projections":
        """Read matrices of a part in this order; order: of the rows of some of them.

        sizes: of the parts wanted, where these are not what the matrices give.
        """
        joined = part.joined(names, order or {})
        linears = tuple(Linear.of(one.matrix, part.kernels, one.bias) for one in joined)
        ends = [0, *accumulate(sizes or (part.shapes[f"{name}.weight"][0] for name in names))]
        starts = list(accumulate((one.matrix.outputs for one in joined), initial=0))
        cuts = tuple(
            tuple(end - start for end in ends if start < end < stop)
            for start, stop in pairwise(starts)
        )
        pieces = tuple(
            1 + sum(first < start < last for start in starts) for first, last in pairwise(ends)
        )
        return Projections(linears, cuts, pieces)

    def __call__(self, x: mx.array) -> list[mx.array]:
        """Multiply x [..., K] by every matrix -> [..., N] each."""
        return self.parts(self.products(x))

    def products(self, x: mx.array) -> list[mx.array]:
        """Products of x [..., K] with the stacked matrices, padding included."""
        return [linear.padded_product(x) for linear in self.linears]

    def parts(self, products: Sequence[mx.array]) -> list[mx.array]:
        """Split the products into one array for each matrix."""
        pieces: list[mx.array] = []
        for linear, one, cuts in zip(self.linears, products, self.cuts, strict=True):
            if linear.padding:
                pieces += mx.split(one, (*cuts, linear.matrix.outputs), axis=-1)[:-1]
            else:
                pieces += mx.split(one, cuts, axis=-1) if cuts else [one]
        left = iter(pieces)
        return [
            next(left) if count == 1 else mx.concatenate(list(islice(left, count)), axis=-1)
            for count in self.pieces
        ]

    @property
    def part_locations(self) -> list[PartLocation]:
        """Where each part lies, if each consists of one piece."""
        starts = ((0, *cuts) for cuts in self.cuts)
        return [
            PartLocation(matrix, column)
            for matrix, bias_array in enumerate(starts)
            for column in bias_array
        ]

    @property
    def dtype(self) -> mx.Dtype:
        """Element type to compute in, that of the first matrix."""
        return self.linears[0].matrix.dtype


@dataclass(frozen=True, slots=True)
class ResidualLinear:
    """A matrix whose product is added to the residual; one kernel does both where rows are few."""

    linear: Linear
    few_rows: FewRowMatrix | None

    @staticmethod
    def read(part: Part, name: str) -> "ResidualLinear":
        """`name` of a part; with a bias there is no kernel for all three."""
        linear = Linear.read(part, name)
        plain = linear.bias is None
        few_rows = FewRowMatrix.of(linear.matrix, part.kernels, "product-add") if plain else None
        return ResidualLinear(linear, few_rows)

    def __call__(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual [..., N] and x [..., K] -> residual + x W^T."""
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.product_plus_residual(residual, x)
        return self.linear.add_to(residual, x)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Token ids [..., T] -> rows [..., T, H] times scale; unpacks only the rows asked for."""

    matrix: Matrix
    dtype: mx.Dtype
    scale: float = 1.0
    stock: Stock = MLX

    def __call__(self, tokens: mx.array) -> mx.array:
        """Look up."""
        rows = take_rows(self.matrix, tokens)
        is_dense = rows.mode == "dense"
        values = (
            rows.weight.astype(self.dtype)
            if is_dense
            else dequantised(rows, self.dtype, self.stock)
        )
        return values if self.scale == 1.0 else values * self.scale


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS norm (arXiv 1910.07467) or layer norm over the last axis; the weight as used, 1 + w in
    float32.

    A weight [R, N] is for the rows [1, T, R, N] in turn. run: by stock MLX. wide: the kernel for
    rows of 16 bits where the weight is float32, for any number of them.
    """

    weight: mx.array
    eps: float
    run: RowFunction
    wide: Served | None = None

    @staticmethod
    def read(part: Part, name: str, eps: float, *, is_layer_norm: bool = False) -> "Norm":
        """`name`.weight of a part; centred: layer norm, with a bias where there is one."""
        weight, bias = part.vector(f"{name}.weight"), f"{name}.bias"
        if not is_layer_norm:
            return Norm.of(weight, part, eps)
        bias_array = part.vector(bias) if bias in part else None
        return Norm(weight, eps, part.kernels.stock.centred_norm(weight, bias_array, eps))

    @staticmethod
    def read_heads(part: Part, names: Sequence[str], eps: float) -> "Norm":
        """Layer norms of rows that take turns, a weight for each."""
        weight = mx.concatenate([part.vector(f"{name}.weight") for name in names])
        return Norm(weight, eps, part.kernels.stock.centred_norm(weight, None, eps))

    @staticmethod
    def read_rows(part: Part, names: Mapping[str, int], eps: float) -> "Norm":
        """Of rows that take turns; names: for how many in a turn each weight is. A type that all
        have is kept, else they become float32.
        """
        weights = [part.vector(f"{name}.weight") for name in names]
        rows = zip(weights, names.values(), strict=True)
        every = [mx.broadcast_to(weight, (count, weight.size)) for weight, count in rows]
        return Norm.of(mx.concatenate(every), part, eps)

    @staticmethod
    def of(weight: mx.array, part: Part, eps: float) -> "Norm":
        """Wrap a weight, with the kernel where it serves."""
        kernels, size = part.kernels, weight.shape[-1]
        work = Work("", size, size)
        is_wide = part.table.has_16bit_floats and weight.dtype == mx.float32
        wide = kernels.served("norms", work) if is_wide else None
        return Norm(weight, eps, kernels.stock.norm(weight, eps), wide)

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise [1, T, ...]; the result has x's element type. Rows that take turns come out as
        [1, T, R, N], and may lie in x in any shape.
        """
        if self.wide is not None and x.dtype != mx.float32 and 1 in self.wide:
            rows = x if self.weight.ndim == 1 else x.reshape(*x.shape[:2], *self.weight.shape)
            return wide_norm(rows, self.weight, self.eps, self.wide.launcher)
        return self.run(x).astype(x.dtype)


class RotaryEmbedding:
    """Rotates [1, heads, T, size] by position as a Rope says."""

    def __init__(self, rope: RopeSpec, stock: Stock = MLX) -> None:
        self._rope = rope
        plain = RopeParams(rope.width, rope.base, rope.factors, rope.interleaved)
        late = plain._replace(factors=rope.long_factors or rope.factors)
        self._rotate, self._rotate_late = stock.rotation(plain), stock.rotation(late)

    def __call__(self, x: mx.array, position: Position, *, is_long: bool = False) -> mx.array:
        """Rotate; the first row is at `position`. is_long: use the second table, for long texts."""
        rope = self._rope
        if rope.magnitude != 1 and rope.width == x.shape[-1]:
            x = rope.magnitude * x
        elif rope.magnitude != 1:
            turned, rest = mx.split(x, [rope.width], axis=-1)
            x = mx.concatenate([rope.magnitude * turned, rest], axis=-1)
        return (self._rotate_late if is_long else self._rotate)(x, position)


Gate = Callable[..., mx.array]
"""What is made of the products of gate and up, or of up alone."""


@dataclass(frozen=True, slots=True)
class GatedFeedForward:
    """A FeedForward (layer_specs.py) of a description.

    few_rows: the kernel for silu(gate) * up of few rows, both in one matrix.
    """

    gate_up: Projections
    few_rows: FewRowMatrix | None
    join: Gate
    down: ResidualLinear

    @staticmethod
    def read(part: Part, spec: FeedForwardSpec) -> "GatedFeedForward":
        """{gate,up,down}_proj of a part."""
        names = ("gate_proj", "up_proj") if spec.gated else ("up_proj",)
        gate_up = Projections.read(part, names)
        first, *more = gate_up.linears
        is_plain = spec.activation == "silu" and not spec.limit and not spec.bias
        takes = is_plain and spec.gated and not more
        few_rows = FewRowMatrix.of(first.matrix, part.kernels, "gate-up") if takes else None
        join = make_gate(spec, part.kernels.stock)
        return GatedFeedForward(gate_up, few_rows, join, ResidualLinear.read(part, "down_proj"))

    def __call__(self, x: mx.array) -> mx.array:
        """Hidden states [1, T, H] -> [1, T, H]."""
        return self.down.linear(self._gated(x))

    def add_to(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual + the output for x."""
        return self.down(residual, self._gated(x))

    def _gated(self, x: mx.array) -> mx.array:
        if self.few_rows is not None and self.few_rows.takes(x):
            return self.few_rows.gate_up(x)
        return self.join(*self.gate_up(x))


def make_gate(spec: FeedForwardSpec, stock: Stock) -> Gate:
    """The activation f(gate, up) of a spec."""
    gated = spec.gated or spec.activation == "oai"
    formula = (
        _gate_function(spec.activation, spec.limit) if gated else _ACTIVATIONS[spec.activation]
    )
    return stock.elementwise(formula)


@cache
def _gate_function(activation: Activation, limit: float) -> Gate:
    if activation == "oai":
        return lambda gate, up: _gpt_oss_gate(gate, up, limit)
    activate = _ACTIVATIONS[activation]
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


def _gelu(x: mx.array) -> mx.array:
    return 0.5 * x * (1 + mx.erf(x * math.sqrt(0.5)))


def _relu(x: mx.array) -> mx.array:
    return mx.maximum(x, 0)


def _relu2(x: mx.array) -> mx.array:
    return mx.square(_relu(x))


_ACTIVATIONS: dict[Activation, Callable[[mx.array], mx.array]] = {
    "silu": silu,
    "gelu": _gelu,
    "gelu_tanh": gelu_tanh,
    "gelu_sigmoid": lambda x: x * mx.sigmoid(1.702 * x),
    "relu": _relu,
    "relu2": _relu2,
    "sigmoid": mx.sigmoid,
    "tanh": mx.tanh,
    "linear": lambda x: x,
}


def _gpt_oss_gate(gate: mx.array, up: mx.array, limit: float) -> mx.array:
    gate, up = mx.minimum(gate, limit), mx.clip(up, -limit, limit)
    return (up + 1) * gate * mx.sigmoid(1.702 * gate)
