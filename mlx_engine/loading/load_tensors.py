"""Arrays of tensors wherever they lie, in safetensors or GGUF files, with floats as used here."""

from collections.abc import Mapping, Sequence

import mlx.core as mx

from mlx_engine.loading.assembled_tensors import AssembledTensor
from mlx_engine.loading.evaluate_arrays import Progress, Stop
from mlx_engine.loading.gguf_part import GgufPart
from mlx_engine.loading.gguf_weights import load_gguf_arrays
from mlx_engine.loading.repack_cache import RepackCache
from mlx_engine.loading.safetensors_header import TensorInfo
from mlx_engine.loading.safetensors_weights import load_arrays
from mlx_engine.models.stored_forms import Run


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
    stored = {name: info for made in assembled.values() for name, info in made.stored.items()}
    packed = {key: info for key, info in tensors.items() if isinstance(info, GgufPart)}
    plain = {key: info for key, info in tensors.items() if key not in packed | assembled}
    arrays = load_arrays(plain) if plain else {}
    pieces = load_arrays(stored) if stored else {}
    arrays |= {key: _put_together(made, pieces) for key, made in assembled.items()}
    if not packed:
        return arrays
    kept = None if cache is None else cache.read(packed, metal=metal)
    if kept is not None:
        return arrays | kept
    repacked = load_gguf_arrays(packed, metal, on_progress, stop)
    if cache is not None:
        cache.write(packed, repacked, metal=metal)
    return arrays | repacked


def _put_together(tensor: AssembledTensor, stored: Mapping[str, mx.array]) -> mx.array:
    made = [_rows_of(stored[piece.name], piece.rows) for piece in tensor.recipe.pieces]
    return mx.stack(made) if tensor.recipe.is_stack else made[0]


def _rows_of(array: mx.array, rows: Run | Sequence[int] | None) -> mx.array:
    if rows is None:
        return array
    if isinstance(rows, Run):
        return mx.contiguous(mx.split(array, rows.of, axis=-2)[rows.number])
    return mx.take(array, mx.array(list(rows)), axis=-2)
