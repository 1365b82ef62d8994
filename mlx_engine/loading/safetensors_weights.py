"""Arrays of safetensors shards, lazy, after their headers were checked."""

from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx

from mlx_engine.loading.safetensors_header import TensorInfo
from mlx_engine.values.errors import BadModelFile


def load_arrays(tensors: Mapping[str, TensorInfo]) -> dict[str, mx.array]:
    """Key -> the array its header describes; nothing is read before an array is evaluated.

    The keys may be other than the names in the files. BadModelFile when a file cannot be opened or
    no longer holds what its header said.
    """
    files = {file: _open(file) for file in {info.file for info in tensors.values()}}
    return {key: _array(files[info.file], info) for key, info in tensors.items()}


def _open(file: Path) -> dict[str, mx.array]:
    try:
        loaded = mx.load(str(file))
    except (RuntimeError, ValueError) as error:
        raise BadModelFile(f"{file}: cannot be loaded ({error}).") from error
    assert isinstance(loaded, dict)
    return loaded


def _array(loaded: Mapping[str, mx.array], info: TensorInfo) -> mx.array:
    array = loaded.get(info.name)
    if array is None or array.shape != info.shape:
        raise BadModelFile(f"{info.file}: changed while it was being opened. Try again.")
    return array
