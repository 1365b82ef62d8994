"""Parse the header of one GGUF file, metadata and tensor table, checking every value.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Nothing longer than the file is
allocated. Element types are those of the gguf package.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import prod
from mmap import ACCESS_READ, MADV_DONTNEED, PAGESIZE, mmap
from pathlib import Path
from struct import Struct
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.no_model import describe_wrong_file
from mlx_engine.loading.safetensors import raise_damaged, shorten_value
from mlx_engine.values.errors import BadModelFile, UnsupportedModel, why_not_read
from mlx_engine.values.untrusted import open_regular
from mlx_engine.values.words import Words

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SHORTEST_PAIR = 8 + 1 + 4 + 1  # bytes of a key of one letter, its type, one byte of value
_SHORTEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8
_LONGEST_NAME = 300
_MOST_ENTRIES = 2**16  # metadata or tensors; real files have some thousands
_MOST_STRINGS = 2**22  # of all arrays of a file: several times the largest vocabulary
_MOST_TEXT = 2**28  # bytes of all texts; a whole tokenizer.json may be among them
_MOST_NUMBERS = 2**24  # of one array: there is one for each token, or a table of a normalizer
_MOST_DIMENSIONS = 4
_DEEPEST = 4
_ALIGNMENT = 32
_LARGEST_ALIGNMENT = 2**20
_NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4"} | {
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_FLAG, _TEXT, _ARRAY = 7, 8, 9
"""Numbers of the metadata's value types."""


class BlockType(NamedTuple):
    """An element type of GGUF: each block of `nbytes` bytes holds `elements` values of a row."""

    name: str
    elements: int
    nbytes: int


_GIVEN_UP = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8"} | {
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
"""Types that llama.cpp removed; their files must be converted again."""


@cache
def block_types() -> dict[int, BlockType]:
    """Map the numbers of element types in GGUF files to their names and block sizes."""
    from gguf import GGML_QUANT_SIZES

    known = {kind.value: BlockType(kind.name, *size) for kind, size in GGML_QUANT_SIZES.items()}
    return {42: BlockType("Q2_0", 64, 18), **known}  # newer than some releases of the package


def block_type(type_number: int, tensor: str, file: Path) -> BlockType:
    """Look up a GGUF element type by number. Raises UnsupportedModel naming file and tensor."""
    found = block_types().get(type_number)
    if found is not None:
        return found
    old = _GIVEN_UP.get(type_number)
    what = (
        f"the abandoned type {old}"
        if old
        else f"type {type_number}, which this version does not know"
    )
    raise UnsupportedModel(
        "{file}: {tensor} is stored as {what}. Take another quantisation of the model.",
        file=file,
        tensor=tensor,
        what=what,
    )


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Header of a GGUF tensor. shape: outermost axis first. offset: bytes from the file's start."""

    name: str
    type: BlockType
    shape: tuple[int, ...]
    nbytes: int
    file: Path
    offset: int

    def rows_as_bytes(self, file_map: mmap) -> NDArray[np.uint8]:
        """View a GGUF tensor's bytes in the mapped file, uint8 [rows, bytes of a row]."""
        rows = prod(self.shape[:-1])
        raw = np.frombuffer(file_map, np.uint8, self.nbytes, self.offset)
        return raw.reshape(rows, self.nbytes // rows)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata and tensor headers of one GGUF file; numeric arrays are views of the file."""

    path: Path
    metadata: Mapping[str, object]
    tensors: Mapping[str, GgufTensor]


def map_file(path: Path) -> mmap:
    """Map a file into memory, read-only. Raises BadModelFile, also for an empty file."""
    try:
        with open_regular(path) as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ)
    except OSError as error:
        raise BadModelFile(why_not_read(path, error)) from error
    except ValueError as error:
        raise BadModelFile("{path}: the file is empty. Download it again.", path=path) from error


