"""A tensor of any GGUF type -> the arrays MLX works with, in runs of rows and with threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf_affine import AFFINE, split_nibbles
from mlx_engine.loading.gguf_bits import Bytes
from mlx_engine.loading.gguf_plan import BlockPlan
from mlx_engine.loading.gguf_rounded import OutOfRangeError, round_to_8_bits, values_of
from mlx_engine.loading.gguf_types import BlockType

_CHUNK_BYTES = 2**18  # of blocks at a time, so that what is made of them stays in the cache
_STEPS_AT_ONCE = 6  # chunks between two looks at whether the load is still wanted
_THREADS = 2  # more only wait for each other between NumPy calls
_E8M0_NAN, _UE4M3_ZERO, _UE4M3_SIGN = 255, 0x7F, 0x80


class NotNumbersError(ValueError):
    """A scale or value of the file is infinite or not a number."""


class PackedTensor(NamedTuple):
    """weight uint32 [rows, words], scales and biases [rows, groups]; biases None for mxfp4, nvfp4.

    scales: floating when affine, else uint8. error: relative RMS of what rounding changed.
    """

    weight: NDArray[np.uint32]
    scales: NDArray[np.generic]
    biases: NDArray[np.generic] | None
    error: float


class _Piece(NamedTuple):
    """The parts of some rows, block by block."""

    codes: NDArray[np.uint32]
    scales: NDArray[np.generic]
    biases: NDArray[np.generic] | None
    error: float = 0.0
    size: float = 0.0


def repack(
    rows: Bytes,
    kind: BlockType,
    plan: BlockPlan,
    dtype: type[np.floating],
    between: Callable[[], None] = lambda: None,
) -> PackedTensor:
    """Rows of blocks [rows, bytes of a row] -> packed; dtype: float32 or float16, of the scales.

    Float16 scales that would overflow make the whole tensor's float32. `between` is called every
    few megabytes and may raise. Raises NotNumbersError.
    """
    per_row = rows.shape[1] // kind.nbytes
    inputs = per_row * kind.elements
    made = _Made(len(rows), inputs, plan, dtype)
    step = max(1, _CHUNK_BYTES // rows.shape[1])
    convert = _converter(kind, plan, dtype)

    def work(starts: range) -> _Sums:
        error = size = 0.0
        for start in starts:
            part = np.ascontiguousarray(rows[start : start + step]).reshape(-1, kind.nbytes)
            piece = convert(part)
            made.put(start, piece)
            error += piece.error
            size += piece.size
        return _Sums(error, size)

    starts, sums = range(0, len(rows), step), list[_Sums]()
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            for first in range(0, len(starts), _STEPS_AT_ONCE):
                between()
                here = starts[first : first + _STEPS_AT_ONCE]
                sums += pool.map(work, [here[share::_THREADS] for share in range(_THREADS)])
    except _TooLargeError:
        if dtype is np.float32:
            raise NotNumbersError from None
        return repack(rows, kind, plan, np.float32, between)
    error, size = sum(one.error for one in sums), sum(one.size for one in sums)
    return PackedTensor(made.weight, made.scales, made.biases, sqrt(error / size) if size else 0.0)


class _Sums(NamedTuple):
    error: float
    size: float


class _TooLargeError(ValueError):
    """A scale is beyond float16."""


class _Made:
    """The arrays of the result, filled run by run."""

    def __init__(self, rows: int, inputs: int, plan: BlockPlan, dtype: type[np.floating]) -> None:
        groups = inputs // plan.group_size
        affine = plan.becomes == "affine"
        self._dtype = dtype
        self.weight = np.empty((rows, inputs * plan.bits // 32), np.uint32)
        self.scales = np.empty((rows, groups), dtype if affine else np.uint8)
        self.biases = np.empty((rows, groups), dtype) if affine else None

    def put(self, start: int, piece: _Piece) -> None:
        """Rows from `start` on."""
        codes = piece.codes.reshape(-1, self.weight.shape[1])
        here = slice(start, start + len(codes))
        self.weight[here] = codes
        self._put_floats(self.scales, here, piece.scales)
        if self.biases is not None and piece.biases is not None:
            self._put_floats(self.biases, here, piece.biases)

    def _put_floats(self, target: NDArray[np.generic], here: slice, values: NDArray[Any]) -> None:
        if target.dtype != np.uint8:
            largest = max(abs(float(values.max())), abs(float(values.min())))
            if not largest < np.inf:
                raise NotNumbersError
            if largest > float(np.finfo(self._dtype).max):
                raise _TooLargeError
        target[here] = values.reshape(-1, target.shape[1])


def _converter(
    kind: BlockType, plan: BlockPlan, dtype: type[np.floating]
) -> Callable[[Bytes], _Piece]:
    if plan.becomes == "mxfp4":
        return _mxfp4
    if plan.becomes == "nvfp4":
        return _nvfp4
    if plan.exact:
        affine = AFFINE[kind.name]
        return lambda blocks: _Piece(*affine(blocks))
    return partial(_rounded, values_of(kind.name), dtype)


def _rounded(
    values_of_blocks: Callable[[Bytes], NDArray[np.float32]],
    dtype: type[np.floating],
    blocks: Bytes,
) -> _Piece:
    values = values_of_blocks(blocks)
    try:
        return _Piece(*round_to_8_bits(values, dtype))
    except OutOfRangeError as error:
        raise (_TooLargeError if np.isfinite(values).all() else NotNumbersError) from error


def _mxfp4(blocks: Bytes) -> _Piece:
    """2^(e - 127) E2M1: MLX's own rule; only the order of the codes differs."""
    if (blocks[:, 0] == _E8M0_NAN).any():
        raise NotNumbersError
    return _Piece(split_nibbles(blocks[:, 1:]), blocks[:, :1], None)


def _nvfp4(blocks: Bytes) -> _Piece:
    """UE4M3 E2M1 in groups of 16; ggml reads the scale 0x7F, elsewhere not a number, as zero."""
    scales = blocks[:, :4]
    if (scales >= _UE4M3_SIGN).any():
        raise NotNumbersError
    codes = split_nibbles(blocks[:, 4:].reshape(-1, 8)).reshape(len(blocks), 8)
    return _Piece(codes, np.where(scales == _UE4M3_ZERO, np.uint8(0), scales), None)
