"""Cast lazy MLX arrays, and evaluate them in slices with progress and a way to stop."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import mlx.core as mx

from metal_kernels.stock import computes_on_gpu
from mlx_engine.values.errors import BadModelFile, LoadStopped, OutOfMemory, is_out_of_memory
from mlx_engine.values.options import AskedActivations

SLICE_BYTES = 32 * 2**20
"""Bytes read between two calls of `stop`: a tenth of a second even from a slow disk."""

WITHOUT_BFLOAT16 = ("applegpu_g13", "applegpu_g14")
"""Beginnings of the architectures of M1 and M2, whose GPUs have no bfloat16 arithmetic.

A chain of bfloat16 operations compiles to five times the machine code of its float16 form there,
and to less than twice on later ones.
"""

HALF_BYTES = 2

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


def half_dtype(activations: AskedActivations, architecture: str) -> mx.Dtype | None:
    """Return the dtype in memory of floats stored in 16 bits; None keeps the stored one.

    architecture: of the GPU, as `mx.device_info` names it; empty for a CPU, where MLX computes
    16-bit floats slowly and with other rounding, so that "auto" is float32.
    """
    if activations != "auto":
        return mx.float16 if activations == "float16" else mx.bfloat16
    if not architecture:
        return mx.float32
    return mx.float16 if architecture.startswith(WITHOUT_BFLOAT16) else None


def gpu_architecture() -> str:
    """Architecture of MLX's default device, such as "applegpu_g13s"; empty for a CPU.

    "unknown" where MLX does not tell it, as not every backend does.
    """
    return str(mx.device_info().get("architecture", "unknown")) if computes_on_gpu() else ""


def dtype_in_memory(dtype: mx.Dtype, half: mx.Dtype | None) -> mx.Dtype:
    """Return the dtype in memory of floats of `dtype`; float64, which no GPU has, is float32.

    half: that of floats stored in 16 bits, None for the stored one.
    """
    return mx.float32 if dtype.size > HALF_BYTES else half or dtype


def cast_floats(arrays: Mapping[str, mx.array], half: mx.Dtype | None) -> dict[str, mx.array]:
    """Lazily cast floating MLX arrays to the dtype kept in memory; integer arrays stay.

    half: as in dtype_in_memory.
    """
    return {
        name: array.astype(dtype_in_memory(array.dtype, half))
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
    for part in _group_by_size(lazy):
        if on_progress is not None:
            on_progress(done, total)
        if stop is not None and stop():
            raise LoadStopped("{origin}: loading was stopped.", origin=origin)
        _evaluate_some_arrays(part, origin)
        done += sum(array.nbytes for array in part)
    if on_progress is not None:
        on_progress(total, total)


def _group_by_size(arrays: list[mx.array]) -> Iterator[list[mx.array]]:
    """Group arrays, in order, into lists of about SLICE_BYTES, with at least one array each."""
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


def _evaluate_some_arrays(some_arrays: list[mx.array], origin: str) -> None:
    try:
        mx.eval(some_arrays)
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
