"""Embedding tables that stay on disk: their files are mapped, and single rows read when needed.

A table is stored whole or as shards of rows, dense, packed by MLX, or in fp8 with one scale or with
powers of two for some columns of a row each.
"""

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from math import prod
from mmap import MADV_RANDOM, mmap
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.header import map_file
from mlx_engine.loading.safetensors import TensorInfo, data_offsets
from mlx_engine.models.matrix import Matrix, dequantised, infer_packing
from mlx_engine.models.weights import RowTable
from mlx_engine.values.errors import tensor_misshapen, tensor_missing

_PART = re.compile(r"(.+?)\.(?:(?:shards?[._])?(\d{1,6})\.)?(weight|scales?|biases|weight_scale)")
"""Name of a part of a table: the table's name, number of the shard, and kind of the part."""

_DTYPES = {"BF16": mx.bfloat16, "F16": mx.float16, "F32": mx.float32, "U32": mx.uint32}
_CODES = "F8_E4M3"
_FEW = 512
"""Rows up to which one thread reads them: a disk answers more requests when they come together."""

_READERS = 16

Rows = NDArray[np.uint8]


class DiskTable(RowTable):
    """Embedding table of shards of rows, in mapped files.

    tensors: the table's parts by name. name, origin: of the table and its folder, for messages.
    """

    def __init__(
        self, tensors: Mapping[str, TensorInfo], file_maps: "_FileMaps", name: str, origin: str
    ) -> None:
        self._name, self._origin = name, origin
        shards: dict[int, dict[str, TensorInfo]] = {}
        for part, tensor in tensors.items():
            found = _PART.fullmatch(part)
            assert found is not None
            shards.setdefault(int(found[2] or 0), {})[found[3]] = tensor
        self._scale = 1.0
        scale = shards.get(0, {}).pop("weight_scale", None)
        if scale is not None:
            factor = _as_floats(file_maps.map_rows(scale, 1), scale.dtype).astype(mx.float32)
            self._scale = float(np.array(factor).item())
        self._kinds = {kind: tensor.dtype for kind, tensor in shards.get(0, {}).items()}
        self._width = 0
        for number in range(len(shards)):
            parts = shards.get(number, {})
            rows = {tensor.shape[:1] for tensor in parts.values()}
            if "weight" not in parts or parts.keys() != self._kinds.keys() or len(rows) > 1:
                raise tensor_missing(origin, f"{name}, shard {number}")
        self._shards = [
            {kind: file_maps.map_rows(tensor) for kind, tensor in shards[number].items()}
            for number in sorted(shards)
        ]
        self._starts = [0, *accumulate(len(shard["weight"]) for shard in self._shards)]

    def check_shape(self, rows: int, width: int) -> None:
        """Raise BadModelFile if the table has other numbers of rows or of elements in a row."""
        self._width = width
        found = self._starts[-1], self.gather_rows(lambda: np.zeros(1, np.int64), 1).shape[1]
        if found != (rows, width):
            raise tensor_misshapen(self._origin, self._name, found, (rows, width))

    def gather_rows(self, row_numbers: Callable[[], NDArray[np.int64]], count: int) -> mx.array:
        """Read rows of the table by number -> [count, width], floating."""
        wanted = row_numbers()
        order = np.argsort(wanted)
        ordered = wanted[order]
        ends = np.searchsorted(ordered, self._starts)
        made = {
            kind: np.empty((count, shard.shape[1]), np.uint8)
            for kind, shard in self._shards[0].items()
        }

        def read(shard: int) -> None:
            places = slice(ends[shard], ends[shard + 1])
            for kind, rows in self._shards[shard].items():
                made[kind][order[places]] = rows[ordered[places] - self._starts[shard]]

        touched = [n for n, (begin, end) in enumerate(pairwise(ends)) if begin < end]
        if count <= _FEW:
            for shard in touched:
                read(shard)
        else:
            with ThreadPoolExecutor(_READERS) as readers:
                list(readers.map(read, touched))
        return self._values({kind: mx.array(rows) for kind, rows in made.items()})

    def _values(self, raw: Mapping[str, mx.array]) -> mx.array:
        """Values of rows as stored, bytes [count, N] -> [count, width]."""
        parts = {kind: _as_floats(rows, self._kinds[kind]) for kind, rows in raw.items()}
        weight = parts.pop("weight")
        if "scale" in parts:
            powers = mx.left_shift(parts["scale"].astype(mx.uint32), 23).view(mx.float32)
            weight = weight.reshape(*powers.shape, -1) * powers[..., None]
            weight = weight.reshape(len(powers), -1)
        elif parts:
            arrays = [weight, *(parts[kind] for kind in ("scales", "biases") if kind in parts)]
            shape = (len(weight), self._width)
            packing = infer_packing(self._name, arrays, shape, self._origin)
            biases = arrays[2] if len(arrays) > 2 else None
            weight = dequantised(Matrix(weight, arrays[1], biases, *packing), mx.float32)
        return weight if self._scale == 1.0 else weight * self._scale


class _FileMaps:
    """Mapped files, by path, with the offsets of their tensors."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[mmap, dict[str, int]]] = {}

    def map_rows(self, tensor: TensorInfo, count: int | None = None) -> Rows:
        """View a stored tensor as rows of bytes, uint8 [count or its own rows, N]."""
        if tensor.file not in self._files:
            data = map_file(tensor.file)
            data.madvise(MADV_RANDOM)
            self._files[tensor.file] = data, data_offsets(tensor.file)
        data, offsets = self._files[tensor.file]
        raw = np.frombuffer(data, np.uint8, tensor.nbytes, offsets[tensor.name])
        return raw.reshape(count or prod(tensor.shape[:-1]), -1)


def _as_floats(rows: mx.array | Rows, dtype: str) -> mx.array:
    """Bytes of rows as numbers of a stored type; scales of nvfp4 and mxfp4 stay bytes."""
    rows = mx.array(rows)
    if dtype == _CODES:
        return mx.from_fp8(rows, mx.float32)
    return rows.view(_DTYPES[dtype]) if dtype in _DTYPES else rows


def map_tables(tensors: Mapping[str, TensorInfo], origin: str) -> dict[str, RowTable]:
    """Map the embedding tables that stay on disk, by name, of their parts.

    origin: the model's folder, for messages. Raises BadModelFile for missing parts.
    """
    tables: dict[str, dict[str, TensorInfo]] = {}
    for name, tensor in tensors.items():
        found = _PART.fullmatch(name)
        assert found is not None
        tables.setdefault(found[1], {})[name] = tensor
    maps = _FileMaps()
    return {name: DiskTable(parts, maps, name, origin) for name, parts in tables.items()}
