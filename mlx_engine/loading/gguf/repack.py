"""A tensor of any GGUF type -> the arrays MLX works with, in runs of rows and with threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.bits import Bytes, Scratch
from mlx_engine.loading.gguf.blocks import AFFINE, NotNumbersError, Rule
from mlx_engine.loading.gguf.lattice import LATTICE
from mlx_engine.loading.gguf.rounded import ROUNDED_RUNS, OutOfRangeError, rounded
from mlx_engine.loading.gguf.types import BlockPlan, BlockType

# At a time, so that what is made on the way stays in the cache: bytes of blocks, or of their codes
# where those are more, that stay exact; values of those that are rounded.
_CHUNK_BYTES, _CHUNK_VALUES = 2**20, 2**18
_CHUNKS_AT_ONCE = 8  # between two looks at whether the load is still wanted
_THREADS = 2  # more only wait for each other between NumPy calls
_EXACT = AFFINE | LATTICE


class PackedTensor(NamedTuple):
    """weight uint32 [rows, words], scales and biases [rows, groups]; biases None for mxfp4, nvfp4.

    scales: floating when affine, else uint8.
    """

    weight: NDArray[np.uint32]
    scales: NDArray[np.generic]
    biases: NDArray[np.generic] | None


NewArray = Callable[[tuple[int, int], type[np.generic]], NDArray[Any]]
"""Shape and type -> an array of any content."""


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

    def work(convert: Callable[[Bytes, Bytes], Rule], starts: range) -> None:
        for start in starts:
            here = slice(start, start + step)
            blocks = np.ascontiguousarray(rows[here]).reshape(-1, kind.nbytes)
            rule = convert(blocks, made.weight[here].reshape(-1).view(np.uint8))
            _store(rule.scales, made.scales[here])
            if made.biases is not None and rule.biases is not None:
                _store(rule.biases, made.biases[here])

    starts = range(0, len(rows), step)
    converters = [_converter(kind.name, plan, dtype) for _ in range(_THREADS)]
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


def _converter(
    name: str, plan: BlockPlan, dtype: type[np.floating]
) -> Callable[[Bytes, Bytes], Rule]:
    """Blocks [n, bytes] and where their codes go [n * bytes of codes] -> their rule.

    With memory of its own, so not for two threads at once.
    """
    scratch = Scratch()
    if plan.exact:
        exact = _EXACT[name]
        return lambda blocks, codes: exact(blocks, codes, scratch)
    runs_of = ROUNDED_RUNS[name]
    return lambda blocks, codes: rounded(runs_of(blocks, scratch), codes, dtype, scratch)
