"""Load the tensors of GGUF files as MLX arrays, repacked one after another."""

from collections.abc import Callable, Mapping
from mmap import mmap
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.loading.arrays import Progress, Stop
from mlx_engine.loading.gguf.header import BlockType, map_file, release_pages
from mlx_engine.loading.gguf.part import KEPT_SCALES, PLANS, GgufPart
from mlx_engine.loading.gguf.repack import NotFiniteError, map_row_tiles, repack
from mlx_engine.values.errors import BadModelFile, LoadStopped

Bytes = NDArray[np.uint8]
_FORMS: dict[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4"}
_HALVES = {"F16": mx.float16, "BF16": mx.bfloat16}


def load_gguf_arrays(
    parts: Mapping[str, GgufPart],
    on_progress: Progress | None,
    stop: Stop | None,
    half: mx.Dtype | None = None,
) -> dict[str, mx.array]:
    """Load GGUF weights as MLX arrays with scales and biases, by the keys of `parts`.

    Keys may differ from tensor names. half: dtype of scales and of floats stored in 16 bits, None
    for the 16-bit type that suits the file (`GgufFile.half`). on_progress gets bytes of the file
    done and in total. Raises BadModelFile naming the tensor, LoadStopped.
    """
    files = {file: map_file(file) for file in {part.file for part in parts.values()}}
    weights = {key: part for key, part in parts.items() if part.is_weight_itself}
    total, done = sum(part.file_nbytes for part in weights.values()), 0
    arrays: dict[str, mx.array] = {}

    def check_stop() -> None:
        if stop is not None and stop():
            raise LoadStopped("{files}: loading was stopped.", files=next(iter(files)))

    for key, part in weights.items():
        if on_progress is not None:
            on_progress(done, total)
        check_stop()
        try:
            arrays |= _load_weight(
                key, part, files[part.file], half or _HALVES[part.half], check_stop
            )
        except NotFiniteError as error:
            raise BadModelFile(
                "{file}: {name} holds values that are not numbers. The file is "
                "damaged: get it again.",
                file=part.file,
                name=part.stored.name,
            ) from error
        release_pages(files[part.file], part.stored)
        done += part.file_nbytes
    if on_progress is not None:
        on_progress(total, total)
    return arrays


def _load_weight(
    tensor_name: str, part: GgufPart, file_map: mmap, half: mx.Dtype, check_stop: Callable[[], None]
) -> dict[str, mx.array]:
    """Load a weight, its scales and biases from a mapped GGUF file. Raises NotFiniteError."""
    if part.plan.storage == "dense":
        return {tensor_name: _load_unquantised(part, file_map, half)}
    rows, kind = _select_rows(part.stored.rows_as_bytes(file_map), part), part.stored.type
    if part.plan.storage == "blocks":
        _check_scales(rows, kind)
        return {tensor_name: mx.array(np.ascontiguousarray(rows)).reshape(part.shape)}
    if part.plan.storage == "unpacked":
        return {tensor_name: _dequantise_rows_of_part(rows, part, half, check_stop)}
    base, lead, factor = (
        tensor_name.removesuffix(".weight"),
        part.unpacked_shape[:-1],
        _scale_factor(part),
    )
    made = repack(rows, kind, part.plan, check_stop)
    found: dict[str, mx.array] = {}
    for name, array in zip((tensor_name, f"{base}.scales", f"{base}.biases"), made, strict=True):
        if array is not None:
            shaped = array.reshape(*lead, -1)
            if shaped.dtype == mx.float32 and factor is not None:
                shaped = shaped * factor
            is_float = shaped.dtype == mx.float32
            found[name] = shaped.astype(half) if is_float else shaped
    mx.eval(list(found.values()))  # releases what they are made of
    return found


def _dequantise_rows_of_part(
    rows: Bytes, part: GgufPart, half: mx.Dtype, check_stop: Callable[[], None]
) -> mx.array:
    """Dequantise rows of GGUF blocks to this dtype."""

    def dequantise_tile(tile: Bytes) -> list[mx.array]:
        return [_float32_values(tile, part.stored.type).astype(half)]

    (array,) = map_row_tiles(rows, part.unpacked_shape[-1], dequantise_tile, check_stop)
    array, factor = array.reshape(part.unpacked_shape), _scale_factor(part)
    return array if factor is None else _multiply_by_scale(array, factor)


def _float32_values(rows: Bytes, block_type: BlockType) -> mx.array:
    """Dequantise rows of GGUF blocks to float32 [rows, values]."""
    if block_type.name in KEPT_SCALES:
        _check_scales(rows, block_type)
        blocks = mx.array(np.ascontiguousarray(rows))
        return BLOCK_FORMS[block_type.name.lower()].dequantise((blocks,))
    plan = PLANS[block_type.name]
    made = repack(rows, block_type, plan)
    return mx.dequantize(
        *made, group_size=plan.group_size, bits=plan.bits, mode=plan.storage, dtype=mx.float32
    )


def _check_scales(rows: NDArray[np.uint8], block_type: BlockType) -> None:
    """Raise NotFiniteError unless all float16 scales in rows of GGUF blocks are finite."""
    blocks = rows.reshape(-1, block_type.nbytes)
    for at in KEPT_SCALES[block_type.name]:
        if not np.isfinite(np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2")).all():
            raise NotFiniteError


def _multiply_by_scale(values: mx.array, factor: mx.array) -> mx.array:
    return (values.astype(mx.float32) * factor).astype(values.dtype)


def _select_rows(rows: NDArray[Any], part: GgufPart) -> NDArray[Any]:
    """Select the rows that an array takes of a GGUF tensor's, in Hugging Face's order."""
    place = part.place
    if place.matrix is not None:
        rows = np.split(rows, part.stored.shape[0])[place.matrix]
    if place.rows is not None:
        rows = rows[np.array(place.rows)]
    if place.run is not None:
        stacked = rows.reshape(part.stored.shape[0], place.run.of, -1, *rows.shape[1:])
        rows = stacked[:, place.run.number].reshape(-1, *rows.shape[1:])
    return rows


def _load_unquantised(part: GgufPart, file_map: mmap, half: mx.Dtype) -> mx.array:
    """Load an unquantised GGUF tensor: float32 as such, others in the dtype `half`."""
    stored, place = part.stored, part.place
    kind = stored.type.name
    raw = np.frombuffer(file_map, np.uint8, stored.nbytes, stored.offset).view(_FORMS[kind])
    inputs = stored.shape[-1] if len(stored.shape) > 1 else 1
    values = _select_rows(raw.reshape(-1, inputs), part)
    is_log = place.change in ("log", "log of negated")
    if kind == "F64" and not is_log:
        with np.errstate(over="ignore"):  # infinities are refused below
            values = values.astype(np.float32)
    if kind == "I32":
        return mx.array(values.reshape(part.unpacked_shape))
    if kind != "BF16" and not np.isfinite(values).all():
        raise NotFiniteError
    if is_log:
        wide = values.astype(np.float64)
        values = _checked_logarithm(wide if place.change == "log" else -wide)
    array = mx.array(np.ascontiguousarray(values).reshape(part.unpacked_shape))
    if kind == "BF16":
        array = array.view(mx.bfloat16)
    if place.change == "subtract one":
        array = array.astype(mx.float32) - 1
    factor = _scale_factor(part)
    if factor is not None:
        array = _multiply_by_scale(array, factor)
    return array if array.dtype == mx.float32 else array.astype(half)


def _scale_factor(part: GgufPart) -> mx.array | None:
    """Scale factor of a GGUF tensor, or one for each matrix of a stack, [E, 1, 1]; else None."""
    stored, shape = part.factor, part.unpacked_shape
    if stored is None:
        return None
    raw = stored.rows_as_bytes(map_file(stored.file))
    values = raw.view("<f4").reshape(-1) if stored.type.name == "F32" else np.empty(0)
    each = len(shape) == 3 and values.size == shape[0]
    if not (each or values.size == 1) or not np.isfinite(values).all():
        raise NotFiniteError
    return mx.array(values.reshape(-1, 1, 1) if each else values)


def _checked_logarithm(values: NDArray[np.float64]) -> NDArray[np.generic]:
    if not (values > 0).all():
        raise NotFiniteError
    return np.log(values).astype(np.float32)
