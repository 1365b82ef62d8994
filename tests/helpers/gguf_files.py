"""GGUF files written byte by byte, sound or with anything wrong in them."""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

KINDS = {
    np.dtype(np.uint8): 0,
    np.dtype(np.int8): 1,
    np.dtype(np.uint16): 2,
    np.dtype(np.int16): 3,
    np.dtype(np.uint32): 4,
    np.dtype(np.int32): 5,
    np.dtype(np.float32): 6,
    np.dtype(np.bool_): 7,
    np.dtype(np.uint64): 10,
    np.dtype(np.int64): 11,
    np.dtype(np.float64): 12,
}


class RawTensor(NamedTuple):
    """shape: as in NumPy; offset None: right behind the tensor before, aligned."""

    name: str | bytes
    type: int
    shape: Sequence[int]
    data: bytes
    offset: int | None = None


class RawValue(NamedTuple):
    """A metadata value as it stands in the file, its type included."""

    data: bytes


def text_bytes(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed_value(value: object) -> bytes:
    """Type and value. NumPy scalars and arrays keep theirs; int is uint32, float is float32."""
    if isinstance(value, RawValue):
        return value.data
    if isinstance(value, str):
        return struct.pack("<I", 8) + text_bytes(value)
    if isinstance(value, list):
        return struct.pack("<I", 9) + _list_bytes(value)
    return _number_bytes(value)


def _list_bytes(value: list) -> bytes:
    if value and isinstance(value[0], list):
        return struct.pack("<IQ", 9, len(value)) + b"".join(map(_list_bytes, value))
    return struct.pack("<IQ", 8, len(value)) + b"".join(map(text_bytes, value))


def _number_bytes(value: object) -> bytes:
    plain = {bool: np.bool_, int: np.uint32, float: np.float32}.get(type(value))
    number = np.asarray(value, plain)
    kind = KINDS[number.dtype]
    if number.ndim == 0:
        return struct.pack("<I", kind) + number.tobytes()
    return struct.pack("<IIQ", 9, kind, len(number)) + number.tobytes()


def gguf_bytes(
    metadata: Mapping[str | bytes, object],
    tensors: Sequence[RawTensor] = (),
    *,
    version: int = 3,
    tensor_count: int | None = None,
    pair_count: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A whole file."""
    head = [
        b"GGUF",
        struct.pack("<I", version),
        struct.pack("<Q", len(tensors) if tensor_count is None else tensor_count),
        struct.pack("<Q", len(metadata) if pair_count is None else pair_count),
        *(text_bytes(key) + typed_value(value) for key, value in metadata.items()),
    ]
    data = b""
    for tensor in tensors:
        data += bytes(-len(data) % alignment)
        shape = [*reversed(tensor.shape)]
        head.append(text_bytes(tensor.name) + struct.pack("<I", len(shape)))
        head.append(struct.pack(f"<{len(shape)}QI", *shape, tensor.type))
        head.append(struct.pack("<Q", len(data) if tensor.offset is None else tensor.offset))
        data += tensor.data
    header = b"".join(head)
    return header + bytes(-len(header) % alignment) + data
