"""Building blocks of decoder layers: linear, embedding, norm, RoPE and gated feed-forward."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.block_embedding import block_embedding
from metal_kernels.choice import KernelRowCounts, Kernels, KernelWork
from metal_kernels.stock import Position, RopeParams, RowFunction, StockOperations
from metal_kernels.stock_on_cpu import MLX
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from metal_kernels.wide_norm import wide_norm
from mlx_engine.models.feed_forward_specs import Activation, FeedForwardSpec
from mlx_engine.models.kernel_matrices import FewRowMatrix, ManyRowMatrix
from mlx_engine.models.layer_specs import RopeSpec
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
    """Linear layer x [..., K] -> [..., N] with a matrix in any stored format and an optional bias.

    The result has x's dtype, so that a float32 matrix among quantised ones (routers and gates in
    GGUF files) does not make later layers float32. few_rows: kernel for few rows; adding: kernel
    for product plus bias; many_rows: kernel for prompts; MLX multiplies where none applies.
    columns: dense transposed view [1, K, N]. column_layout: product for the "columns" packing.
    padding: columns that `padded_product` has beyond the N outputs.
    """

    matrix: Matrix
    few_rows: FewRowMatrix | None = None
    bias: mx.array | None = None
    adding: FewRowMatrix | None = None
    many_rows: ManyRowMatrix | None = None
    stock: StockOperations = MLX
    columns: mx.array | None = field(init=False, default=None)
    column_layout: ColumnProduct | None = field(init=False, default=None)
    padding: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.matrix.mode == "dense":
            self.columns = self.matrix.weight.T[None]
        if self.matrix.mode == "columns":
            self.column_layout = ColumnProduct(self.matrix)
            self.padding = self.matrix.padding if self.bias is None else 0

    @staticmethod
    def from_matrix(matrix: Matrix, kernels: Kernels, bias: mx.array | None = None) -> "Linear":
        """Wrap a weight matrix as a linear layer, with kernels where there are any for it."""
        few_rows = FewRowMatrix.from_matrix(matrix, kernels, "products")
        adds = few_rows is not None and bias is not None
        adding = FewRowMatrix.from_matrix(matrix, kernels, "product-add") if adds else None
        many_rows = ManyRowMatrix.from_matrix(matrix, kernels, "prompt-products")
        return Linear(matrix, few_rows, bias, adding, many_rows, kernels.stock)

    @staticmethod
    def read(part: Part, name: str, dtype: mx.Dtype | None = None) -> "Linear":
        """Read `name`.weight and any bias as a linear layer; dtype: cast of a dense matrix."""
        matrix = part.matrix(name, dtype)
        bias = f"{name}.bias"
        bias_array = part.vector(bias, matrix.dtype) if bias in part else None
        return Linear.from_matrix(matrix, part.kernels, bias_array)

    def padded_product(self, x: mx.array) -> mx.array:
        """Multiply x by a linear layer -> [..., N + padding], for callers that split the result."""
        return self.column_layout(x) if self.column_layout and self.padding else self(x)

    def __call__(self, x: mx.array) -> mx.array:
        """Apply a linear layer: x [..., K] -> x W^T + bias [..., N]."""
        bias, few_rows = self.bias, self.few_rows
        if bias is not None and self.adding is not None and self.adding.supports_rows(x):
            return self.adding.product_plus_bias(bias, x)
        if few_rows is not None and few_rows.supports_rows(x):
            product = few_rows.product(x)
        elif self.many_rows is not None and self.many_rows.is_enabled:
            product = self.many_rows.product(x)
        elif self.columns is not None and x.ndim == 3:
            # MLX flattens rows [1, T, K] beside a matrix, but not beside a batch of one
            product = (x @ self.columns).astype(x.dtype)
        else:
            product = self._stock_product(x).astype(x.dtype)
        return product if bias is None else product + bias

    def has_kernel_for(self, x: mx.array) -> bool:
        """Whether the linear layer's kernel for few rows serves as many rows as x [..., K] has."""
        return self.few_rows is not None and self.few_rows.supports_rows(x)

    def add_to_residual(self, residual: mx.array, x: mx.array) -> mx.array:
        """Return residual [1, T, N] + the linear layer's product with x."""
        columns, is_alike = self.columns, residual.dtype == x.dtype
        if columns is None or self.bias is not None or self.has_kernel_for(x) or not is_alike:
            return residual + self(x)
        return mx.addmm(residual, x, columns)

    def _stock_product(self, x: mx.array) -> mx.array:
        matrix = self.matrix
        if self.column_layout is not None:
            products = self.column_layout(x)
            return products[..., : matrix.output_size] if matrix.padding else products
        if self.columns is not None:
            return x @ matrix.weight.T
        if matrix.scales is None:
            tiles = dequantised_tiles(matrix, x.dtype, self.stock)
            return mx.concatenate([x @ tile.T for tile in tiles], axis=-1)
        return matrix.multiply(x)


