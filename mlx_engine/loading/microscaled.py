"""Weights in fp8 or fp4 whose scales are powers of two, as DeepSeek-V4 publishes them.

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
        for axis, count in enumerate((self.block.rows, self.block.columns // _GROUP)):
            if count > 1:
                stored_array = mx.repeat(stored_array, count, axis=axis)
        return stored_array[: self.shape[0], : self.shape[1]]


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
    """Replace headers of codes and their scales, `X.weight` and `X.scale`, by those of MLX's form.

    config: gives the block size of fp8; origin: its path for messages. Raises BadModelFile naming a
    tensor whose scales do not fit.
    """
    kept = dict(tensors)
    for name, scales in tensors.items():
        matrix = name.removesuffix(".scale")
        codes = tensors.get(f"{matrix}.weight")
        if scales.dtype != _SCALES or matrix == name or codes is None:
            continue
        is_fp4 = codes.dtype in _FP4
        block = Fp8Block(1, _GROUP) if is_fp4 else fp8_block_size(config, origin)
        rows, stored = codes.shape if len(codes.shape) == 2 else (0, 0)
        columns = 2 * stored if is_fp4 else stored
        fitting = (-(-rows // block.rows), -(-columns // block.columns))
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
        words, groups = (rows, stored // 4), (rows, columns // _GROUP)
        kept[f"{matrix}.weight"] = MicroscaledTensor(
            codes.name, "U32", words, codes.nbytes, codes.file, codes, None
        )
        kept[f"{matrix}.scales"] = MicroscaledTensor(
            scales.name, "U8", groups, prod(groups), scales.file, scales, block
        )
    return kept
