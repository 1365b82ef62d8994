"""Safetensors files: tensor headers, checked by the `safetensors` library, and lazy MLX arrays.

Format: 8 bytes little-endian length n, n bytes of JSON, then the data
(https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from safetensors import SafetensorError, safe_open

from mlx_engine.loading.no_model import describe_wrong_file
from mlx_engine.values.errors import BadModelFile, UnsupportedModel, why_not_read
from mlx_engine.values.untrusted import open_regular
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    import mlx.core as mx

_LENGTH_BYTES = 8
_MOST_DIMENSIONS = 8
_MOST_TENSORS = 2**18  # the largest models have as many experts, in 60 files
_LONGEST_NAME = 300
_SAMPLES = 256
_SAMPLE_BYTES = 4096

BYTES_OF = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
    "F8_E4M3": 1,
    "F8_E8M0": 1,
    "C64": 8,
}
"""Element types that can be loaded, by the format's names -> bytes of an element."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Name, dtype, shape, bytes and file of a stored tensor; dtype as in safetensors ("BF16")."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    file: Path


class Float64Tensor(TensorInfo):
    """Header of a float64 tensor that is loaded as float32; dtype and nbytes are of the float32."""


def read_header(path: Path) -> tuple[TensorInfo, ...]:
    """Read name, dtype and shape of every tensor in a safetensors file, without the data.

    Raises BadModelFile for a header that is damaged or does not fit the file's length,
    UnsupportedModel for element types that cannot be loaded.
    """
    start = b""
    try:
        with open_regular(path) as file:
            start = file.read(4 * _LENGTH_BYTES)
            with safe_open(path, framework="np") as header:
                names = header.keys()
                if len(names) > _MOST_TENSORS:
                    raise_damaged(
                        path, f"its header names {len(names)} tensors, more than {_MOST_TENSORS}"
                    )
                slices = ((name, header.get_slice(name)) for name in names)
                return tuple(
                    _tensor_info(path, name, s.get_dtype(), s.get_shape()) for name, s in slices
                )
    except OSError as error:
        raise BadModelFile(why_not_read(path, error)) from error
    except SafetensorError as error:
        if (other := describe_wrong_file(start)) is not None:
            raise_damaged(path, Words("it is {other}", other=other))
        raise_damaged(
            path,
            Words("a part of it is missing or wrong ({error})", error=shorten_value(str(error))),
        )


def merge_headers(paths: Iterable[Path]) -> dict[str, TensorInfo]:
    """Read tensor headers of several safetensors files, by tensor name.

    Raises BadModelFile for duplicates."""
    merged: dict[str, TensorInfo] = {}
    for path in paths:
        for info in read_header(path):
            if info.name in merged:
                raise BadModelFile(
                    "{path}: {name} is also in {file_name}. Two versions "
                    "of a model were put into one folder: keep one of them.",
                    path=path,
                    name=info.name,
                    file_name=merged[info.name].file.name,
                )
            merged[info.name] = info
        if len(merged) > 2 * _MOST_TENSORS:
            raise_damaged(path, f"with the files before it there are {len(merged)} tensors")
    return merged


def load_arrays(tensors: Mapping[str, TensorInfo]) -> dict[str, mx.array]:
    """Load tensors of safetensors files as lazy MLX arrays, by the keys of `tensors`.

    Raises BadModelFile when a file cannot be opened or has changed.
    """
    files = {file: _open_safetensors(file) for file in {info.file for info in tensors.values()}}
    return {key: _cast_array(files[info.file], info) for key, info in tensors.items()}


def data_offsets(file: Path) -> dict[str, int]:
    """Offsets in a safetensors file, in bytes, at which the data of tensors begin, by name."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        entries: dict[str, dict[str, list[int]]] = json.loads(stream.read(length))
    entries.pop("__metadata__", None)
    start = _LENGTH_BYTES + length
    return {name: start + entry["data_offsets"][0] for name, entry in entries.items()}


def samples_equal(first: TensorInfo, second: TensorInfo | None) -> bool:
    """Whether samples of two stored tensors' bytes are equal; False for assembled tensors."""
    if type(first) is not TensorInfo or type(second) is not TensorInfo:
        return False
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    try:
        return all(
            a == b for a, b in zip(_sampled_bytes(first), _sampled_bytes(second), strict=True)
        )
    except OSError:
        return False