class PartLocation(NamedTuple):
    """Where a projection lies in the outputs of stacked matrices: matrix index, first column."""

    matrix: int
    column: int


@dataclass(frozen=True, slots=True)
class Projections:
    """Several projections of one input (such as q, k, v), stacked where their formats agree.

    cuts: columns at which each matrix's output is split. pieces: number of splits that make up each
    requested part.
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
        """Read projection matrices from weights and stack them in the given order.

        sizes: widths of the parts to return, by default those of the matrices. order: row order of
        some matrices.
        """
        joined = part.take_stacked_matrices(names, order or {})
        linears = tuple(Linear.from_matrix(one.matrix, part.kernels, one.bias) for one in joined)
        ends = [0, *accumulate(sizes or (part.shapes[f"{name}.weight"][0] for name in names))]
        starts = list(accumulate((one.matrix.output_size for one in joined), initial=0))
        cuts = tuple(
            tuple(end - start for end in ends if start < end < stop)
            for start, stop in pairwise(starts)
        )
        pieces = tuple(
            1 + sum(first < start < last for start in starts) for first, last in pairwise(ends)
        )
        return Projections(linears, cuts, pieces)

    def __call__(self, x: mx.array) -> list[mx.array]:
        """Multiply x [..., K] by all projections -> one array [..., N] for each of them."""
        return self.split_products(self.padded_products(x))

    def padded_products(self, x: mx.array) -> list[mx.array]:
        """Multiply x [..., K] by the stacked projection matrices; outputs keep padding columns."""
        return [linear.padded_product(x) for linear in self.linears]

    def split_products(self, products: Sequence[mx.array]) -> list[mx.array]:
        """Split the outputs of stacked projection matrices into one array for each projection."""
        pieces: list[mx.array] = []
        for linear, product, cuts in zip(self.linears, products, self.cuts, strict=True):
            if linear.padding:
                pieces += mx.split(product, (*cuts, linear.matrix.output_size), axis=-1)[:-1]
            else:
                pieces += mx.split(product, cuts, axis=-1) if cuts else [product]
        if len(pieces) == len(self.pieces):
            return pieces
        left = iter(pieces)
        return [
            next(left) if count == 1 else mx.concatenate(list(islice(left, count)), axis=-1)
            for count in self.pieces
        ]

    @property
    def part_locations(self) -> list[PartLocation]:
        """Where each projection lies in the stacked matrices' outputs; none may span two."""
        starts = ((0, *cuts) for cuts in self.cuts)
        return [
            PartLocation(matrix, column)
            for matrix, bias_array in enumerate(starts)
            for column in bias_array
        ]

    @property
    def dtype(self) -> mx.Dtype:
        """Element type that the projections compute in: that of the first matrix."""
        return self.linears[0].matrix.dtype


