"""Weight matrices in the form the engine's kernels read, for passes of few rows and of many."""

from collections.abc import Callable, Container
from dataclasses import dataclass

import mlx.core as mx

from metal_kernels.choice import MOST_ROWS as MOST_OF_A_PASS
from metal_kernels.choice import KernelName, KernelRowCounts, Kernels, KernelWork
from metal_kernels.expert_union_matvec import expert_union_matvec
from metal_kernels.few_row_matvec import (
    MOST_ROWS,
    few_row_gate_up,
    few_row_matvec,
    few_row_matvec_add,
)
from metal_kernels.kernel import Launcher
from metal_kernels.many_row_product import many_row_experts, many_row_product
from metal_kernels.mtp_input import MtpInputNorms, mtp_input
from metal_kernels.tile_product import MOST_ROWS as MOST_OF_BLOCKS
from metal_kernels.tile_product import tile_product
from metal_kernels.vocabulary_pick import PickOptions, vocabulary_pick
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from metal_kernels.weight_formats.mlx_formats import DENSE, MXFP4, NVFP4, affine_format
from mlx_engine.models.matrix import Matrix

MOST_TILED = 16
"""Rows beyond which MLX multiplies by what it can read; blocks are tiled up to MOST_OF_BLOCKS,
from where on the kernel for many rows takes them, whose tiles have 64. Presumed, not measured.
"""


FEWEST_TILED = 6
"""Rows below which tiles, whose cost is that of eight, cannot be faster."""


@dataclass(frozen=True, slots=True)
class _RowCountsUpTo:
    """Row counts at which a kernel is used: `counts`, and those beyond a pass up to `most`."""

    most: int
    counts: Container[int]

    def __contains__(self, rows: object) -> bool:
        if isinstance(rows, int) and MOST_OF_A_PASS < rows <= self.most:
            rows = MOST_OF_A_PASS
        return rows in self.counts


@dataclass(frozen=True, slots=True)
class _TiledRowCounts:
    """Row counts at which 8 x 8 tiles multiply: where they were found to be faster.

    With exact numerics only those beyond a pass.
    """

    served: KernelRowCounts
    kernels: Kernels
    most: int

    def __contains__(self, rows: object) -> bool:
        if not isinstance(rows, int) or not FEWEST_TILED <= rows <= self.most:
            return False
        if rows > MOST_OF_A_PASS:
            return MOST_OF_A_PASS in self.served
        return not self.kernels.exact and rows in self.served


@dataclass(frozen=True, slots=True)
class _RowCountsExcept:
    """Row counts at which a fused kernel is used: `counts` without those of tiles."""

    counts: Container[int]
    tiled: Container[int]

    def __contains__(self, rows: object) -> bool:
        return rows in self.counts and rows not in self.tiled


@dataclass(frozen=True, slots=True)
class FewRowMatrix:
    """A weight matrix [N, K], or a stack, multiplied by the engine's kernels for few rows.

    counts: row counts served. A launch takes up to nine rows; more rows are split, and a row's
    result does not depend on the other rows of its launch. tiled: row counts at which products go
    by 8 x 8 tiles instead, whose rows have other bits than those of shorter passes.
    """

    arrays: tuple[mx.array, ...]
    form: WeightFormat
    launcher: Launcher
    counts: Container[int]
    tiled: Container[int] = ()

    @staticmethod
    def from_matrix(matrix: Matrix, kernels: Kernels, kernel: KernelName) -> "FewRowMatrix | None":
        """Wrap a weight matrix for the kernel for few rows; None where that does not serve it."""
        form = weight_format(matrix)
        if form is None:
            return None
        served, is_blocks = (
            kernels.served_row_counts(kernel, kernel_work(matrix, form)),
            matrix.mode in BLOCK_FORMS,
        )
        if served is None:
            return None
        counts = _RowCountsUpTo(MOST_OF_BLOCKS, served) if is_blocks else served
        tiled: Container[int] = ()
        if kernel in ("products", "gate-up", "product-add") and (is_blocks or not kernels.exact):
            tiles = kernels.served_row_counts("tiles", kernel_work(matrix, form))
            most = MOST_OF_BLOCKS if is_blocks else MOST_TILED
            tiled = () if tiles is None else _TiledRowCounts(tiles, kernels, most)
        if kernel == "products":
            return FewRowMatrix(matrix.arrays, form, served.launcher, counts, tiled)
        return FewRowMatrix(matrix.arrays, form, served.launcher, _RowCountsExcept(counts, tiled))

    def supports_rows(self, x: mx.array) -> bool:
        """Whether the matrix kernels for few rows serve as many rows as x [..., K] has."""
        rows = x.size // x.shape[-1]
        return rows in self.counts or rows in self.tiled

    def product(self, x: mx.array) -> mx.array:
        """Multiply x [..., K] by the weight matrix, by a kernel: x W^T [..., N]."""
        if x.size // x.shape[-1] in self.tiled:
            return tile_product(x, self.arrays, self.form, self.launcher)
        return self._run_row_chunks(few_row_matvec, x)

    def product_plus_bias(self, bias: mx.array, x: mx.array) -> mx.array:
        """One kernel for x W^T + bias [..., N] of x [..., K]; same bits as two operations."""
        return _run_row_chunks(
            lambda x: few_row_matvec_add(x, self.arrays, self.form, self.launcher, bias), x
        )

    def product_plus_residual(self, residual: mx.array, x: mx.array) -> mx.array:
        """One kernel for residual + x W^T [..., N] of x [..., K]; same bits as two operations."""
        return self._run_row_chunks(few_row_matvec_add, x, residual)

    def gate_up(self, x: mx.array) -> mx.array:
        """One kernel for silu(gate) * up [..., N] of x [..., K], by gate and up rows."""
        return self._run_row_chunks(few_row_gate_up, x)

    def _run_row_chunks(
        self, row_kernel: Callable[..., mx.array], x: mx.array, *further_inputs: mx.array
    ) -> mx.array:
        if x.size <= MOST_ROWS * x.shape[-1]:
            return row_kernel(x, self.arrays, self.form, self.launcher, *further_inputs)
        return _run_row_chunks(
            lambda x, *more: row_kernel(x, self.arrays, self.form, self.launcher, *more),
            x,
            *further_inputs,
        )

    def expert_product(self, x: mx.array, expert_indices: mx.array) -> mx.array:
        """Multiply x [R, K] or [R, n, K] by matrices of experts, uint32 ids [R, n] -> [R, n, N]."""
        width = x.shape[-1]

        def expert_products(experts: mx.array, rows: mx.array) -> mx.array:
            pairs = expert_union_matvec(
                rows.reshape(-1, width), experts, self.arrays, self.form, self.launcher
            )
            return pairs.reshape(*experts.shape, -1)

        return _run_row_chunks(
            expert_products, expert_indices.view(mx.int32), x.reshape(len(expert_indices), -1)
        )

    def project_mtp_input(
        self, embedded: mx.array, hidden: mx.array, norms: MtpInputNorms
    ) -> mx.array:
        """Norm embeddings and hidden states [..., H], concatenate, multiply -> [..., N]."""
        return _run_row_chunks(
            lambda e, h: mtp_input(e, h, norms, self.arrays, self.form, self.launcher),
            embedded,
            hidden,
        )

    def pick_argmax(self, hidden: mx.array, options: PickOptions) -> mx.array:
        """Pick the likeliest token of each row of hidden states [..., K], by one kernel: int32 [R].

        -1 where a logit is not finite.
        """

        def pick_tokens(x: mx.array, *row_keys: mx.array) -> mx.array:
            rows = options._replace(keys=row_keys[0]) if row_keys else options
            return vocabulary_pick(x, self.arrays, self.form, rows, self.launcher)

        keys = () if options.keys is None else (options.keys,)
        return _run_row_chunks(pick_tokens, hidden.reshape(-1, hidden.shape[-1]), *keys)


