"""Matrices in a GGUF's blocks and their products of many rows, as the chunks of a prompt have."""

from dataclasses import dataclass

import mlx.core as mx

from metal_kernels.choice import KernelName, Kernels, Served
from metal_kernels.many_row_product import many_row_experts, many_row_product
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.models.few_rows import work_of
from mlx_engine.models.matrix import Matrix


@dataclass(frozen=True, slots=True)
class ManyRows:
    """A matrix [N, K], or a stack of them, for passes of any number of rows.

    served: holds 1 while the kernel is in use; while it is not, stock MLX is handed the values.
    """

    blocks: mx.array
    form: WeightFormat
    served: Served

    @staticmethod
    def of(matrix: Matrix, kernels: Kernels, kernel: KernelName) -> "ManyRows | None":
        """Wrap a matrix; None where the kernel does not serve it, or MLX reads its format."""
        if matrix.mode not in BLOCK_FORMS:
            return None
        form = BLOCK_FORMS[matrix.mode]
        served = kernels.served(kernel, work_of(matrix, form))
        return None if served is None else ManyRows(matrix.weight, form, served)

    @property
    def is_in_use(self) -> bool:
        """Whether products go through the kernel now."""
        return 1 in self.served

    def product(self, x: mx.array) -> mx.array:
        """x [..., K] -> [..., N]."""
        rows = x.reshape(-1, x.shape[-1])
        made = many_row_product(rows, (self.blocks,), self.form, self.served.launcher)
        return made.reshape(*x.shape[:-1], -1)

    def of_experts(self, x: mx.array, chosen: mx.array) -> mx.array:
        """x [R, 1, K], experts [R, 1] that never decrease -> [R, 1, N]."""
        made = many_row_experts(
            x.squeeze(1), chosen.squeeze(1), (self.blocks,), self.form, self.served.launcher
        )
        return made[:, None]