@dataclass(frozen=True, slots=True)
class ResidualLinear:
    """Linear layer whose result is added to the residual, by one kernel where rows are few."""

    linear: Linear
    few_rows: FewRowMatrix | None

    @staticmethod
    def read(part: Part, name: str) -> "ResidualLinear":
        """Read linear layer `name`; with a bias it gets no kernel that adds the residual."""
        linear = Linear.read(part, name)
        plain = linear.bias is None
        few_rows = (
            FewRowMatrix.from_matrix(linear.matrix, part.kernels, "product-add") if plain else None
        )
        return ResidualLinear(linear, few_rows)

    def __call__(self, residual: mx.array, x: mx.array) -> mx.array:
        """Multiply and add: residual [..., N] and x [..., K] -> residual + x W^T."""
        if self.few_rows is not None and self.few_rows.supports_rows(x):
            return self.few_rows.product_plus_residual(residual, x)
        return self.linear.add_to_residual(residual, x)


@dataclass(frozen=True, slots=True)
class Embedding:
    """Embedding table: token ids [..., T] -> rows [..., T, H], dequantised and scaled.

    served: contains 1 while the kernel for GGUF blocks is in use. norm: that rows go through.
    """

    matrix: Matrix
    dtype: mx.Dtype
    scale: float = 1.0
    stock: StockOperations = MLX
    served: KernelRowCounts | None = None
    norm: "Norm | None" = None

    @staticmethod
    def from_matrix(
        matrix: Matrix, dtype: mx.Dtype, kernels: Kernels, scale: float = 1.0
    ) -> "Embedding":
        """Wrap a matrix as an embedding table, with the kernel for GGUF blocks."""
        work = KernelWork(matrix.mode, matrix.output_size, matrix.input_size)
        served = (
            kernels.served_row_counts("embedding", work) if matrix.mode in BLOCK_FORMS else None
        )
        return Embedding(matrix, dtype, scale, kernels.stock, served)

    def in_bfloat16(self) -> "Embedding":
        """Return the same table with rows in bfloat16."""
        return replace(self, dtype=mx.bfloat16)

    def __call__(self, tokens: mx.array) -> mx.array:
        """Look up the embeddings of token ids [..., T] -> rows [..., T, H]."""
        values = self._look_up_rows(tokens)
        values = values if self.scale == 1.0 else values * self.scale
        return values if self.norm is None else self.norm(values)

    def _look_up_rows(self, tokens: mx.array) -> mx.array:
        if self.served is not None and 1 in self.served:
            form, launcher = BLOCK_FORMS[self.matrix.mode], self.served.launcher
            return block_embedding(tokens, self.matrix.weight, form, self.dtype, launcher)
        rows = take_rows(self.matrix, tokens)
        if rows.mode == "dense":
            return rows.weight.astype(self.dtype)
        return dequantised(rows, self.dtype, self.stock)


