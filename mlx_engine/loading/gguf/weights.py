"""Arrays of GGUF tensors, repacked one after another, in runs of rows and with threads."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from mmap import mmap
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.loading.arrays import Progress, Stop
from mlx_engine.loading.gguf.bits import Bytes, Scratch
from mlx_engine.loading.gguf.blocks import AFFINE, NotNumbersError
from mlx_engine.loading.gguf.device_repack import ON_DEVICE, DeviceTensor, repack_on_device
from mlx_engine.loading.gguf.header import BlockType, forget, map_file
from mlx_engine.loading.gguf.lattice import LATTICE
from mlx_engine.loading.gguf.part import KEPT_SCALES, PLANS, BlockPlan, GgufPart
from mlx_engine.values.errors import BadModelFile, LoadStopped

# At a time, so that what is made on the way stays in the cache: bytes of blocks, or of their codes
# where those are more; values that are unpacked.
_CHUNK_BYTES, _CHUNK_VALUES = 2**20, 2**22
_CHUNKS_AT_ONCE = 8  # between two looks at whether the load is still wanted
_THREADS = 2  # more only wait for each other between NumPy calls
_CONVERTERS = AFFINE | LATTICE
_FORMS: dict[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_HALVES = {"F16": mx.float16, "BF16": mx.bfloat16}
_TYPES: dict[type[np.generic], mx.Dtype] = {
    np.uint8: mx.uint8,
    np.uint16: mx.uint16,
    np.uint32: mx.uint32,
    np.float32: mx.float32,
}


class PackedTensor(NamedTuple):
    """weight uint32 [rows, words], scales and biases [rows, groups]; biases None for mxfp4, nvfp4.

    scales: float32 when affine, else uint8.
    """

    weight: NDArray[np.uint32]
    scales: NDArray[np.generic]
    biases: NDArray[np.float32] | None


NewArray = Callable[[tuple[int, int], type[np.generic]], NDArray[Any]]
"""Shape and type -> an array of any content."""


def repack(
    rows: Bytes,
    kind: BlockType,
    plan: BlockPlan,
    between: Callable[[], None] = lambda: None,
    new: NewArray = np.empty,
) -> PackedTensor:
    """Rows of blocks [rows, bytes of a row] -> packed.

    `between` is called every few megabytes and may raise. The result lies where `new` puts it.
    Raises NotNumbersError.
    """
    inputs = rows.shape[1] // kind.nbytes * kind.elements
    groups, affine = (len(rows), inputs // plan.group_size), plan.becomes == "affine"
    made = PackedTensor(
        new((len(rows), inputs * plan.bits // 32), np.uint32),
        new(groups, np.float32 if affine else np.uint8),
        new(groups, np.float32) if affine else None,
    )
    step = max(1, _CHUNK_BYTES // max(rows.shape[1], inputs * plan.bits // 8))
    convert = _CONVERTERS[kind.name]

    def work(scratch: Scratch, starts: range) -> None:
        for start in starts:
            here = slice(start, start + step)
            blocks = np.ascontiguousarray(rows[here]).reshape(-1, kind.nbytes)
            with np.errstate(all="ignore"):  # what is not finite is found by _store
                rule = convert(blocks, made.weight[here].reshape(-1).view(np.uint8), scratch)
            _store(rule.scales, made.scales[here])
            if made.biases is not None and rule.biases is not None:
                _store(rule.biases, made.biases[here])

    starts = range(0, len(rows), step)
    scratches = [Scratch() for _ in range(_THREADS)]
    with ThreadPoolExecutor(_THREADS) as pool:
        for first in range(0, len(starts), _CHUNKS_AT_ONCE):
            between()
            some = starts[first : first + _CHUNKS_AT_ONCE]
            list(pool.map(work, scratches, [some[n::_THREADS] for n in range(_THREADS)]))
    return made


def _store(values: NDArray[Any], target: NDArray[Any]) -> None:
    """Each as often as the target has groups for it. Raises NotNumbersError."""
    if target.dtype != np.uint8 and not np.isfinite([values.min(), values.max()]).all():
        raise NotNumbersError
    kept = values.reshape(-1)
    groups = target.reshape(kept.size, -1)
    for place in range(groups.shape[1]):
        groups[:, place] = kept


class MlxMemory:
    """Arrays handed out, each in NumPy's and in MLX's form; both are the same bytes.

    That saves a copy of every weight.
    """

    def __init__(self) -> None:
        self._arrays: dict[int, mx.array] = {}

    def new(self, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
        """An array of zeros to write to; nothing may be computed with it before it is written."""
        array = mx.zeros(shape, _TYPES[dtype])
        mx.eval(array)
        view = np.array(array, copy=False)
        self._arrays[view.ctypes.data] = array
        return view

    def array(self, values: NDArray[Any]) -> mx.array:
        """What `new` gave, for MLX; a copy of any other array."""
        own = self._arrays.get(values.ctypes.data)
        if own is not None and own.shape == values.shape and values.flags.c_contiguous:
            return own
        return mx.array(np.ascontiguousarray(values))


def load_gguf_arrays(
    parts: Mapping[str, GgufPart], metal: bool, on_progress: Progress | None, stop: Stop | None
) -> dict[str, mx.array]:
    """Key -> array for every weight with its scales and biases; floats as Metal or the CPU likes.

    The keys may be other than the parts' names. With Metal scales and whatever is 16 bits wide are
    of the parts' half type, else float32.
    on_progress gets bytes of the file done and in all. Raises BadModelFile naming the tensor, and
    LoadStopped.
    """
    files = {file: map_file(file) for file in {part.file for part in parts.values()}}
    weights = {key: part for key, part in parts.items() if part.is_weight}
    total, done = sum(part.file_nbytes for part in weights.values()), 0
    arrays: dict[str, mx.array] = {}

    def between() -> None:
        if stop is not None and stop():
            raise LoadStopped("{files}: loading was stopped.", files=next(iter(files)))

    for key, part in weights.items():
        if on_progress is not None:
            on_progress(done, total)
        between()
        try:
            arrays |= _arrays(key, part, files[part.file], between, metal=metal)
        except NotNumbersError as error:
            raise BadModelFile(
                "{file}: {name} holds values that are not numbers. The file is "
                "damaged: get it again.",
                file=part.file,
                name=part.stored.name,
            ) from error
        forget(files[part.file], part.stored)
        done += part.file_nbytes
    if on_progress is not None:
        on_progress(total, total)
    return arrays


def _arrays(
    key: str, part: GgufPart, data: mmap, between: Callable[[], None], *, metal: bool
) -> dict[str, mx.array]:
    """A weight with what belongs to it; data: its file. Raises NotNumbersError."""
    if part.plan.becomes == "dense":
        return {key: _dense(part, data, metal=metal)}
    rows, kind = _rows_of(part.stored.blocks(data), part), part.stored.type
    if part.plan.becomes == "blocks":
        _check_scales(rows, kind)
        return {key: mx.array(np.ascontiguousarray(rows)).reshape(part.shape)}
    if part.plan.becomes == "unpacked":
        return {key: _unpacked(rows, part, between, metal=metal)}
    memory, base = MlxMemory(), key.removesuffix(".weight")
    lead, factor = part.unpacked_shape[:-1], _factor(part)
    if metal and kind.name in ON_DEVICE:
        arrays: Iterable[mx.array | None] = _on_device(rows, kind)
    else:
        made = repack(rows, kind, part.plan, between, memory.new)
        arrays = (one if one is None else memory.array(one) for one in made)
    found: dict[str, mx.array] = {}
    for name, array in zip((key, f"{base}.scales", f"{base}.biases"), arrays, strict=True):
        if array is not None:
            shaped = array.reshape(*lead, -1)
            if shaped.dtype == mx.float32 and factor is not None:
                shaped = shaped * factor
            is_wide = metal and shaped.dtype == mx.float32
            found[name] = shaped.astype(_HALVES[part.half]) if is_wide else shaped
    mx.eval(list(found.values()))  # so that nothing of what they were made of stays
    return found


def _on_device(rows: Bytes, kind: BlockType) -> DeviceTensor:
    """Raises NotNumbersError."""
    raw = mx.array(np.ascontiguousarray(rows))
    made = repack_on_device(raw, kind.name, kind.nbytes, kind.elements)
    if not (mx.isfinite(made.scales).all() & mx.isfinite(made.biases).all()).item():
        raise NotNumbersError
    return made


def _unpacked(rows: Bytes, part: GgufPart, between: Callable[[], None], *, metal: bool) -> mx.array:
    """The values of packed rows, run by run."""
    memory, width, kind = MlxMemory(), part.unpacked_shape[-1], part.stored.type
    wanted = _HALVES[part.half] if metal else mx.float32
    made = memory.new((len(rows), width), np.uint16 if metal else np.float32)
    step = max(1, _CHUNK_VALUES // width)
    for start in range(0, len(rows), step):
        between()
        here = slice(start, start + step)
        values = _values(np.ascontiguousarray(rows[here]), kind).astype(wanted)
        made[here] = np.array(values.view(mx.uint16) if metal else values, copy=False)
    array = memory.array(made)
    array = (array.view(wanted) if metal else array).reshape(part.unpacked_shape)
    factor = _factor(part)
    return array if factor is None else _times(array, factor)


def _values(rows: Bytes, kind: BlockType) -> mx.array:
    """Rows of blocks -> float32 [rows, values]."""
    if kind.name in KEPT_SCALES:
        _check_scales(rows, kind)
        return BLOCK_FORMS[kind.name.lower()].dequantise((mx.array(rows),))
    plan = PLANS[kind.name]
    made = repack(rows, kind, plan)
    return mx.dequantize(
        mx.array(made.weight),
        mx.array(made.scales),
        None if made.biases is None else mx.array(made.biases),
        group_size=plan.group_size,
        bits=plan.bits,
        mode=plan.becomes,
        dtype=mx.float32,
    )


def _check_scales(rows: NDArray[np.uint8], kind: BlockType) -> None:
    """Of blocks that stay as they are."""
    blocks = rows.reshape(-1, kind.nbytes)
    for at in KEPT_SCALES[kind.name]:
        if not np.isfinite(np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2")).all():
            raise NotNumbersError


def _times(values: mx.array, factor: mx.array) -> mx.array:
    return (values.astype(mx.float32) * factor).astype(values.dtype)


def _rows_of(rows: NDArray[Any], part: GgufPart) -> NDArray[Any]:
    """The rows [all rows of the file, ...] that are ours, in our order."""
    place = part.place
    if place.matrix is not None:
        rows = np.split(rows, part.stored.shape[0])[place.matrix]
    if place.rows is not None:
        rows = rows[np.array(place.rows)]
    if place.run is not None:
        stacked = rows.reshape(part.stored.shape[0], place.run.of, -1, *rows.shape[1:])
        rows = stacked[:, place.run.number].reshape(-1, *rows.shape[1:])
    return rows


def _dense(part: GgufPart, data: mmap, *, metal: bool) -> mx.array:
    """Floats as the file has them; float32 without Metal and for what has no type of its own."""
    stored, place = part.stored, part.place
    kind = stored.type.name
    raw = np.frombuffer(data, np.uint8, stored.nbytes, stored.offset).view(_FORMS[kind])
    inputs = stored.shape[-1] if len(stored.shape) > 1 else 1
    values = _rows_of(raw.reshape(-1, inputs), part)
    if kind == "F64" and place.change != "log of minus":
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            values = values.astype(np.float32)
    if kind != "BF16" and not np.isfinite(values).all():
        raise NotNumbersError
    if place.change == "log of minus":
        values = _log_of_minus(values)
    array = mx.array(np.ascontiguousarray(values).reshape(part.unpacked_shape))
    if kind == "BF16":
        array = array.view(mx.bfloat16)
    if place.change == "less one":
        array = array.astype(mx.float32) - 1
    factor = _factor(part)
    if factor is not None:
        array = _times(array, factor)
    if not metal:
        return array.astype(mx.float32)
    return array if array.dtype == mx.float32 else array.astype(_HALVES[part.half])


def _factor(part: GgufPart) -> mx.array | None:
    """One for the whole tensor, or for a stack [E, N, K] one for each matrix, [E, 1, 1]."""
    stored, shape = part.factor, part.unpacked_shape
    if stored is None:
        return None
    raw = stored.blocks(map_file(stored.file))
    values = raw.view("<f4").reshape(-1) if stored.type.name == "F32" else np.empty(0)
    each = len(shape) == 3 and values.size == shape[0]
    if not (each or values.size == 1) or not np.isfinite(values).all():
        raise NotNumbersError
    return mx.array(values.reshape(-1, 1, 1) if each else values)


def _log_of_minus(values: NDArray[np.generic]) -> NDArray[np.generic]:
    wide = values.astype(np.float64)
    if not (wide < 0).all():
        raise NotNumbersError
    return np.log(-wide).astype(np.float32)
