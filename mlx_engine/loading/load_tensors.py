"""Load the arrays of tensors in safetensors or GGUF files."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx

from mlx_engine.loading.arrays import Progress, Stop
from mlx_engine.loading.assembled_tensors import AssembledTensor
from mlx_engine.loading.fp8 import Fp8Tensor, dequantise_fp8
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.gguf.weights import load_gguf_arrays
from mlx_engine.loading.microscaled import MicroscaledTensor
from mlx_engine.loading.repack_cache import RepackCache
from mlx_engine.loading.safetensors import TensorInfo, load_arrays
from mlx_engine.models.tensor_recipes import RowChunk, StoredPiece, StridedRows

_HALVES = {"BF16": mx.bfloat16, "F16": mx.float16}


def load_tensors(
    tensors: Mapping[str, TensorInfo],
    half: mx.Dtype | None,
    *,
    on_progress: Progress | None = None,
    stop: Stop | None = None,
    cache: RepackCache | None = None,
) -> dict[str, mx.array]:
    """Load weights by name, lazily from safetensors files and the cache of repacked GGUF tensors.

    GGUF tensors that are not in the cache are repacked now, with progress, and written to it. half:
    dtype of floats that are stored in 16 bits or less, None for one that suits the model.
    """
    assembled = {key: info for key, info in tensors.items() if isinstance(info, AssembledTensor)}
    single = {key: info for key, info in tensors.items() if key not in assembled}
    for made in assembled.values():
        single |= made.stored_headers
    packed = {key: info for key, info in single.items() if isinstance(info, GgufPart)}
    in_fp8 = {key: info for key, info in single.items() if isinstance(info, Fp8Tensor)}
    scaled = {key: info for key, info in single.items() if isinstance(info, MicroscaledTensor)}
    plain = {key: info for key, info in single.items() if key not in packed | in_fp8 | scaled}
    arrays = load_arrays(plain) | _load_fp8(in_fp8, half) | _load_microscaled(scaled)
    if packed:
        kept = None if cache is None else cache.read_repacked(packed)
        if kept is None:
            kept = load_gguf_arrays(packed, on_progress, stop, half)
            if cache is not None:
                cache.write_repacked(packed, kept)
        arrays |= kept
    made_of_them = {key: _assemble_tensor(made, arrays) for key, made in assembled.items()}
    return {key: array for key, array in arrays.items() if key in tensors} | made_of_them


def load_deferred(
    tensors: Mapping[str, TensorInfo],
    half: mx.Dtype | None,
    *,
    stop: Stop | None = None,
    cache: RepackCache | None = None,
) -> dict[str, mx.array]:
    """Load weights that may never be used, all lazily, so that they take no memory yet.

    GGUF tensors are repacked into a temporary file, which is deleted while open; without disk space
    they stay in memory. half: as in load_tensors.
    """
    if cache is not None or not any(isinstance(info, GgufPart) for info in tensors.values()):
        return load_tensors(tensors, half, stop=stop, cache=cache)
    try:
        place = TemporaryDirectory(prefix="headstart-heads-", ignore_cleanup_errors=True)
    except OSError:
        return load_tensors(tensors, half, stop=stop)
    with place as folder:
        temporary = RepackCache(Path(folder), half)
        made = load_tensors(tensors, half, stop=stop, cache=temporary)
        return made if temporary.reasons else load_tensors(tensors, half, cache=temporary)


def _load_fp8(tensors: Mapping[str, Fp8Tensor], half: mx.Dtype | None) -> dict[str, mx.array]:
    """Dequantise fp8 tensors to the dtype `half`, None for the one their config names."""
    codes = load_arrays({key: info.codes for key, info in tensors.items()})
    scales = load_arrays({key: info.scales for key, info in tensors.items()})
    return {
        key: dequantise_fp8(codes[key], scales[key], info.block, half or _HALVES[info.dtype])
        for key, info in tensors.items()
    }


def _load_microscaled(tensors: Mapping[str, MicroscaledTensor]) -> dict[str, mx.array]:
    """Load words and scales in MLX's form of codes that have powers of two as scales."""
    stored = load_arrays({key: info.stored for key, info in tensors.items()})
    return {key: info.convert(stored[key]) for key, info in tensors.items()}


def _assemble_tensor(tensor: AssembledTensor, stored_arrays: Mapping[str, mx.array]) -> mx.array:
    recipe = tensor.recipe
    pieces = [_select_piece_rows(stored_arrays[piece.name], piece) for piece in recipe.pieces]
    if recipe.form == "joined":
        return mx.concatenate(pieces, axis=-2)
    made = mx.stack(pieces) if recipe.is_stack else pieces[0]
    if recipe.form == "transposed":
        return mx.contiguous(made.swapaxes(-1, -2))
    return made.flatten(-2).view(mx.uint32) if recipe.form == "words" else made


def _select_piece_rows(array: mx.array, piece: StoredPiece) -> mx.array:
    rows, axis = piece.rows, piece.axis
    if rows is None:
        return array
    if isinstance(rows, RowChunk):
        return mx.contiguous(mx.split(array, rows.of, axis=axis)[rows.number])
    if isinstance(rows, StridedRows):
        rows = range(rows.number, array.shape[axis], rows.of)
    return mx.take(array, mx.array(list(rows)), axis=axis)