@dataclass(frozen=True, slots=True)
class Norm:
    """RMS norm (arXiv 1910.07467) or layer norm over the last axis.

    weight [N], or [R, N] for rows [1, T, R, N] with a weight each; zero-centred weights already
    have 1 added. run: the norm by MLX. wide: kernel for 16-bit rows with a float32 weight.
    """

    weight: mx.array
    eps: float
    run: RowFunction
    wide: KernelRowCounts | None = None

    @staticmethod
    def read(part: Part, name: str, eps: float, *, is_layer_norm: bool = False) -> "Norm":
        """Read a norm, `name`.weight; is_layer_norm: as a layer norm, with any bias."""
        weight, bias = part.vector(f"{name}.weight"), f"{name}.bias"
        if not is_layer_norm:
            return Norm.from_weight(weight, part, eps)
        bias_array = part.vector(bias) if bias in part else None
        return Norm(weight, eps, part.kernels.stock.make_layer_norm(weight, bias_array, eps))

    @staticmethod
    def read_heads(part: Part, names: Sequence[str], eps: float) -> "Norm":
        """Read layer norms for the heads of queries and keys: a weight per head, no bias."""
        weight = mx.concatenate([part.vector(f"{name}.weight") for name in names])
        return Norm(weight, eps, part.kernels.stock.make_layer_norm(weight, None, eps))

    @staticmethod
    def read_rows(part: Part, names: Mapping[str, int], eps: float) -> "Norm":
        """Stack the weights of several RMS norms, each repeated for its rows, to one norm.

        names: name of a norm -> number of rows of the input (heads) that it normalises. The
        weight of the result is [rows, N].
        """
        weights = [part.vector(f"{name}.weight") for name in names]
        rows = zip(weights, names.values(), strict=True)
        every = [mx.broadcast_to(weight, (count, weight.size)) for weight, count in rows]
        return Norm.from_weight(mx.concatenate(every), part, eps)

    @staticmethod
    def from_weight(weight: mx.array, part: Part, eps: float) -> "Norm":
        """Make an RMS norm of a weight, with the engine's kernel where there is one for it."""
        kernels, size = part.kernels, weight.shape[-1]
        work = KernelWork("", size, size)
        is_wide = part.table.computed != mx.float32 and weight.dtype == mx.float32
        wide = kernels.served_row_counts("norms", work) if is_wide else None
        return Norm(weight, eps, kernels.stock.make_rms_norm(weight, eps), wide)

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise x [1, T, ...]; the result has x's element type.

        With a weight for each of R rows the result is [1, T, R, N], whatever the shape of x.
        """
        if self.wide is not None and x.dtype != mx.float32 and 1 in self.wide:
            rows = x if self.weight.ndim == 1 else x.reshape(*x.shape[:2], *self.weight.shape)
            return wide_norm(rows, self.weight, self.eps, self.wide.launcher)
        return self.run(x).astype(x.dtype)


class Rotation(NamedTuple):
    """Rotation of pairs half the rotated width apart, [T, width / 2] each, in float32."""

    cosines: mx.array
    sines: mx.array

    @staticmethod
    def from_angles(angles: NDArray[np.float64], magnitude: float = 1.0) -> "Rotation":
        """Make the rotation of rows by their angles [T, width / 2] in radians.

        magnitude: factor of rotated elements.
        """
        sides = (magnitude * np.cos(angles), magnitude * np.sin(angles))
        return Rotation(*(mx.array(side, mx.float32) for side in sides))

    def __call__(self, x: mx.array) -> mx.array:
        """Rotate the first `width` elements of heads [1, heads, T, size]."""
        half = self.cosines.shape[-1]
        first, second, *plain = mx.split(x, [half, 2 * half][: 1 + (2 * half < x.shape[-1])], -1)
        one, other = first.astype(mx.float32), second.astype(mx.float32)
        turned = (
            one * self.cosines - other * self.sines,
            other * self.cosines + one * self.sines,
        )
        return mx.concatenate([*(side.astype(x.dtype) for side in turned), *plain], axis=-1)


class RotaryEmbedding:
    """Rotary position embedding of heads [1, heads, T, size], as a RopeSpec describes it."""

    def __init__(self, rope: RopeSpec, stock: StockOperations = MLX) -> None:
        plain = RopeParams(rope.width, rope.base, rope.factors, rope.interleaved, rope.magnitude)
        self._axes = list(rope.axes) or [0] * (rope.width // 2)
        self._periods, self._magnitude = np.array(plain.rope_periods), rope.magnitude
        late = plain._replace(factors=rope.long_factors or rope.factors)
        self._rotate, self._rotate_late = stock.make_rope(plain), stock.make_rope(late)

    def __call__(self, x: mx.array, position: Position, *, is_long: bool = False) -> mx.array:
        """Rotate [1, heads, T, size] from `position` on; is_long: by factors for long texts."""
        return (self._rotate_late if is_long else self._rotate)(x, position)

    def rotate_by_positions(self, x: mx.array, places: NDArray[np.int64]) -> mx.array:
        """Rotate [1, heads, T, size] by positions int [3, T] of time, height and width (M-RoPE).

        Each pair of elements follows one of the three, as the RopeSpec's axes say.
        """
        return Rotation.from_angles(places[self._axes].T / self._periods, self._magnitude)(x)


Gate = Callable[..., mx.array]
"""What is made of the products of gate and up, or of up alone."""


@dataclass(frozen=True, slots=True)
class GatedFeedForward:
    """Dense feed-forward built from a FeedForwardSpec.

    few_rows: kernel that computes silu(gate) * up for few rows, with both matrices fused.
    """

    gate_up: Projections
    few_rows: FewRowMatrix | None
    join: Gate
    down: ResidualLinear

    @staticmethod
    def read(part: Part, spec: FeedForwardSpec) -> "GatedFeedForward":
        """Read a feed-forward from weights: gate_proj (if gated), up_proj and down_proj."""
        names = ("gate_proj", "up_proj") if spec.gated else ("up_proj",)
        gate_up = Projections.read(part, names)
        first, *more = gate_up.linears
        is_plain = spec.activation == "silu" and not spec.limit and not spec.bias
        takes = is_plain and spec.gated and not more
        few_rows = (
            FewRowMatrix.from_matrix(first.matrix, part.kernels, "gate-up") if takes else None
        )
        join = make_gate(spec, part.kernels.stock)
        return GatedFeedForward(gate_up, few_rows, join, ResidualLinear.read(part, "down_proj"))

    def __call__(self, x: mx.array) -> mx.array:
        """Apply the feed-forward to hidden states [1, T, H] -> [1, T, H]."""
        return self.down.linear(self._gate_up_product(x))

    def add_to_residual(self, residual: mx.array, x: mx.array) -> mx.array:
        """Return residual [1, T, H] + feed-forward(x)."""
        return self.down(residual, self._gate_up_product(x))

    def _gate_up_product(self, x: mx.array) -> mx.array:
        if self.few_rows is not None and self.few_rows.supports_rows(x):
            return self.few_rows.gate_up(x)
        return self.join(*self.gate_up(x))


def make_gate(spec: FeedForwardSpec, stock: StockOperations) -> Gate:
    """Make a feed-forward's elementwise function of gate and up (or of up alone) from its spec."""
    gated = spec.gated or spec.activation == "oai"
    if not gated:
        return stock.compile_elementwise(_ACTIVATIONS[spec.activation])
    formula = _gate_function(spec.activation, spec.limit, limits_gate=spec.limits_gate)
    return stock.compile_elementwise(formula)


