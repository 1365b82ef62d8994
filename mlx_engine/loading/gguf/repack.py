"""A tensor of any GGUF type -> the arrays MLX works with, in runs of rows and with threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.bits import Bytes, Scratch, column, split_halves
from mlx_engine.loading.gguf.blocks import AFFINE
from mlx_engine.loading.gguf.lattice import LATTICE
from mlx_engine.loading.gguf.rounded import OutOfRangeError, Rounding
from mlx_engine.loading.gguf.types import BlockPlan, BlockType

# At a time, so that what is made on the way stays in the cache: bytes of blocks, or of their codes
# where those are more, that stay exact; values of those that are rounded.
_CHUNK_BYTES, _CHUNK_VALUES = 2**20, 2**18
_CHUNKS_AT_ONCE = 8  # between two looks at whether the load is still wanted
_THREADS = 2  # more only wait for each other between NumPy calls
_EXACT = AFFINE | LATTICE
_E8M0_NAN, _UE4M3_ZERO, _UE4M3_SIGN = 255, 0x7F, 0x80


class NotNumbersError(ValueError):
    """A scale or value of the file is infinite or not a number."""


class PackedTensor(NamedTuple):
    """weight uint32 [rows, words], scales and biases [rows, groups]; biases None for mxfp4, nvfp4.

    scales: floating when affine, else uint8.
    """

    weight: NDArray[np.uint32]
    scales: NDArray[np.generic]
    biases: NDArray[np.generic] | None


class _Rule(NamedTuple):
    """What goes with the codes of some blocks."""

    scales: NDArray[Any]
    biases: NDArray[Any] | None


NewArray = Callable[[tuple[int, int], type[np.generic]], NDArray[Any]]
"""Shape and type -> an array of any content."""

_Converter = Callable[[Bytes, Bytes], _Rule]
"""Blocks [n, bytes], and where their codes go [n * bytes of codes].

The rule is good until the next call."""


def repack(
    rows: Bytes,
    kind: BlockType,
    plan: BlockPlan,
    dtype: type[np.floating],
    between: Callable[[], None] = lambda: None,
    new: NewArray = np.empty,
) -> PackedTensor:
    """Rows of blocks [rows, bytes of a row] -> packed; dtype: float32 or float16, of the scales.

    Float16 scales that would overflow make the whole tensor's float32. `between` is called every
    few megabytes and may raise. The result lies where `new` puts it. Raises NotNumbersError.
    """
    inputs = rows.shape[1] // kind.nbytes * kind.elements
    made = _empty(len(rows), inputs, plan, dtype, new)
    exact_row = max(rows.shape[1], inputs * plan.bits // 8)
    chunk = _CHUNK_BYTES // exact_row if plan.exact else _CHUNK_VALUES // inputs
    step = max(1, chunk)

    def work(convert: _Converter, starts: range) -> None:
        for start in starts:
            here = slice(start, start + step)
            blocks = np.ascontiguousarray(rows[here]).reshape(-1, kind.nbytes)
            rule = convert(blocks, made.weight[here].reshape(-1).view(np.uint8))
            _store(rule.scales, made.scales[here])
            if made.biases is not None and rule.biases is not None:
                _store(rule.biases, made.biases[here])

    starts = range(0, len(rows), step)
    converters = [_converter(kind, plan, dtype) for _ in range(_THREADS)]
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            for first in range(0, len(starts), _CHUNKS_AT_ONCE):
                between()
                some = starts[first : first + _CHUNKS_AT_ONCE]
                list(pool.map(work, converters, [some[n::_THREADS] for n in range(_THREADS)]))
    except OutOfRangeError:
        if dtype is np.float32:
            raise NotNumbersError from None
        return repack(rows, kind, plan, np.float32, between, new)
    return made


def _empty(
    rows: int, inputs: int, plan: BlockPlan, dtype: type[np.floating], new: NewArray
) -> PackedTensor:
    shape = (rows, inputs // plan.group_size)
    affine = plan.becomes == "affine"
    return PackedTensor(
        new((rows, inputs * plan.bits // 32), np.uint32),
        new(shape, dtype if affine else np.uint8),
        new(shape, dtype) if affine else None,
    )


def _store(values: NDArray[Any], target: NDArray[Any]) -> None:
    """Each as often as the target has groups for it.

    Raises NotNumbersError, and OutOfRangeError when the target's type cannot hold them.
    """
    if target.dtype != np.uint8:
        largest = max(abs(float(values.max())), abs(float(values.min())))
        if not largest < np.inf:
            raise NotNumbersError
        if largest > float(np.finfo(target.dtype).max):
            raise OutOfRangeError
    kept = values.reshape(-1).astype(target.dtype, copy=False)
    groups = target.reshape(kept.size, -1)
    for place in range(groups.shape[1]):
        groups[:, place] = kept


def _converter(kind: BlockType, plan: BlockPlan, dtype: type[np.floating]) -> _Converter:
    """With memory of its own, so not for two threads at once."""
    scratch = Scratch()
    if plan.becomes == "mxfp4":
        return lambda blocks, codes: _mxfp4(blocks, codes, scratch)
    if plan.becomes == "nvfp4":
        return lambda blocks, codes: _nvfp4(blocks, codes, scratch)
    if plan.exact:
        affine = _EXACT[kind.name]
        return lambda blocks, codes: _Rule(*affine(blocks, codes, scratch))
    rounding = Rounding(kind.name, dtype)
    return lambda blocks, codes: _Rule(*rounding(blocks, codes))


def _mxfp4(blocks: Bytes, codes: Bytes, scratch: Scratch) -> _Rule:
    """2^(e - 127) E2M1: MLX's own rule; only the order of the codes differs."""
    exponents = column(blocks, 0, 1, scratch)
    if (exponents == _E8M0_NAN).any():
        raise NotNumbersError
    split_halves(column(blocks, 1, 16, scratch), 16, codes, scratch)
    return _Rule(exponents, None)


def _nvfp4(blocks: Bytes, codes: Bytes, scratch: Scratch) -> _Rule:
    """UE4M3 E2M1 in groups of 16; ggml reads the scale 0x7F, elsewhere not a number, as zero."""
    scales = column(blocks, 0, 4, scratch)
    if (scales >= _UE4M3_SIGN).any():
        raise NotNumbersError
    split_halves(column(blocks, 4, 32, scratch), 8, codes, scratch)
    return _Rule(np.where(scales == _UE4M3_ZERO, np.uint8(0), scales), None)
