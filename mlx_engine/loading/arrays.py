"""Lazy arrays: the type floats are kept in, and reading them into memory slice by slice."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import mlx.core as mx

from mlx_engine.values.errors import BadModelFile, LoadStopped, OutOfMemory, is_out_of_memory

SLICE_BYTES = 32 * 2**20
"""Read between two looks at `stop`: a tenth of a second even from a slow disk."""

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


def cast_floats(arrays: Mapping[str, mx.array], *, metal: bool) -> dict[str, mx.array]:
    """The same arrays, lazily cast; packed integers stay what they are.

    Without Metal weights, scales and biases become float32: MLX's CPU backend computes in 16 bits
    slowly, and with other rounding. With Metal only float64 changes, which no GPU has.
    """
    return {name: _cast(array, metal=metal) for name, array in arrays.items()}


def evaluate_arrays(
    arrays: Iterable[mx.array], origin: str, on_progress: Progress | None, stop: Stop | None
) -> None:
    """Evaluate all arrays; on_progress gets bytes done and in all, from 0 to the end.

    stop is asked before every slice. Raises LoadStopped, OutOfMemory, or BadModelFile when a file
    cannot be read.
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
    """Runs of arrays of about SLICE_BYTES, at least one array each."""
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


def _cast(array: mx.array, *, metal: bool) -> mx.array:
    is_wide = array.dtype == mx.float64
    if mx.issubdtype(array.dtype, mx.floating) and (is_wide or not metal):
        return array.astype(mx.float32)
    return array
