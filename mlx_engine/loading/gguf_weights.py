"""Arrays of GGUF tensors, read and repacked one tensor after another."""

from collections.abc import Callable, Iterator, Mapping
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.evaluate_arrays import Progress, Stop
from mlx_engine.loading.gguf_blocks import NotNumbersError, repack
from mlx_engine.loading.gguf_header import GgufTensor, map_file
from mlx_engine.loading.gguf_part import GgufPart
from mlx_engine.values.errors import BadModelFile, LoadStopped

_FORMS: dict[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class _Named(NamedTuple):
    name: str
    array: mx.array


def load_gguf_arrays(
    parts: Mapping[str, GgufPart], metal: bool, on_progress: Progress | None, stop: Stop | None
) -> dict[str, mx.array]:
    """Key -> array for every weight with its scales and biases; floats as Metal or the CPU likes.

    The keys may be other than the parts' names. Scales are float16 with Metal, float32 without.
    on_progress gets bytes of the file done and in all. Raises BadModelFile naming the tensor, and
    LoadStopped.
    """
    files = {file: map_file(file) for file in {part.file for part in parts.values()}}
    weights = {key: part for key, part in parts.items() if part.is_weight}
    total, done = sum(part.stored.nbytes for part in weights.values()), 0
    arrays: dict[str, mx.array] = {}

    def between() -> None:
        if stop is not None and stop():
            raise LoadStopped(f"{next(iter(files))}: loading was stopped.")

    for key, part in weights.items():
        if on_progress is not None:
            on_progress(done, total)
        between()
        arrays.update(_arrays(key, part, files, between, metal=metal))
        done += part.stored.nbytes
    if on_progress is not None:
        on_progress(total, total)
    return arrays


def _arrays(
    key: str,
    part: GgufPart,
    files: Mapping[Path, mmap],
    between: Callable[[], None],
    *,
    metal: bool,
) -> Iterator[_Named]:
    try:
        data = files[part.file]
        if part.plan.becomes == "dense":
            yield _Named(key, _dense(part, data, metal=metal))
            return
        yield from _packed(key, part, files, between, metal=metal)
    except NotNumbersError as error:
        raise BadModelFile(
            f"{part.file}: {part.stored.name} holds values that are not numbers. The file is "
            "damaged: get it again."
        ) from error


def _packed(
    key: str,
    part: GgufPart,
    files: Mapping[Path, mmap],
    between: Callable[[], None],
    *,
    metal: bool,
) -> Iterator[_Named]:
    place, stored = part.place, part.stored
    rows = stored.blocks(files[stored.file])
    if place.rows is not None:
        rows = rows[np.array(place.rows)]
    dtype = np.float16 if metal else np.float32
    made = repack(rows, stored.type, part.plan, dtype, between)
    factor = None if part.factor is None else _factor(part.factor)
    base = key.removesuffix(".weight")
    yield _Named(key, mx.array(_in_order(made.weight, place.column_heads)))
    for name, values in (("scales", made.scales), ("biases", made.biases)):
        if values is not None:
            ordered = mx.array(_in_order(values, place.column_heads))
            yield _Named(f"{base}.{name}", ordered if factor is None else ordered * factor)


def _in_order(array: NDArray[np.generic], heads: tuple[int, ...] | None) -> NDArray[np.generic]:
    """Equal runs of columns in another order."""
    if heads is None:
        return array
    split = array.reshape(len(array), len(heads), -1)
    return split[:, np.array(heads)].reshape(array.shape)


def _dense(part: GgufPart, data: mmap, *, metal: bool) -> mx.array:
    """Floats as the file has them; float32 without Metal and for what has no type of its own."""
    stored, place = part.stored, part.place
    kind = stored.type.name
    raw = np.frombuffer(data, np.uint8, stored.nbytes, stored.offset).view(_FORMS[kind])
    values = raw.reshape(stored.shape)
    if place.rows is not None:
        values = values[np.array(place.rows)]
    if kind != "BF16" and not np.isfinite(values).all():
        raise NotNumbersError
    values = _CHANGES[place.change](_in_order(values, place.column_heads))
    array = mx.array(np.ascontiguousarray(values))
    if kind == "BF16":
        array = array.view(mx.bfloat16)
    return array if metal else array.astype(mx.float32)


def _factor(stored: GgufTensor) -> float:
    raw = stored.blocks(map_file(stored.file))
    value = raw.view("<f4") if stored.type.name == "F32" else np.empty(0)
    if value.size != 1 or not np.isfinite(value).all():
        raise NotNumbersError
    return float(value.reshape(-1)[0])


def _log_of_minus(values: NDArray[np.generic]) -> NDArray[np.generic]:
    wide = values.astype(np.float64)
    if not (wide < 0).all():
        raise NotNumbersError
    return np.log(-wide).astype(np.float32)


_CHANGES: dict[str, Callable[[NDArray[np.generic]], NDArray[np.generic]]] = {
    "none": lambda values: values.astype(np.float32) if values.dtype == np.float64 else values,
    "log of minus": _log_of_minus,
    "a last axis": lambda values: values[..., None],
}
