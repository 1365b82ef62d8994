"""Casts of lazy arrays, and reading them into memory slice by slice."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import mlx.core as mx

from metal_kernels.stock import computes_on_gpu
from mlx_engine.values.errors import BadModelFile, LoadStopped, OutOfMemory, is_out_of_memory

SLICE_BYTES = 32 * 2**20
"""Read between two calls of `stop`: a tenth of a second even from a slow disk."""

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


def held_as(dtype: mx.Dtype) -> mx.Dtype:
    """The type in which floats of this type are held and computed on the default device.

    On a CPU float32: MLX computes there in 16 bits slowly, and with other rounding. No GPU has
    float64.
    """
    return mx.float32 if dtype == mx.float64 or not computes_on_gpu() else dtype


def cast_floats(arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """The same arrays, floats lazily cast to the type they are held in; packed integers stay."""
    return {
        name: array.astype(held_as(array.dtype))
        if mx.issubdtype(array.dtype, mx.floating)
        else array
        for name, array in arrays.items()
    }


def evaluate_arrays(
    arrays: Iterable[mx.array], origin: str, on_progress: Progress | None, stop: Stop | None
) -> None:
    """Evaluate all arrays.

    on_progress gets bytes done and in total, from 0 on; stop is called before every slice. Raises
    LoadStopped, OutOfMemory, and BadModelFile for a file that cannot be read.
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
    """Yield runs of arrays of about SLICE_BYTES, at least one array each."""
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
