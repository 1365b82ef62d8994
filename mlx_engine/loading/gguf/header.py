"""The header of one GGUF file: metadata and tensor table, checked before any use."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.cursor import GgufCursor
from mlx_engine.loading.gguf.types import BlockType, block_type
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SHORTEST_PAIR = 8 + 1 + 4 + 1  # bytes of a key of one letter, its type, one byte of value
_SHORTEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8
_LONGEST_NAME = 300
_MOST_ENTRIES = 2**18  # metadata or tensors; real files have some thousands
_MOST_DIMENSIONS = 4
_ALIGNMENT = 32
_LARGEST_ALIGNMENT = 2**20


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor of a file. shape: outermost first, as in NumPy; offset: bytes into the file."""

    name: str
    type: BlockType
    shape: tuple[int, ...]
    nbytes: int
    file: Path
    offset: int

    def blocks(self, data: mmap) -> NDArray[np.uint8]:
        """A view of its bytes in its file, [rows, bytes of a row]."""
        rows = prod(self.shape[:-1])
        raw = np.frombuffer(data, np.uint8, self.nbytes, self.offset)
        return raw.reshape(rows, self.nbytes // rows)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata (arrays of numbers are views of the file) and tensors by name."""

    path: Path
    metadata: Mapping[str, object]
    tensors: Mapping[str, GgufTensor]


class _Entry(NamedTuple):
    """A line of the tensor table; offset: from where the data begin."""

    name: str
    type: BlockType
    shape: tuple[int, ...]
    nbytes: int
    offset: int


def map_file(path: Path) -> mmap:
    """The whole file as memory to be read; BadModelFile when there is nothing to map."""
    try:
        with path.open("rb") as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError) as error:
        raise BadModelFile(f"{path}: cannot be read ({error}). Download it again.") from error


def read_gguf_header(path: Path) -> GgufHeader:
    """Everything before the data; BadModelFile when the header cannot be true of the file.

    UnsupportedModel for big endian files, other versions and unknown element types.
    """
    return parse_gguf_header(path, map_file(path))


def parse_gguf_header(path: Path, data: mmap) -> GgufHeader:
    """The same of a file that is mapped already; path is for messages."""
    cursor = GgufCursor(path, data)
    _check_opening(path, data, cursor)
    tensor_count, pair_count = cursor.u64(), cursor.u64()
    if pair_count > min(_MOST_ENTRIES, cursor.left // _SHORTEST_PAIR):
        cursor.refuse(f"it claims {pair_count} metadata entries in {cursor.left} bytes")
    metadata = _metadata(cursor, pair_count)
    if tensor_count > min(_MOST_ENTRIES, cursor.left // _SHORTEST_TENSOR):
        cursor.refuse(f"it claims {tensor_count} tensors in {cursor.left} bytes")
    entries = [_entry(path, cursor) for _ in range(tensor_count)]
    alignment = _alignment(path, metadata)
    start = -(-cursor.offset // alignment) * alignment
    return GgufHeader(path, metadata, _tensors(path, entries, start, alignment, len(data)))


def _check_opening(path: Path, data: mmap, cursor: GgufCursor) -> None:
    if data[:4] != MAGIC:
        raise BadModelFile(f"{path}: not a GGUF file, though it is named like one. Get it again.")
    cursor.offset = 4
    version = cursor.u32()
    if version in _VERSIONS:
        return
    if struct.unpack(">I", struct.pack("<I", version))[0] in (1, *_VERSIONS):
        raise UnsupportedModel(
            f"{path}: a big endian GGUF, made for another kind of machine. Take the usual one."
        )
    raise UnsupportedModel(
        f"{path}: GGUF version {version}; versions 2 and 3 are read. Take a newer conversion."
    )


def _metadata(cursor: GgufCursor, count: int) -> dict[str, object]:
    metadata: dict[str, object] = {}
    for _ in range(count):
        key = cursor.string()
        if key in metadata:
            cursor.refuse(f"the metadata key {_shown(key)} is there twice")
        metadata[key] = cursor.value()
    return metadata


def _entry(path: Path, cursor: GgufCursor) -> _Entry:
    name = cursor.string(_LONGEST_NAME)
    if not name or not name.isprintable():
        cursor.refuse(f"a tensor is named {_shown(name)}")
    dimensions = cursor.u32()
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        cursor.refuse(f"{name} has {dimensions} dimensions")
    shape = tuple(reversed([cursor.u64() for _ in range(dimensions)]))
    if 0 in shape or prod(shape) >= 2**63:
        cursor.refuse(f"{name} has the shape {list(shape)}")
    kind = block_type(cursor.u32(), name, path)
    if shape[-1] % kind.elements:
        cursor.refuse(f"a row of {name} has {shape[-1]} elements; {kind.name} takes runs of "
                      f"{kind.elements}")  # fmt: skip
    nbytes = prod(shape) // kind.elements * kind.nbytes
    return _Entry(name, kind, shape, nbytes, cursor.u64())


def _alignment(path: Path, metadata: Mapping[str, object]) -> int:
    value = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(value, int) or not 1 <= value <= _LARGEST_ALIGNMENT or value & (value - 1):
        _refuse(path, f"general.alignment is {_shown(value)}, not a power of two")
    return value


def _tensors(
    path: Path, entries: list[_Entry], start: int, alignment: int, size: int
) -> dict[str, GgufTensor]:
    tensors: dict[str, GgufTensor] = {}
    for entry in entries:
        begin = start + entry.offset
        if entry.name in tensors:
            _refuse(path, f"the tensor {entry.name} is there twice")
        if entry.offset % alignment:
            _refuse(path, f"{entry.name} begins at {entry.offset}, not a multiple of {alignment}")
        if begin + entry.nbytes > size:
            _refuse(
                path, f"{entry.name} should end at byte {begin + entry.nbytes} of {size}: cut short"
            )
        tensors[entry.name] = GgufTensor(
            entry.name, entry.type, entry.shape, entry.nbytes, path, begin
        )
    in_order = sorted(tensors.values(), key=lambda tensor: tensor.offset)
    for before, after in pairwise(in_order):
        if before.offset + before.nbytes > after.offset:
            _refuse(path, f"{before.name} and {after.name} overlap")
    return tensors


def _shown(value: object) -> str:
    """A value of the file, safe and short enough for a message."""
    return ascii(value)[:80]


def _refuse(path: Path, why: str) -> NoReturn:
    raise BadModelFile(f"{path}: damaged, {why}. Download the file again.")
