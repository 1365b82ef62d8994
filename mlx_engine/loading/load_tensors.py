"""Arrays of tensors wherever they lie, in safetensors or GGUF files, with floats as used here."""

from collections.abc import Mapping

import mlx.core as mx

from mlx_engine.loading.evaluate_arrays import Progress, Stop
from mlx_engine.loading.gguf_part import GgufPart
from mlx_engine.loading.gguf_weights import load_gguf_arrays
from mlx_engine.loading.safetensors_header import TensorInfo
from mlx_engine.loading.safetensors_weights import load_arrays


def load_tensors(
    tensors: Mapping[str, TensorInfo],
    *,
    metal: bool,
    on_progress: Progress | None = None,
    stop: Stop | None = None,
) -> dict[str, mx.array]:
    """Key -> array. Those of safetensors are lazy; those of GGUF are made now, with progress."""
    packed = {key: info for key, info in tensors.items() if isinstance(info, GgufPart)}
    plain = {key: info for key, info in tensors.items() if key not in packed}
    arrays = load_arrays(plain) if plain else {}
    return arrays | (load_gguf_arrays(packed, metal, on_progress, stop) if packed else {})