def weight_format(matrix: Matrix) -> WeightFormat | None:
    """The kernels' weight format for a matrix; None for a packing that no kernel reads."""
    if matrix.mode == "dense":
        return DENSE
    if matrix.mode == "affine":
        return affine_format(matrix.bits, matrix.group_size)
    if matrix.mode in BLOCK_FORMS:
        return BLOCK_FORMS[matrix.mode]
    known = {"mxfp4": MXFP4, "nvfp4": NVFP4}
    return known.get(matrix.mode)


def kernel_work(matrix: Matrix, stored_format: WeightFormat) -> KernelWork:
    """Describe the product with a matrix for the choice of a kernel: format and unpacked sizes."""
    return KernelWork(stored_format.name, matrix.weight.shape[-2], matrix.input_size)


def _run_row_chunks(row_kernel: Callable[..., mx.array], *inputs: mx.array) -> mx.array:
    """Run a matrix kernel over inputs [..., K] in chunks of at most nine rows."""
    *lead, width = inputs[0].shape
    if inputs[0].size <= MOST_ROWS * width:
        return row_kernel(*inputs)
    flat = [part.reshape(-1, part.shape[-1]) for part in inputs]
    starts = range(0, len(flat[0]), MOST_ROWS)
    parts = [row_kernel(*(part[start : start + MOST_ROWS] for part in flat)) for start in starts]
    made = mx.concatenate(parts)
    return made.reshape(*lead, *made.shape[1:])


@dataclass(frozen=True, slots=True)
class ManyRowMatrix:
    """A weight matrix in GGUF blocks, or a stack, multiplied by the engine's kernel for prompts.

    served: contains 1 while the kernel is in use; until then MLX multiplies by dequantised values.
    """

    blocks: mx.array
    form: WeightFormat
    served: KernelRowCounts

    @staticmethod
    def from_matrix(matrix: Matrix, kernels: Kernels, kernel: KernelName) -> "ManyRowMatrix | None":
        """Wrap a GGUF matrix for the prompt kernel; None where it has none or MLX reads it."""
        if matrix.mode not in BLOCK_FORMS:
            return None
        form = BLOCK_FORMS[matrix.mode]
        served = kernels.served_row_counts(kernel, kernel_work(matrix, form))
        return None if served is None else ManyRowMatrix(matrix.weight, form, served)

    @property
    def is_enabled(self) -> bool:
        """Whether products with a GGUF matrix in prompts go through the engine's kernel now."""
        return 1 in self.served

    def product(self, x: mx.array) -> mx.array:
        """Multiply x [..., K] of a prompt by the GGUF matrix: x W^T [..., N]."""
        rows = x.reshape(-1, x.shape[-1])
        made = many_row_product(rows, (self.blocks,), self.form, self.served.launcher)
        return made.reshape(*x.shape[:-1], -1)

    def expert_product(self, x: mx.array, expert_indices: mx.array) -> mx.array:
        """Multiply x [R, 1, K] by matrices of experts, ids [R, 1] ascending -> [R, 1, N]."""
        made = many_row_experts(
            x.squeeze(1), expert_indices.squeeze(1), (self.blocks,), self.form, self.served.launcher
        )
        return made[:, None]
