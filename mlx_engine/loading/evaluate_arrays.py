"""Reads lazy arrays into memory in slices, with progress and a way to stop."""

from collections.abc import Callable, Iterable, Iterator

import mlx.core as mx

from mlx_engine.values.errors import BadModelFile, LoadStopped, OutOfMemory

SLICE_BYTES = 32 * 2**20
"""Read between two looks at `stop`: a tenth of a second even from a slow disk."""

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


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
            raise LoadStopped(f"{origin}: loading was stopped.")
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
    except MemoryError as error:
        raise _too_large(origin) from error
    except (RuntimeError, ValueError) as error:
        if "alloc" in str(error):
            raise _too_large(origin) from error
        raise BadModelFile(f"{origin}: cannot be read ({error}). Download it again.") from error


def _too_large(origin: str) -> OutOfMemory:
    return OutOfMemory(
        f"{origin}: does not fit in the memory that is free. Close other programs or take a "
        "smaller or more strongly quantised version."
    )
