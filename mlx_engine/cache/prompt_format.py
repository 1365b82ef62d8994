"""The contents of a saved prompt's file, as safetensors (huggingface.co/docs/safetensors).

Arrays are named "caches.layer.part". Of the trunk's keys and values a file holds the rows after
those of the file that it continues; of all other caches the state at the end of the prompt.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import mlx.core as mx

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.compressed import CompressedCache
from mlx_engine.cache.contract import CachesSnapshot, LayerCache, LayerCaches, LayerSnapshot
from mlx_engine.cache.prompt_folder import SavedPrompt, delete_files
from mlx_engine.cache.recurrent import RecurrentCache, RecurrentSnapshot
from mlx_engine.cache.window import WindowCache, WindowSnapshot
from mlx_engine.values.private_files import FILE_MODE

UNFIT = (AssertionError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""Errors of reading a damaged file, or a file of other layers."""

_STORED = (AttentionCache, WindowCache, CompressedCache, RecurrentCache)
_DTYPES = {
    mx.float32: "F32",
    mx.float16: "F16",
    mx.bfloat16: "BF16",
    mx.uint32: "U32",
    mx.int32: "I32",
}
"""Names in safetensors of the types of caches' arrays."""

Arrays = dict[str, mx.array]


class CacheState(NamedTuple):
    """State of a conversation's caches after `length` tokens, to be saved to a file.

    places: snapshots of the main model's caches and each of the drafter's. newest: the hidden state
    [1, 1, H] that the drafter still needs.
    """

    length: int
    places: tuple[CachesSnapshot, ...]
    newest: mx.array | None


class FileContents(NamedTuple):
    """Arrays and metadata of a safetensors file."""

    arrays: Arrays
    metadata: dict[str, str]


class NewFile(NamedTuple):
    """A prompt file to be written: its name without the checksum, and its bytes in pieces."""

    name: SavedPrompt
    pieces: list[bytes | memoryview]

    def write_file(self, folder: Path) -> Path:
        """Write the prompt file under a temporary name, then rename it; return the path. No MLX.

        Raises OSError; nothing is left on disk then.
        """
        part = folder / f"{self.name.file_stem}.part"
        digest = hashlib.sha256(self.name.file_stem.encode())
        try:
            opened = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, FILE_MODE)
            with os.fdopen(opened, "wb") as file:
                for piece in self.pieces:
                    digest.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            name = self.name._replace(checksum=digest.hexdigest()[:40]).name
            return part.rename(folder / name)
        except OSError:
            delete_files([part])
            raise


def can_be_saved(caches: LayerCaches) -> bool:
    """Whether the caches of all layers are of classes that prompt files can hold."""
    return all(type(layer) in _STORED for layer in caches.layers)


def collect_arrays(
    all_caches: Sequence[LayerCaches], state: CacheState, start: int
) -> tuple[Arrays, Arrays]:
    """Collect the arrays of a conversation's caches that a prompt file holds; lazy.

    Returns the main model's keys and values from row `start` on, and all others, by name.
    """
    rows: Arrays = {}
    end_arrays = {} if state.newest is None else {"newest": state.newest}
    for number, (caches, places) in enumerate(zip(all_caches, state.places, strict=True)):
        for layer, (cache, place) in enumerate(zip(caches.layers, places.layers, strict=True)):
            is_chained = _is_split_by_file(number, cache)
            begin = start if is_chained else 0
            parts = _saved_arrays(cache, place, begin) if place.length > begin else []
            into = rows if is_chained else end_arrays
            into |= {f"{number}.{layer}.{part}": array for part, array in enumerate(parts)}
    return rows, end_arrays


def nbytes(arrays: Arrays) -> int:
    """Bytes of all the arrays together, without evaluating them."""
    return sum(array.nbytes for array in arrays.values())


