"""GGUF files written byte by byte, sound or with anything wrong in them, and a sample of them."""

import struct
from collections.abc import Mapping, Sequence
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlx_engine.loading.gguf.header import parse_gguf_header
from mlx_engine.values.errors import EngineError

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


SAMPLE = gguf_bytes(
    {
        "general.architecture": "qwen35",
        "general.alignment": 32,
        "a": np.uint64(2**40),
        "b": np.float32(0.5),
        "c": True,
        "words": ["one", "", "\u0120two"],
        "numbers": np.arange(6, dtype=np.int32),
        "flags": np.array([True, False]),
        "nested": [["x"], ["y"]],
    },
    [
        RawTensor("w.weight", 0, (2, 8), bytes(64)),
        RawTensor("q.weight", 8, (2, 64), bytes(136)),
        RawTensor("k.weight", 13, (256,), bytes(64) + bytes(112)),
    ],
)
"""With everything in it."""


def survives(content: bytes) -> bool:
    """Reads or refuses; True when it was read. All that is read lies inside the file."""
    path = Path("mutated.gguf")
    with mmap(-1, len(content)) as data:
        data[:] = content
        try:
            header = parse_gguf_header(path, data)
        except EngineError as error:
            assert path.name in str(error)
            return False
        ends = [tensor.offset + tensor.nbytes for tensor in header.tensors.values()]
        assert max(ends, default=0) <= len(content)
        assert sum(tensor.rows_as_bytes(data).nbytes for tensor in header.tensors.values()) <= len(
            content
        )
        del header
    return True