@cache
def _gate_function(activation: Activation, limit: float, *, limits_gate: bool) -> Gate:
    if activation == "oai":
        return lambda gate, up: _gpt_oss_gate(gate, up, limit)
    activate = _ACTIVATIONS[activation]
    if not limit:
        return lambda gate, up: activate(gate) * up
    if limits_gate:
        return lambda gate, up: activate(mx.minimum(gate, limit)) * mx.clip(up, -limit, limit)
    return lambda gate, up: mx.minimum(activate(gate), limit) * mx.clip(up, -limit, limit)


def silu(x: mx.array) -> mx.array:
    """SiLU: x * sigmoid(x)."""
    return x * mx.sigmoid(x)


def apply_wide_gate(outputs: mx.array, gate: mx.array) -> mx.array:
    """Multiply float32 outputs by the sigmoid of a gate; the result has the gate's dtype."""
    return (outputs * mx.sigmoid(gate.astype(mx.float32))).astype(gate.dtype)


def gelu_tanh(x: mx.array) -> mx.array:
    """GELU by the tanh approximation (arXiv 1606.08415)."""
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


def activation(name: Activation) -> Callable[[mx.array], mx.array]:
    """Return an elementwise activation function by its name."""
    return _ACTIVATIONS[name]


def _gpt_oss_gate(gate: mx.array, up: mx.array, limit: float) -> mx.array:
    gate, up = mx.minimum(gate, limit), mx.clip(up, -limit, limit)
    return (up + 1) * gate * mx.sigmoid(1.702 * gate)
