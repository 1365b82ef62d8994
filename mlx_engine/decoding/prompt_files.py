"""What conversations have read, in files of one folder: it survives the program.

A file (safetensors) holds what is new of one place since the place before it, its parent: rows of
keys and values from there on, and states and windows whole. Its name says how many tokens the place
has, a key made of these tokens, of the model, of the formats and of the draft source, and a
checksum of all bytes in the file. So a beginning that several chats share is there once, and
nothing is taken for what it is not.

The files hold conversations, though no words: whoever can read them and has the model can tell what
was said. They are for their owner alone (mode 0600), and the least recently used go first when they
outgrow their bound.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, cast

import mlx.core as mx
import numpy as np

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.stored import Parts, can_be_stored, stored, take_up
from mlx_engine.decoding.sequence import Checkpoint, TokenSequence
from mlx_engine.values.errors import Reason

FORMAT = "headstart-prompt-1"
LEAST_NEW = 32
"""Tokens between two files, at least."""

_NAME = re.compile(r"(\d+)-([0-9a-f]{40})-([0-9a-f]{40})\.safetensors")


class _Piece(NamedTuple):
    """A file: the place it ends at, its key, and the checksum of its bytes."""

    end: int
    key: str
    checksum: str

    @property
    def name(self) -> str:
        return f"{self.end}-{self.key}-{self.checksum}.safetensors"


class _Read(NamedTuple):
    arrays: dict[str, mx.array]
    told: dict[str, str]


_Loaded = tuple[dict[str, mx.array], dict[str, str]]


class _Unusable(Exception):
    """Of a file, why."""


class _Summed:
    """A file that is written once, from its beginning, and summed up as it is."""

    closed = False

    def __init__(self, path: Path) -> None:
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "wb")
        self.sum = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        return self._file.write(data)

    def seek(self, place: int, whence: int = 0) -> int:
        return self._file.seek(place, whence)

    def tell(self) -> int:
        return self._file.tell()

    def finish(self) -> str:
        """The checksum, once all is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self.sum.hexdigest()[:40]

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


SAMPLES, SAMPLE_BYTES = 16, 65536


