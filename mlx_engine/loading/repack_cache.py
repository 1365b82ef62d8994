"""A folder that caches repacked GGUF tensors for later loads of the same file."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import mlx.core as mx

from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.safetensors import load_arrays, read_header
from mlx_engine.values.errors import BadModelFile, Reason
from mlx_engine.values.words import Words, size_words

_FORMAT = "headstart repacked 3"
"""Format version of cached files; change it whenever repacking changes."""


class RepackCache:
    """Disk cache of GGUF tensors repacked for MLX; its failures become reasons, not errors.

    A cached file is keyed by the GGUF's size, modification time and header (not its path), and by
    how its tensors are repacked. Headers of cached files are checked, their values are trusted.
    half: dtype of floats that are stored in 16 bits, None for the one that suits the file.
    words: a sentence on what was read or written.
    """

    def __init__(self, folder: Path, half: mx.Dtype | None) -> None:
        self._folder, self._half = folder, half
        self.was_read = False
        self.words = ""
        self.reasons: tuple[Reason, ...] = ()

    def read_repacked(self, parts: Mapping[str, GgufPart]) -> dict[str, mx.array] | None:
        """Read the cached MLX arrays of GGUF tensors lazily; None when they are not cached."""
        try:
            path = self._cached_file(parts)
            if not path.is_file():
                return None
            infos = {info.name: info for info in read_header(path)}
            shapes = {name: info.shape for name, info in infos.items()}
            if shapes != {key: part.shape for key, part in parts.items()}:
                raise BadModelFile("{path}: holds other tensors.", path=path)
            arrays = load_arrays(infos)
        except (BadModelFile, OSError) as error:
            words = Words(
                "Repacked weights of an earlier load cannot be used and are made again: {error}",
                error=str(error),
            )
            self.reasons += (Reason("repack-cache-ignored", words),)
            return None
        self.was_read = True
        nbytes = sum(info.nbytes for info in infos.values())
        self.words = f"Repacked weights were read from {path} ({size_words(nbytes)})."
        return arrays

    def write_repacked(self, parts: Mapping[str, GgufPart], arrays: dict[str, mx.array]) -> None:
        """Write arrays repacked from GGUF tensors to the disk cache; a failure becomes a reason."""
        nbytes = sum(array.nbytes for array in arrays.values())
        try:
            path = self._cached_file(parts)
            self._folder.mkdir(parents=True, exist_ok=True)
            if (free := shutil.disk_usage(self._folder).free) < nbytes:
                raise OSError(f"only {size_words(free)} are free")
            _write_atomically(path, arrays)
        except (OSError, RuntimeError) as error:
            words = Words(
                "The repacked weights ({size}) cannot be kept in {folder} ({error}): the next "
                "load will repack again. Make room, or name another folder.",
                size=size_words(nbytes),
                folder=self._folder,
                error=str(error),
            )
            self.reasons += (Reason("repack-cache-not-written", words),)
            return
        size = size_words(nbytes)
        self.words = f"Repacked weights are kept in {path} ({size}) for the next load."

    def _cached_file(self, parts: Mapping[str, GgufPart]) -> Path:
        made = [f"{_FORMAT} {self._half}"]
        made += sorted(
            _gguf_identity(file, parts) for file in {part.file for part in parts.values()}
        )
        for key, part in sorted(parts.items()):
            made.append(f"{key} {part.shape} {part.stored.name} {part.plan} {part.place}")
        digest = hashlib.sha256("\n".join(made).encode()).hexdigest()
        return self._folder / f"{digest[:32]}.safetensors"


def _gguf_identity(file: Path, parts: Mapping[str, GgufPart]) -> str:
    """Identify a GGUF file by size, modification time and a hash of its header."""
    found = file.stat()
    data = min(part.stored.offset for part in parts.values() if part.file == file)
    with file.open("rb") as opened:
        header = hashlib.sha256(opened.read(data)).hexdigest()
    return f"{found.st_size} {found.st_mtime_ns} {header}"


def _write_atomically(path: Path, arrays: dict[str, mx.array]) -> None:
    """Write a file under another name and rename it, so that it is never incomplete."""
    unfinished = path.with_name(f".{path.stem}-{os.getpid()}.safetensors")
    try:
        mx.save_safetensors(str(unfinished), arrays, {"format": "mlx"})
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink()