def encode_safetensors(contents: FileContents) -> list[bytes | memoryview]:
    """Encode arrays as a safetensors file, in pieces that share the evaluated arrays' memory."""
    raw = [array.flatten().view(mx.uint8) for array in contents.arrays.values()]
    mx.eval(raw)
    header: dict[str, object] = {"__metadata__": contents.metadata}
    end = 0
    for name, array in contents.arrays.items():
        begin, end = end, end + array.nbytes
        dtype = _DTYPES[array.dtype]
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = [memoryview(array) for array in raw]  # type: ignore[arg-type]
    return [len(text).to_bytes(8, "little") + text, *data]


def read_prompt_file(path: Path) -> FileContents:
    """Read a prompt file after comparing its checksum; its arrays are lazy. Raises UNFIT."""
    stem, _, checksum = path.stem.rpartition("-")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, partial(hashlib.sha256, stem.encode()))
    if digest.hexdigest()[:40] != checksum:
        raise ValueError(f"{path} is damaged")
    return read_unchecked(path)


def read_unchecked(path: Path) -> FileContents:
    """Read a prompt file without comparing its checksum; its arrays are lazy. Raises UNFIT."""
    return FileContents(
        *cast(tuple[Arrays, dict[str, str]], mx.load(str(path), return_metadata=True))
    )


def fill_caches(all_caches: Sequence[LayerCaches], files: Sequence[FileContents]) -> CacheState:
    """Fill empty caches from prompt files that continue each other; return the caches' state.

    Raises UNFIT.
    """
    arrays, metadata = files[-1]
    lengths: list[int] = json.loads(metadata["lengths"])
    for number, (caches, length) in enumerate(zip(all_caches, lengths, strict=True)):
        for layer, cache in enumerate(caches.layers if length else ()):
            parts = []
            for file in files if _is_split_by_file(number, cache) else files[-1:]:
                names = sorted(n for n in file.arrays if n.startswith(f"{number}.{layer}."))
                parts.append([file.arrays[name] for name in names])
            _fill_layer(cache, length, parts)
            if cache.length != length:
                raise ValueError(
                    f"it has {cache.length} rows of layer {layer} in place of {length}"
                )
        mx.eval(caches.arrays())
    places = tuple(caches.snapshot() for caches in all_caches)
    return CacheState(lengths[0], places, arrays.get("newest"))


def _is_split_by_file(number: int, cache: LayerCache) -> bool:
    """Whether files hold only a layer's new rows: keys and values of the main model (caches 0)."""
    return number == 0 and isinstance(cache, AttentionCache)


def _saved_arrays(cache: LayerCache, place: LayerSnapshot, start: int) -> list[mx.array]:
    """Collect the arrays of one layer's cache that a prompt file holds, at a snapshot.

    Keys and values from row `start` on; or a sliding window's first position and rows, and any
    entries that stand for several tokens; or a recurrent layer's convolution window and state.
    """
    if isinstance(cache, AttentionCache):
        return list(cache.rows(start, place.length))
    if isinstance(place, WindowSnapshot):
        entries = cache.entries_at(place.length) if isinstance(cache, CompressedCache) else ()
        return [mx.array([place.first], dtype=mx.int32), *place.rows, *entries]
    assert isinstance(place, RecurrentSnapshot)
    state = place.state if place.replay is None else place.replay.advance_state(place.state)
    return [place.window, state]


def _fill_layer(cache: LayerCache, length: int, files: Sequence[list[mx.array]]) -> None:
    """Fill a layer's empty cache with `length` tokens; files: `_saved_arrays` of each, in order."""
    last = files[-1]
    if isinstance(cache, AttentionCache):
        cache.replace_rows(
            [mx.concatenate(list(side), axis=2) for side in zip(*files, strict=True)]
        )
    elif isinstance(cache, WindowCache):
        first: int = last[0].item()  # type: ignore[assignment]
        keys_and_values = 3 if cache.row_bits == 16 else 7
        cache.restore(WindowSnapshot(length, first, tuple(last[1:keys_and_values])))
        if isinstance(cache, CompressedCache):
            cache.replace_entries(tuple(last[keys_and_values:]))
    else:
        assert isinstance(cache, RecurrentCache)
        cache.restore(RecurrentSnapshot(length, last[0], last[1], None))
