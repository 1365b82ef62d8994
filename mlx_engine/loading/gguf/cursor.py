"""Reads numbers, strings and arrays one after another from a mapped GGUF file, within its bounds.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Nothing is allocated before it is
known that the file is long enough to hold it.
"""

import struct
from collections.abc import Sequence
from mmap import mmap
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from mlx_engine.values.errors import BadModelFile

_MOST_STRINGS = 2**22  # of all arrays of a file: several times the largest vocabulary
_DEEPEST = 4
_LENGTH = struct.Struct("<Q")
_SCALARS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    10: _LENGTH,
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_BOOL, _STRING, _ARRAY = 7, 8, 9
_ELEMENTS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1"} | {
    10: "<u8",
    11: "<i8",
    12: "<f8",
}


class GgufCursor:
    """A place in a mapped file that only moves on; BadModelFile names file and offset."""

    def __init__(self, path: Path, data: mmap) -> None:
        self._path = path
        self._data = data
        self._size = len(data)
        self._strings_left = _MOST_STRINGS
        self.offset = 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self._size - self.offset

    def refuse(self, why: str) -> NoReturn:
        """Raise BadModelFile: at this place the file is not what it should be."""
        raise BadModelFile(
            f"{self._path}: damaged at byte {self.offset}, {why}. Download the file again."
        )

    def u32(self) -> int:
        """An unsigned number of 32 bits."""
        return int(self._scalar(_SCALARS[4]))

    def u64(self) -> int:
        """An unsigned number of 64 bits."""
        return int(self._scalar(_LENGTH))

    def string(self, most: int | None = None) -> str:
        """A length and that many bytes of UTF-8; most: bytes allowed."""
        length = self.u64()
        if length > self.left:
            self.refuse(f"a text of {length} bytes where {self.left} are left")
        if most is not None and length > most:
            self.refuse(f"a name of {length} bytes, more than {most}")
        raw = self._data[self.offset : self.offset + length]
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self.refuse("a text that is not UTF-8")
        self.offset += length
        return text

    def value(self, depth: int = 0) -> object:
        """The number of a type, and a value of that type."""
        kind = self.u32()
        if kind == _STRING:
            return self.string()
        if kind == _BOOL:
            return self._flag()
        if kind == _ARRAY:
            return self._array(depth)
        if kind not in _SCALARS:
            self.refuse(f"a value of the unknown type {kind}")
        return self._scalar(_SCALARS[kind])

    def _scalar(self, form: struct.Struct) -> int | float:
        if form.size > self.left:
            self.refuse("the file is cut short")
        value: int | float = form.unpack_from(self._data, self.offset)[0]
        self.offset += form.size
        return value

    def _flag(self) -> bool:
        byte = self._scalar(_SCALARS[0])
        if byte > 1:
            self.refuse(f"{byte} where 0 or 1 belongs")
        return byte == 1

    def _array(self, depth: int) -> NDArray[np.generic] | Sequence[object]:
        kind, count = self.u32(), self.u64()
        if kind in _ELEMENTS:
            return self._numbers(np.dtype(_ELEMENTS[kind]), count)
        if kind not in (_STRING, _ARRAY):
            self.refuse(f"an array of the unknown type {kind}")
        if count > min(self.left // _LENGTH.size, self._strings_left):
            self.refuse(f"an array of {count} items where {self.left} bytes are left")
        self._strings_left -= count
        if kind == _STRING:
            return [self.string() for _ in range(count)]
        if depth == _DEEPEST:
            self.refuse(f"arrays inside arrays, more than {_DEEPEST} deep")
        return [self._array(depth + 1) for _ in range(count)]

    def _numbers(self, dtype: np.dtype[np.generic], count: int) -> NDArray[np.generic]:
        """A view of the file, so even a large array costs nothing."""
        if count > self.left // dtype.itemsize:
            self.refuse(f"an array of {count} numbers where {self.left} bytes are left")
        numbers = np.frombuffer(self._data, dtype, count, self.offset)
        self.offset += count * dtype.itemsize
        return numbers
