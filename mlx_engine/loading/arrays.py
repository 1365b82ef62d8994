"""Cast lazy MLX arrays, and evaluate them in slices with progress and a way to stop."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import mlx.core as mx

from metal_kernels.stock import computes_on_gpu
from mlx_engine.values.errors import BadModelFile, LoadStopped, OutOfMemory, is_out_of_memory

SLICE_BYTES = 32 * 2**20
"""Bytes read between two calls of `stop`: a tenth of a second even from a slow disk."""

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


def dtype_in_memory(dtype: mx.Dtype) -> mx.Dtype:
    """Return the dtype in which floats of `dtype` are kept in memory on MLX's default device.

    float32 on a CPU, where MLX computes 16-bit floats slowly and with other rounding; else `dtype`,
    but float32 for float64, which no GPU has.
    """
    return mx.float32 if dtype == mx.float64 or not computes_on_gpu() else dtype


def cast_floats(arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Lazily cast floating MLX arrays to the dtype kept in memory; integer arrays stay."""
    return {
        name: array.astype(dtype_in_memory(array.dtype))
        if mx.issubdtype(array.dtype, mx.floating)
        else array
        for name, array in arrays.items()
    }


def evaluate_arrays(
    arrays: Iterable[mx.array], origin: str, on_progress: Progress | None, stop: Stop | None
) -> None:
    """Evaluate lazy MLX arrays, which reads them into memory, slice by slice.

    on_progress gets bytes done and in total, starting at 0; stop is called before every slice.
    origin: the file, for error messages. Raises LoadStopped, OutOfMemory, and BadModelFile for a
    file that cannot be read.
    """
    lazy = list(arrays)
    total, done = sum(array.nbytes for array in lazy), 0
    for part in _slices(lazy):
        if on_progress is not None:
            on_progress(done, total)
        if stop is not None and stop():
            raise LoadStopped("{origin}: loading was stopped.", origin=origin)
        _evaluate(part, origin)
        done += sum(array.nbytes for array in part)
    if on_progress is not None:
        on_progress(total, total)


def _slices(arrays: list[mx.array]) -> Iterator[list[mx.array]]:
    """Yield runs of neighbouring arrays, about SLICE_BYTES together, at least one array each."""
    part: list[mx.array] = []
    size = 0
    for array in arrays:
        part.append(array)
        size += array.nbytes
        if size >= SLICE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _evaluate(part: list[mx.array], origin: str) -> None:
    try:
        mx.eval(part)
    except (MemoryError, RuntimeError, ValueError) as error:
        if is_out_of_memory(error):
            raise OutOfMemory(
                "{origin}: does not fit in the memory that is free. Close other programs or "
                "take a smaller or more strongly quantised version.",
                origin=origin,
            ) from error
        raise BadModelFile(
            "{origin}: cannot be read ({error}). Download it again.",
            origin=origin,
            error=str(error),
        ) from error
