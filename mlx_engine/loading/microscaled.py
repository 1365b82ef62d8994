"""Weights in fp8 or fp4 whose scales are powers of two, as DeepSeek-V4 and Hy4 publish them.

MLX multiplies by such numbers (OCP MX: mxfp8, mxfp4) where each row has a scale for 32 columns. So
bytes are kept as they are, and only scales of larger blocks are repeated; nothing is unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from mlx_engine.loading.fp8 import Fp8Block, fp8_block_size, pair_fp8_scales
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.values.errors import BadModelFile

if TYPE_CHECKING:
    import mlx.core as mx

_SCALES = "F8_E8M0"
_FP8, _FP4 = "F8_E4M3", ("I8", "U8")
"""Element types of codes; of fp4 a byte holds two."""

_GROUP = 32
"""Columns that share a scale in MLX's packing."""

_ENDINGS = {".scale": ".weight", ".weight_scale": ".weight", "_proj_scale": "_proj"}
"""Ending of a name of scales -> that of codes; the last of stacks of experts."""


@dataclass(frozen=True, slots=True)
class MicroscaledTensor(TensorInfo):
    """Header of codes as words of 32 bits, or of scales for each row and 32 columns.

    stored: header of the tensor in the file. block: rows and columns that a stored scale is for;
    None for codes.
    """

    stored: TensorInfo
    block: Fp8Block | None

    def convert(self, stored_array: mx.array) -> mx.array:
        """Make MLX's words or scales of the array in the file, lazily."""
        import mlx.core as mx

        if self.block is None:
            return stored_array.view(mx.uint32)
        for axis, count in ((-2, self.block.rows), (-1, self.block.columns // _GROUP)):
            if count > 1:
                stored_array = mx.repeat(stored_array, count, axis=axis)
        return stored_array[..., : self.shape[-2], : self.shape[-1]]


def pair_scales(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, object], origin: str
) -> dict[str, TensorInfo]:
    """Join headers of codes and their scales: powers of two in MLX's form, others to unpack.

    Arguments and errors are those of `pair_fp8_scales`.
    """
    return pair_fp8_scales(_pair_microscales(tensors, config, origin), config, origin)


def _pair_microscales(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, object], origin: str
) -> dict[str, TensorInfo]:
    """Replace headers of codes and their scales by those of MLX's form, `X.weight` and `X.scales`.

    A scale is for 32 columns of a row where there are so many, else for a block. config: gives the
    block size of fp8; origin: its path for messages. Raises BadModelFile naming a tensor whose
    scales do not fit.
    """
    kept = dict(tensors)
    for name, scales in tensors.items():
        ending = next(filter(name.endswith, _ENDINGS), None)
        matrix = name if ending is None else name.removesuffix(ending) + _ENDINGS[ending]
        codes = None if ending is None else tensors.get(matrix)
        if codes is None or not (scales.dtype == _SCALES or _are_bytes(scales, codes)):
            continue
        is_fp4 = codes.dtype in _FP4
        *stack, rows, stored = codes.shape if len(codes.shape) > 1 else (0, 0)
        columns = 2 * stored if is_fp4 else stored
        block, by_row = Fp8Block(1, _GROUP), (*stack, rows, columns // _GROUP)
        if not is_fp4 and scales.shape != by_row and not stack:
            block = fp8_block_size(config, origin)
        fitting = (*stack, -(-rows // block.rows), -(-columns // block.columns))
        is_odd = columns % _GROUP or block.columns % _GROUP or codes.dtype not in (_FP8, *_FP4)
        if is_odd or not rows or scales.shape != fitting:
            raise BadModelFile(
                "{file}: {name} is stored as {dtype} {shape}, whose scales {scales} do not fit. "
                "Get the file again.",
                file=codes.file,
                name=codes.name,
                dtype=codes.dtype,
                shape=list(codes.shape),
                scales=list(scales.shape),
            )
        del kept[name]
        words = (*stack, rows, stored // 4)
        kept[matrix] = MicroscaledTensor(
            codes.name, "U32", words, codes.nbytes, codes.file, codes, None
        )
        kept[f"{matrix.removesuffix('.weight')}.scales"] = MicroscaledTensor(
            scales.name, "U8", by_row, prod(by_row), scales.file, scales, block
        )
    return kept


def _are_bytes(scales: TensorInfo, codes: TensorInfo) -> bool:
    """Return whether scales of fp8 codes are bytes that hold exponents of two (e8m0)."""
    return scales.dtype == "U8" and codes.dtype == _FP8