def fingerprint(path: Path) -> str:
    """What a model's file, or all files in its folder, are known by, wherever they lie: sizes, and
    bytes from the beginning, where headers are, and from places all over them. Raises OSError.
    """
    known = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if not file.is_file():
            continue
        size = file.stat().st_size
        known.update(f"{file.name if path.is_dir() else ''} {size} ".encode())
        with file.open("rb") as opened:
            for number in range(SAMPLES):
                opened.seek(size * number // SAMPLES)
                known.update(opened.read(SAMPLE_BYTES))
    return known.hexdigest()


class PromptFiles:
    """model: what its weights are known by (`fingerprint`). most_bytes: of all files together.

    trouble: why something was not read or written, the newest; nothing is raised.
    """

    def __init__(self, folder: Path, model: str, most_bytes: int) -> None:
        self._folder = folder
        self._model = model
        self._most = most_bytes
        self._pieces: dict[str, _Piece] = {}
        self.trouble: Reason | None = None
        self._quiet = False
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in folder.iterdir():
                found = _NAME.fullmatch(path.name)
                if found:
                    self._pieces[found[2]] = _Piece(int(found[1]), found[2], found[3])
                elif path.name.endswith(".part"):
                    path.unlink()
        except OSError as error:
            self._fail("prompt-files-folder", f"{folder} cannot be used ({error.strerror})")
        self._make_room()

    # reading

    def longest(self, sequence: TokenSequence, wanted: Sequence[int]) -> int:
        """How many of these tokens the files have, for a conversation like this one."""
        piece = self._longest(sequence, wanted)
        return 0 if piece is None else piece.end

    def fill(self, sequence: TokenSequence, wanted: Sequence[int]) -> bool:
        """Have the conversation stand at the longest place of these tokens that can be read."""
        while (piece := self._longest(sequence, wanted)) is not None:
            try:
                reads = self._chain(piece)
                sequence.shed()
                _take_up(sequence, reads, wanted[: piece.end])
            except _Unusable as error:
                self._fail("prompt-file-damaged", str(error))
            except (AssertionError, IndexError, KeyError, RuntimeError, ValueError) as error:
                self._remove(piece)
                sequence.shed()
                self._fail("prompt-file-foreign", f"{piece.name}: is of other layers ({error})")
            else:
                return True
        return False

    def _longest(self, sequence: TokenSequence, wanted: Sequence[int]) -> _Piece | None:
        ends = sorted({p.end for p in self._pieces.values() if p.end <= len(wanted)}, reverse=True)
        for end in ends:
            piece = self._pieces.get(self._key(sequence, wanted[:end]))
            if piece is not None and piece.end == end:
                return piece
        return None

    def _chain(self, piece: _Piece) -> list[_Read]:
        """From the beginning to this piece; one that is of no use is removed."""
        reads: list[_Read] = []
        wanted: _Piece | None = piece
        while wanted is not None:
            read = self._read(wanted)
            start, parent = int(read.told["start"]), read.told["parent"]
            reads.insert(0, read)
            if start == 0:
                break
            before = self._pieces.get(parent)
            if before is None or before.end != start or start >= wanted.end:
                self._remove(piece)
                raise _Unusable(f"{piece.name}: what comes before it is gone")
            wanted = before
        for read in reads:  # the beginning last, so that it outlives what builds on it
            with suppress(OSError):
                os.utime(self._folder / read.told["name"])
        return reads

    def _read(self, piece: _Piece) -> _Read:
        path = self._folder / piece.name
        try:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest()[:40] != piece.checksum:
                    raise _Unusable(f"{path}: is damaged")
            arrays, told = cast(_Loaded, mx.load(str(path), return_metadata=True))
        except _Unusable:
            self._remove(piece)
            raise
        except (OSError, RuntimeError, ValueError) as error:
            self._remove(piece)
            raise _Unusable(f"{path}: cannot be read ({error})") from error
        is_ours = told.get("format") == FORMAT and told.get("key") == piece.key
        if not is_ours or not {"start", "parent", "held"} <= set(told):
            self._remove(piece)
            raise _Unusable(f"{path}: is of another version")
        return _Read(arrays, {**told, "name": piece.name})

    # writing

    def save(self, sequence: TokenSequence) -> None:
        """Put away where the conversation stands, and its first and newest checkpoint for others
        to begin with; each unless it is there.
        """
        layers = [layer for caches in _all_caches(sequence) for layer in caches.layers]
        if self._quiet or self._most == 0 or not all(map(can_be_stored, layers)):
            return
        first_and_last = (*sequence.checkpoints[:1], *sequence.checkpoints[-1:])
        for place in (*first_and_last, sequence.here()):
            before = self._longest(sequence, sequence.tokens[: place.length])
            start = 0 if before is None else before.end
            if place.source is not None and place.length - start >= LEAST_NEW:
                self._write(sequence, place, before)
        self._make_room()

    def _write(self, sequence: TokenSequence, place: Checkpoint, before: _Piece | None) -> None:
        start = 0 if before is None else before.end
        key = self._key(sequence, sequence.tokens[: place.length])
        told = {"format": FORMAT, "key": key, "start": str(start)}
        told["parent"] = "" if before is None else before.key
        assert place.source is not None
        told["held"] = " ".join(str(caches.length) for caches in place.source.caches)
        path = self._folder / f"{key}.part"
        file = None
        try:
            path.unlink(missing_ok=True)
            file = _Summed(path)
            mx.save_safetensors(file, _arrays(sequence, place, start), told)  # type: ignore[arg-type]
            piece = _Piece(place.length, key, file.finish())
            path.replace(self._folder / piece.name)
        except (OSError, RuntimeError) as error:
            self._quiet = True  # until the program starts again
            self._fail("prompt-files-unwritten", f"{self._folder} takes no more ({error})")
            with suppress(OSError):
                path.unlink(missing_ok=True)
        else:
            self._pieces[key] = piece
        finally:
            if file is not None:
                file.close()

    def _make_room(self) -> None:
        """Remove the least recently used until the rest is within the bound."""
        found = []
        for piece in self._pieces.values():
            with suppress(OSError):
                its = (self._folder / piece.name).stat()
                found.append((its.st_mtime_ns, -piece.end, its.st_size, piece))
        total = sum(size for _, _, size, _ in found)
        for _, _, size, piece in sorted(found):
            if total <= self._most:
                return
            self._remove(piece)
            total -= size

    def _remove(self, piece: _Piece) -> None:
        self._pieces.pop(piece.key, None)
        with suppress(OSError):
            (self._folder / piece.name).unlink(missing_ok=True)

    def _fail(self, code: str, words: str) -> None:
        self.trouble = Reason(code, f"{words}: what was read is kept in memory only.")

    def _key(self, sequence: TokenSequence, tokens: Sequence[int]) -> str:
        """Of the tokens, and of all that what is read of them depends on."""
        cache, source = sequence.cache, sequence.source
        kind = f"{type(source).__name__} {source.options.source}"
        depends = f"{FORMAT} {version('mlx')} {self._model} {cache.bits} {cache.head_bits} {kind} "
        data = depends.encode() + np.array(tokens, dtype=np.int32).tobytes()
        return hashlib.sha256(data).hexdigest()[:40]


def _all_caches(sequence: TokenSequence) -> tuple[LayerCaches, ...]:
    return (sequence.caches, *sequence.source.held)


def _arrays(sequence: TokenSequence, place: Checkpoint, start: int) -> dict[str, mx.array]:
    """By which memory, layer and part. Of heads all rows: they are few beside the trunk's."""
    assert place.source is not None
    arrays: dict[str, mx.array] = {}
    places = (place.caches, *place.source.caches)
    for number, (caches, its) in enumerate(zip(_all_caches(sequence), places, strict=True)):
        begin = start if number == 0 else 0
        for layer, (cache, at) in enumerate(zip(caches.layers, its.layers, strict=True)):
            for part, array in enumerate(stored(cache, at, begin) if at.length else ()):
                arrays[f"{number}.{layer}.{part}"] = array
    if place.source.newest is not None:
        arrays["newest"] = place.source.newest
    return arrays


def _take_up(sequence: TokenSequence, reads: Sequence[_Read], tokens: Sequence[int]) -> None:
    """Have an empty conversation stand after these tokens, from a chain of files."""
    told = reads[-1].told
    lengths = [len(tokens), *(int(length) for length in told["held"].split())]
    for number, caches in enumerate(_all_caches(sequence)):
        pieces = reads if number == 0 else reads[-1:]
        for layer, cache in enumerate(caches.layers):
            parts = [_parts(read, f"{number}.{layer}.") for read in pieces]
            if lengths[number]:
                take_up(cache, lengths[number], parts)
    sequence.begin_at(tokens, reads[-1].arrays.get("newest"))


def _parts(read: _Read, beginning: str) -> Parts:
    names = [name for name in read.arrays if name.startswith(beginning)]
    return [read.arrays[name] for name in sorted(names)]
