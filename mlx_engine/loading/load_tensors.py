"""Arrays of tensors wherever they lie, in safetensors or GGUF files, with floats as used here."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx

from mlx_engine.loading.arrays import Progress, Stop
from mlx_engine.loading.assembled_tensors import AssembledTensor
from mlx_engine.loading.fp8 import Fp8Tensor, unpacked_fp8
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.gguf.weights import load_gguf_arrays
from mlx_engine.loading.repack_cache import RepackCache
from mlx_engine.loading.safetensors import TensorInfo, load_arrays
from mlx_engine.models.stored_forms import Piece, Run, Turn

_HALVES = {"BF16": mx.bfloat16, "F16": mx.float16}


def load_tensors(
    tensors: Mapping[str, TensorInfo],
    *,
    metal: bool,
    on_progress: Progress | None = None,
    stop: Stop | None = None,
    cache: RepackCache | None = None,
) -> dict[str, mx.array]:
    """Key -> array. Those of safetensors are lazy, and those of GGUF that the cache holds.

    Others of GGUF are made now, with progress, and given to the cache.
    """
    assembled = {key: info for key, info in tensors.items() if isinstance(info, AssembledTensor)}
    single = {key: info for key, info in tensors.items() if key not in assembled}
    for made in assembled.values():
        single |= made.stored
    packed = {key: info for key, info in single.items() if isinstance(info, GgufPart)}
    in_fp8 = {key: info for key, info in single.items() if isinstance(info, Fp8Tensor)}
    plain = {key: info for key, info in single.items() if key not in packed | in_fp8}
    arrays = load_arrays(plain) | _load_fp8(in_fp8, metal=metal)
    if packed:
        kept = None if cache is None else cache.read(packed, metal=metal)
        if kept is None:
            kept = load_gguf_arrays(packed, metal, on_progress, stop)
            if cache is not None:
                cache.write(packed, kept, metal=metal)
        arrays |= kept
    made_of_them = {key: _put_together(made, arrays) for key, made in assembled.items()}
    return {key: array for key, array in arrays.items() if key in tensors} | made_of_them


def load_for_later(
    tensors: Mapping[str, TensorInfo],
    *,
    metal: bool,
    stop: Stop | None = None,
    cache: RepackCache | None = None,
) -> dict[str, mx.array]:
    """The same for tensors that are perhaps never used: lazy, so that they take no memory yet.

    What is made of a GGUF goes through a temporary file, which has lost its name by now and goes
    away with the last array that needs it. Without room for that it stays in memory.
    """
    if cache is not None or not any(isinstance(info, GgufPart) for info in tensors.values()):
        return load_tensors(tensors, metal=metal, stop=stop, cache=cache)
    try:
        place = TemporaryDirectory(prefix="headstart-heads-", ignore_cleanup_errors=True)
    except OSError:
        return load_tensors(tensors, metal=metal, stop=stop)
    with place as folder:
        shelf = RepackCache(Path(folder))
        made = load_tensors(tensors, metal=metal, stop=stop, cache=shelf)
        return made if shelf.reasons else load_tensors(tensors, metal=metal, cache=shelf)


def _load_fp8(tensors: Mapping[str, Fp8Tensor], *, metal: bool) -> dict[str, mx.array]:
    """Unpacked to their 16 bits with Metal, which need not be those of the file; else float32."""
    codes = load_arrays({key: info.codes for key, info in tensors.items()})
    scales = load_arrays({key: info.scales for key, info in tensors.items()})
    return {
        key: unpacked_fp8(
            codes[key], scales[key], info.block, _HALVES[info.dtype] if metal else mx.float32
        )
        for key, info in tensors.items()
    }


def _put_together(tensor: AssembledTensor, stored: Mapping[str, mx.array]) -> mx.array:
    recipe = tensor.recipe
    pieces = [_rows_of(stored[piece.name], piece) for piece in recipe.pieces]
    if recipe.form == "joined":
        return mx.concatenate(pieces, axis=-2)
    made = mx.stack(pieces) if recipe.is_stack else pieces[0]
    if recipe.form == "transposed":
        return mx.contiguous(made.swapaxes(-1, -2))
    return made.flatten(-2).view(mx.uint32) if recipe.form == "words" else made


def _rows_of(array: mx.array, piece: Piece) -> mx.array:
    rows, axis = piece.rows, piece.axis
    if rows is None:
        return array
    if isinstance(rows, Run):
        return mx.contiguous(mx.split(array, rows.of, axis=axis)[rows.number])
    if isinstance(rows, Turn):
        rows = range(rows.number, array.shape[axis], rows.of)
    return mx.take(array, mx.array(list(rows)), axis=axis)