def release_pages(file_map: mmap, tensor: GgufTensor) -> None:
    """Give a mapped GGUF tensor's memory pages back to the system; they can be read again."""
    start = -(-tensor.offset // PAGESIZE) * PAGESIZE
    whole = (tensor.offset + tensor.nbytes - start) // PAGESIZE * PAGESIZE
    if whole > 0:
        file_map.madvise(MADV_DONTNEED, start, whole)


def read_gguf_header(path: Path) -> GgufHeader:
    """Read everything before the tensor data of a GGUF file.

    Raises BadModelFile for a damaged header, UnsupportedModel for big-endian files, other versions
    and unknown element types.
    """
    return parse_gguf_header(path, map_file(path))


def read_gguf_architecture(path: Path) -> str:
    """Read `general.architecture` of a GGUF file, and nothing behind it; "" if it has none.

    Raises as read_gguf_header does.
    """
    file_map = map_file(path)
    cursor = _HeaderCursor(path, file_map)
    _check_magic(path, file_map, cursor)
    cursor.read_unsigned(8)
    for _ in range(min(cursor.read_unsigned(8), _MOST_ENTRIES)):
        key, value = cursor.read_string(), cursor.read_value(is_strict=False)
        if key == "general.architecture":
            return str(value)
    return ""


def parse_gguf_header(path: Path, file_map: mmap) -> GgufHeader:
    """Parse the header of a mapped GGUF file; path: for error messages."""
    cursor = _HeaderCursor(path, file_map)
    _check_magic(path, file_map, cursor)
    tensor_count, pair_count = cursor.read_unsigned(8), cursor.read_unsigned(8)
    if pair_count > min(_MOST_ENTRIES, cursor.bytes_left // _SHORTEST_PAIR):
        cursor.raise_damaged(
            f"it claims {pair_count} metadata entries in {cursor.bytes_left} bytes"
        )
    metadata = _metadata(cursor, pair_count)
    if tensor_count > min(_MOST_ENTRIES, cursor.bytes_left // _SHORTEST_TENSOR):
        cursor.raise_damaged(f"it claims {tensor_count} tensors in {cursor.bytes_left} bytes")
    entries = [_tensor_entry(path, cursor) for _ in range(tensor_count)]
    alignment = _alignment(path, metadata)
    start = -(-cursor.offset // alignment) * alignment
    return GgufHeader(
        path, metadata, _tensor_headers(path, entries, start, alignment, len(file_map))
    )


class _HeaderCursor:
    """A reading position in a mapped GGUF file. Raises BadModelFile naming file and offset."""

    def __init__(self, path: Path, file_map: mmap) -> None:
        self._path = path
        self._data = file_map
        self._size = len(file_map)
        self._strings_left, self._text_left = _MOST_STRINGS, _MOST_TEXT
        self.offset = 0

    @property
    def bytes_left(self) -> int:
        """Number of bytes after the reading position in a GGUF file."""
        return self._size - self.offset

    def raise_damaged(self, damage_reason: str) -> NoReturn:
        """Raise BadModelFile for the bytes at the reading position, with the reason."""
        raise BadModelFile(
            "{path}: damaged at byte {offset}, {why}. Download the file again.",
            path=self._path,
            offset=self.offset,
            why=damage_reason,
        )

    def read_unsigned(self, nbytes: int) -> int:
        """Read an unsigned little-endian integer of `nbytes` bytes from a GGUF file."""
        start = self._advance_position(nbytes)
        return int.from_bytes(self._data[start : self.offset], "little")

    def read_string(self, most_bytes: int | None = None, *, is_strict: bool = True) -> str:
        """Read a GGUF string: its length, then as many UTF-8 bytes, at most `most_bytes`.

        is_strict: refuse invalid UTF-8 instead of replacing it by U+FFFD.
        """
        length = self.read_unsigned(8)
        left = min(self.bytes_left, self._text_left)
        if length > left:
            self.raise_damaged(f"a text of {length} bytes where {left} are left")
        self._text_left -= length
        if most_bytes is not None and length > most_bytes:
            self.raise_damaged(f"a name of {length} bytes, more than {most_bytes}")
        start, self.offset = self.offset, self.offset + length
        try:
            return self._data[start : self.offset].decode(
                errors="strict" if is_strict else "replace"
            )
        except UnicodeDecodeError:
            self.raise_damaged(Words("a text that is not UTF-8"))

    def _read_strings(self, count: int, *, is_strict: bool) -> list[str]:
        """Read `count` GGUF strings like `text`, fast: a vocabulary has hundreds of thousands."""
        data, offset, left = self._data, self.offset, self._text_left
        length_at, last, found = Struct("<Q").unpack_from, self._size - 8, list[str]()
        errors = "strict" if is_strict else "replace"
        while len(found) < count and offset <= last:
            (length,) = length_at(data, offset)
            end, left = offset + 8 + length, left - length
            if left < 0 or end > self._size:
                break
            try:
                found.append(data[offset + 8 : end].decode(errors=errors))
            except UnicodeDecodeError:
                break
            offset = end
        self._text_left -= offset - self.offset - 8 * len(found)
        self.offset = offset
        # the one that cannot be read raises its error
        return found + [self.read_string(is_strict=is_strict) for _ in range(count - len(found))]

    def read_value(self, *, is_strict: bool) -> object:
        """Read a GGUF metadata value after its type; is_strict: refuse invalid UTF-8 in strings."""
        kind = self.read_unsigned(4)
        if kind == _TEXT:
            return self.read_string(is_strict=is_strict)
        if kind == _FLAG:
            byte = self.read_unsigned(1)
            if byte > 1:
                self.raise_damaged(f"{byte} where 0 or 1 belongs")
            return byte == 1
        if kind == _ARRAY:
            return self._read_array(0, is_strict=is_strict)
        if kind not in _NUMBERS:
            self.raise_damaged(f"a value of the unknown type {kind}")
        dtype = np.dtype(_NUMBERS[kind])
        return np.frombuffer(self._data, dtype, 1, self._advance_position(dtype.itemsize))[0].item()

    def _advance_position(self, nbytes: int) -> int:
        """Advance the reading position by `nbytes`; return the previous one, in bytes."""
        start = self.offset
        if nbytes > self._size - start:
            self.raise_damaged(Words("the file is cut short"))
        self.offset += nbytes
        return start

    def _read_array(
        self, nesting_depth: int, *, is_strict: bool
    ) -> NDArray[np.generic] | Sequence[object]:
        """Read a GGUF metadata array; numbers as a NumPy view of the file."""
        kind, count = self.read_unsigned(4), self.read_unsigned(8)
        if kind in _NUMBERS or kind == _FLAG:
            dtype = np.dtype(_NUMBERS.get(kind, "<u1"))
            if count > min(_MOST_NUMBERS, self.bytes_left // dtype.itemsize):
                self.raise_damaged(
                    f"an array of {count} numbers where {self.bytes_left} bytes are left"
                )
            return np.frombuffer(
                self._data, dtype, count, self._advance_position(count * dtype.itemsize)
            )
        if kind not in (_TEXT, _ARRAY):
            self.raise_damaged(f"an array of the unknown type {kind}")
        if count > min(self.bytes_left // 8, self._strings_left):
            self.raise_damaged(f"an array of {count} items where {self.bytes_left} bytes are left")
        self._strings_left -= count
        if kind == _TEXT:
            return self._read_strings(count, is_strict=is_strict)
        if nesting_depth == _DEEPEST:
            self.raise_damaged(f"arrays inside arrays, more than {_DEEPEST} deep")
        return [self._read_array(nesting_depth + 1, is_strict=is_strict) for _ in range(count)]


def _check_magic(path: Path, file_map: mmap, cursor: _HeaderCursor) -> None:
    if file_map[:4] != MAGIC:
        other = describe_wrong_file(file_map[:32])
        if file_map[8:10] == b'{"':
            other = Words("safetensors by its content: let its name end in .safetensors")
        if other is not None:
            raise BadModelFile(
                "{path}: no GGUF but {other}. Get the file again.", path=path, other=other
            )
        raise BadModelFile(
            "{path}: not a GGUF file, though it is named like one. Get it again.", path=path
        )
    cursor.offset = 4
    version = cursor.read_unsigned(4)
    if version in _VERSIONS:
        return
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *_VERSIONS):
        raise UnsupportedModel(
            "{path}: a big-endian GGUF, made for another kind of machine. Use the "
            "little-endian one.",
            path=path,
        )
    raise UnsupportedModel(
        "{path}: GGUF version {version}; versions 2 and 3 are read. Take a newer conversion.",
        path=path,
        version=version,
    )


def _metadata(cursor: _HeaderCursor, count: int) -> dict[str, object]:
    """Read `count` GGUF metadata entries; only strings of the tokenizer must be valid UTF-8."""
    metadata: dict[str, object] = {}
    for _ in range(count):
        key = cursor.read_string()
        if key in metadata:
            shown = shorten_value(key)
            cursor.raise_damaged(Words("the metadata key {shown} is there twice", shown=shown))
        metadata[key] = cursor.read_value(is_strict=key.startswith("tokenizer."))
    return metadata


def _tensor_entry(path: Path, cursor: _HeaderCursor) -> GgufTensor:
    """Read an entry of a GGUF tensor table as a header; offset: from the start of tensor data."""
    name = cursor.read_string(_LONGEST_NAME)
    if not name or not name.isprintable():
        cursor.raise_damaged(f"a tensor is named {shorten_value(name)}")
    dimensions = cursor.read_unsigned(4)
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        cursor.raise_damaged(f"{name} has {dimensions} dimensions")
    shape = tuple(reversed([cursor.read_unsigned(8) for _ in range(dimensions)]))
    if 0 in shape or prod(shape) >= 2**63:
        cursor.raise_damaged(f"{name} has the shape {list(shape)}")
    kind = block_type(cursor.read_unsigned(4), name, path)
    if shape[-1] % kind.elements:
        cursor.raise_damaged(f"a row of {name} has {shape[-1]} elements; {kind.name} takes runs of "
                      f"{kind.elements}")  # fmt: skip
    nbytes = prod(shape) // kind.elements * kind.nbytes
    return GgufTensor(name, kind, shape, nbytes, path, cursor.read_unsigned(8))


def _alignment(path: Path, metadata: Mapping[str, object]) -> int:
    value = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(value, int) or not 1 <= value <= _LARGEST_ALIGNMENT or value & (value - 1):
        raise_damaged(path, f"general.alignment is {shorten_value(value)}, not a power of two")
    return value


def _tensor_headers(
    path: Path, table_entries: list[GgufTensor], start: int, alignment: int, file_size: int
) -> dict[str, GgufTensor]:
    tensors: dict[str, GgufTensor] = {}
    for entry in table_entries:
        name, begin, end = entry.name, start + entry.offset, start + entry.offset + entry.nbytes
        if name in tensors:
            raise_damaged(path, Words("the tensor {name} is there twice", name=name))
        if entry.offset % alignment:
            raise_damaged(path, f"{name} begins at {entry.offset}, not a multiple of {alignment}")
        if end > file_size:
            words = Words(
                "{name} should end at byte {end} of {size}: cut short",
                name=name,
                end=end,
                size=file_size,
            )
            raise_damaged(path, words)
        tensors[name] = replace(entry, offset=begin)
    in_order = sorted(tensors.values(), key=lambda tensor: tensor.offset)
    for before, after in pairwise(in_order):
        if before.offset + before.nbytes > after.offset:
            words = Words(
                "{name} and {after_name} overlap", name=before.name, after_name=after.name
            )
            raise_damaged(path, words)
    return tensors
