"""MTP heads whose weights are read, or repacked, when they are first used."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir, mkstemp
from weakref import finalize

import mlx.core as mx
import numpy as np

from mlx_engine.loading.arrays import Stop
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.gguf.weights import load_gguf_arrays
from mlx_engine.loading.load_tensors import load_tensors
from mlx_engine.loading.repack_cache import RepackCache
from mlx_engine.loading.safetensors import BYTES_OF, TensorInfo
from mlx_engine.values.errors import BadModelFile, OutOfMemory

_SMALL = 2**16
"""Bytes up to which a tensor is made at once: families look at the values of norms."""


class HeadsForLater:
    """arrays: by key, lazy; they are there to be evaluated after `fill`.

    MLX's lazy arrays come from files alone. So what has to be repacked gets a temporary file with a
    header and no data, which `fill` brings; to evaluate an array before is an error of MLX.
    """

    def __init__(
        self,
        tensors: Mapping[str, TensorInfo],
        *,
        metal: bool,
        stop: Stop | None = None,
        cache: RepackCache | None = None,
    ) -> None:
        large = {} if cache is not None else _large_of_gguf(tensors)
        self._late = _late_file(large, metal=metal)
        late = {} if self._late is None else self._late.arrays
        rest = {key: info for key, info in tensors.items() if key not in late}
        self.arrays = late | load_tensors(rest, metal=metal, stop=stop, cache=cache)

    def fill(self) -> None:
        """Repack what has to be; once. Raises BadModelFile, OutOfMemory."""
        if self._late is not None:
            self._late.fill()
            self._late = None


class _LateFile:
    """A safetensors file whose data come later.

    It has no name any more once it is open, and goes away with the last array that needs it.
    """

    def __init__(self, parts: Mapping[str, GgufPart], *, metal: bool) -> None:
        self._parts, self._metal = parts, metal
        self._begins: dict[str, int] = {}
        header: dict[str, object] = {}
        end = 0
        for key, part in parts.items():
            dtype = _dtype(part, metal=metal)
            begin, end = end, end + part.nbytes // BYTES_OF[part.dtype] * BYTES_OF[dtype]
            self._begins[key] = begin
            header[key] = {"dtype": dtype, "shape": part.shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self._data = 8 + len(text)
        self._file, name = mkstemp(suffix=".safetensors")
        self._close = finalize(self, os.close, self._file)
        try:
            os.write(self._file, len(text).to_bytes(8, "little") + text)
            os.truncate(self._file, self._data + end)  # as long as MLX asks for, of no content
            loaded = mx.load(name)
            os.truncate(self._file, self._data)  # what is read too soon shall fail
        finally:
            Path(name).unlink()
        assert isinstance(loaded, dict)
        self.arrays: dict[str, mx.array] = loaded

    def fill(self) -> None:
        """The data of one weight after another; then the file is open for MLX alone."""
        for key, part in self._parts.items():
            if part.is_weight:
                made = load_gguf_arrays({key: part}, self._metal, None, None)
                for name, array in made.items():
                    self._put(name, array, part)
        self._close()

    def _put(self, name: str, array: mx.array, part: GgufPart) -> None:
        if array.dtype != self.arrays[name].dtype:
            raise BadModelFile(
                f"{part.file}: {part.stored.name} has scales beyond 16 bits, so it cannot be the "
                "head of a model. Get the file again, or open the model without heads."
            )
        try:
            _write(self._file, self._data + self._begins[name], array)
        except OSError as error:
            raise OutOfMemory(
                f"{part.file}: its MTP heads need room in {gettempdir()} for a "
                f"moment ({error.strerror}). Make room there, or switch drafting off."
            ) from error


def _late_file(parts: Mapping[str, GgufPart], *, metal: bool) -> _LateFile | None:
    """None where there is nothing to come, or no place for a temporary file."""
    try:
        return _LateFile(parts, metal=metal) if parts else None
    except OSError:
        return None


def _large_of_gguf(tensors: Mapping[str, TensorInfo]) -> dict[str, GgufPart]:
    """Whole weights, with scales and biases."""
    parts = {key: info for key, info in tensors.items() if isinstance(info, GgufPart)}
    return {key: part for key, part in parts.items() if part.stored.nbytes > _SMALL}


def _write(file: int, place: int, array: mx.array) -> None:
    left = memoryview(np.array(mx.contiguous(array).reshape(-1).view(mx.uint8)).data)
    while left:
        written = os.pwrite(file, left, place)
        left, place = left[written:], place + written


def _dtype(part: GgufPart, *, metal: bool) -> str:
    """Of the array it becomes, by the names of safetensors."""
    return part.dtype if metal or part.dtype not in ("F16", "BF16") else "F32"
