"""Matrices as the kernels for few rows read them, and their products of 1 to 9 rows."""

from collections.abc import Callable, Container
from dataclasses import dataclass

import mlx.core as mx

from metal_kernels.choice import MOST_ROWS as MOST_OF_A_PASS
from metal_kernels.choice import KernelName, Kernels, Work
from metal_kernels.expert_union_matvec import expert_union_matvec
from metal_kernels.few_row_matvec import (
    MOST_ROWS,
    few_row_gate_up,
    few_row_matvec,
    few_row_matvec_add,
)
from metal_kernels.kernel import Launcher
from metal_kernels.mtp_input import Norms, mtp_input
from metal_kernels.vocabulary_pick import Choosing, vocabulary_pick
from metal_kernels.weight_formats.affine import affine
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.dense import DENSE
from metal_kernels.weight_formats.fp4 import mxfp4, nvfp4
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.models.matrix import Matrix

MOST_OF_BLOCKS = 32
"""Rows up to which blocks go eight by eight through a kernel: by the bytes, reading them four times
takes a fraction of unpacking them for stock MLX. Presumed, not measured.
"""


@dataclass(frozen=True, slots=True)
class _UpTo:
    """These counts, and where a whole verify pass is among them, longer passes up to `most`."""

    most: int
    counts: Container[int]

    def __contains__(self, rows: object) -> bool:
        if isinstance(rows, int) and MOST_OF_A_PASS < rows <= self.most:
            rows = MOST_OF_A_PASS
        return rows in self.counts


@dataclass(frozen=True, slots=True)
class FewRows:
    """A matrix [N, K], or a stack of them, for passes of as many rows as `counts` says.

    A kernel takes eight rows; nine go in two launches, and each row's bits stay its own.
    """

    arrays: tuple[mx.array, ...]
    form: WeightFormat
    launcher: Launcher
    counts: Container[int]

    @staticmethod
    def of(matrix: Matrix, kernels: Kernels, kernel: KernelName) -> "FewRows | None":
        """None where the kernel does not serve this matrix."""
        form = format_of(matrix)
        if form is None:
            return None
        served = kernels.served(kernel, work_of(matrix, form))
        if served is None:
            return None
        counts = _UpTo(MOST_OF_BLOCKS, served) if matrix.mode in BLOCK_FORMS else served
        parts = (matrix.weight, matrix.scales, matrix.biases)
        arrays = tuple(part for part in parts if part is not None)
        return FewRows(arrays, form, served.launcher, counts)

    def takes(self, x: mx.array) -> bool:
        """Whether x [..., K] has a count of rows that the kernel is for."""
        return x.size // x.shape[-1] in self.counts

    def product(self, x: mx.array) -> mx.array:
        """x [..., K] -> [..., N]."""
        rows = x.reshape(-1, x.shape[-1])
        made = _by_eights(
            len(rows),
            lambda part: few_row_matvec(rows[part], self.arrays, self.form, self.launcher),
        )
        return made.reshape(*x.shape[:-1], -1)

    def product_onto_bias(self, bias: mx.array, x: mx.array) -> mx.array:
        """bias [N] and x [..., K] -> [..., N], the bits of `product(x) + bias`."""
        rows = x.reshape(-1, x.shape[-1])
        made = _by_eights(
            len(rows),
            lambda part: few_row_matvec_add(
                rows[part], self.arrays, bias, self.form, self.launcher
            ),
        )
        return made.reshape(*x.shape[:-1], -1)

    def product_onto(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual [..., N] and x [..., K] -> [..., N], the bits of `residual + product(x)`."""
        rows = x.reshape(-1, x.shape[-1])
        onto = residual.reshape(len(rows), -1)
        made = _by_eights(
            len(rows),
            lambda part: few_row_matvec_add(
                rows[part], self.arrays, onto[part], self.form, self.launcher
            ),
        )
        return made.reshape(residual.shape)

    def gate_up(self, x: mx.array) -> mx.array:
        """x [..., K] by gates above ups [2 N, K] -> silu(gate) * up [..., N]."""
        rows = x.reshape(-1, x.shape[-1])
        made = _by_eights(
            len(rows),
            lambda part: few_row_gate_up(rows[part], self.arrays, self.form, self.launcher),
        )
        return made.reshape(*x.shape[:-1], -1)

    def of_experts(self, x: mx.array, chosen: mx.array) -> mx.array:
        """x [R, K] or [R, n, K], experts [R, n] -> [R, n, N]."""
        experts = chosen.astype(mx.int32)
        made = _by_eights(
            len(experts),
            lambda part: expert_union_matvec(
                x[part].reshape(-1, x.shape[-1]),
                experts[part],
                self.arrays,
                self.form,
                self.launcher,
            ),
        )
        return made.reshape(*experts.shape, -1)

    def join(self, embedded: mx.array, hidden: mx.array, norms: Norms) -> mx.array:
        """Both [..., H] -> [..., N], each normed first."""
        e, h = (part.reshape(-1, part.shape[-1]) for part in (embedded, hidden))
        made = _by_eights(
            len(e),
            lambda part: mtp_input(e[part], h[part], norms, self.arrays, self.form, self.launcher),
        )
        return made.reshape(*embedded.shape[:-1], -1)

    def pick(self, hidden: mx.array, how: Choosing) -> mx.array:
        """Hidden [..., K] -> one token int32 [R] a row, -1 where a logit is not finite."""
        rows = hidden.reshape(-1, hidden.shape[-1])

        def chosen(part: slice) -> mx.array:
            keys = None if how.keys is None else how.keys[part]
            its = how._replace(keys=keys)
            return vocabulary_pick(rows[part], self.arrays, self.form, its, self.launcher)

        return _by_eights(len(rows), chosen)


def format_of(matrix: Matrix) -> WeightFormat | None:
    """As the kernels know it; None for a packing they do not read."""
    if matrix.mode == "dense":
        return DENSE
    if matrix.mode == "affine":
        return affine(matrix.bits, matrix.group_size)
    if matrix.mode in BLOCK_FORMS:
        return BLOCK_FORMS[matrix.mode]
    known = {"mxfp4": mxfp4, "nvfp4": nvfp4}
    return known[matrix.mode]() if matrix.mode in known else None


def work_of(matrix: Matrix, form: WeightFormat) -> Work:
    """Its sizes unpacked."""
    return Work(form.name, matrix.weight.shape[-2], matrix.inputs)


def _by_eights(rows: int, run: Callable[[slice], mx.array]) -> mx.array:
    parts = [run(slice(start, start + MOST_ROWS)) for start in range(0, rows, MOST_ROWS)]
    return parts[0] if len(parts) == 1 else mx.concatenate(parts)