def _tensor_info(path: Path, name: str, dtype: str, shape: list[int]) -> TensorInfo:
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise_damaged(path, f"it has a tensor named {shorten_value(name)}")
    if len(shape) > _MOST_DIMENSIONS:
        raise_damaged(path, f"{name} has {len(shape)} dimensions")
    if dtype not in BYTES_OF:
        raise UnsupportedModel(
            "{path}: {name} is stored as {dtype}, which this version does not run. Take an "
            "MLX conversion of the model, or the original in 16 bits.",
            path=path,
            name=name,
            dtype=dtype,
        )
    if dtype == "F64":
        return Float64Tensor(name, "F32", tuple(shape), 4 * prod(shape), path)
    return TensorInfo(name, dtype, tuple(shape), prod(shape) * BYTES_OF[dtype], path)


def shorten_value(value: object) -> str:
    """Format a value read from a file for an error message, cut to a short length."""
    return ascii(value)[:80]


def raise_damaged(path: Path, damage_reason: str) -> NoReturn:
    """Raise BadModelFile for a damaged safetensors file; damage_reason: what is wrong."""
    raise BadModelFile(
        "{path}: damaged, {why}. Download the file again.", path=path, why=damage_reason
    )


def _open_safetensors(file: Path) -> dict[str, mx.array]:
    import mlx.core as mx

    try:
        if str(file).isprintable():
            loaded = mx.load(str(file))
        else:  # MLX takes only paths in UTF-8
            with file.open("rb") as opened:
                loaded = mx.load(f"/dev/fd/{opened.fileno()}", format="safetensors")
    except (RuntimeError, ValueError) as error:
        if any(isinstance(info, Float64Tensor) for info in read_header(file)):
            return _load_float64_file(file)
        raise BadModelFile(
            "{file}: cannot be loaded ({error}).", file=file, error=str(error)
        ) from error
    assert isinstance(loaded, dict)
    return loaded


def _load_float64_file(file: Path) -> dict[str, mx.array]:
    """Read a safetensors file with float64 tensors as float32 arrays; MLX cannot open it."""
    import mlx.core as mx
    import numpy as np

    kinds = dict.fromkeys(("U8", "F8_E4M3", "F8_E8M0"), mx.uint8) | {
        **{"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16, "BOOL": mx.bool_},
        **{"I64": mx.int64, "I32": mx.int32, "I16": mx.int16, "I8": mx.int8},
        **{"U64": mx.uint64, "U32": mx.uint32, "U16": mx.uint16, "C64": mx.complex64},
    }
    arrays = {}
    with file.open("rb") as stream, np.errstate(over="ignore"):
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        entries = json.loads(stream.read(length))
        entries.pop("__metadata__", None)
        for name, entry in entries.items():
            begin, end = entry["data_offsets"]
            stream.seek(_LENGTH_BYTES + length + begin)
            raw, dtype = stream.read(end - begin), entry["dtype"]
            if dtype == "F64":
                flat = mx.array(np.frombuffer(raw, "<f8").astype(np.float32))
            else:
                flat = mx.array(np.frombuffer(raw, np.uint8)).view(kinds[dtype])
            arrays[name] = flat.reshape(entry["shape"])
    return arrays


def _cast_array(loaded_arrays: Mapping[str, mx.array], tensor_info: TensorInfo) -> mx.array:
    array = loaded_arrays.get(tensor_info.name)
    if array is None or array.shape != tensor_info.shape:
        raise BadModelFile(
            "{file}: changed while it was being opened. Try again.", file=tensor_info.file
        )
    return array


def _sampled_bytes(tensor_info: TensorInfo) -> Iterator[bytes]:
    """Yield up to _SAMPLES runs of a tensor's bytes at even distances."""
    begin = data_offsets(tensor_info.file)[tensor_info.name]
    with tensor_info.file.open("rb") as file:
        step = max(_SAMPLE_BYTES, tensor_info.nbytes // _SAMPLES)
        for start in range(0, tensor_info.nbytes, step):
            file.seek(begin + start)
            yield file.read(min(_SAMPLE_BYTES, tensor_info.nbytes - start))
