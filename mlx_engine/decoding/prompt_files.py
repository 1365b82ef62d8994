"""What conversations have read, in files of one folder: it survives the program.

Of a place there are two files (safetensors): rows of keys and values since the place before it, its
parent, which never change; and states, windows and what drafts, whole. So a beginning that several
chats share is there once, and states of a place that a chat has left far behind can go, whose rows
later places need. A name tells the tokens of a place, a key made of these tokens, of the model, of
formats and of the draft source, what computed the rows, and a checksum of all bytes in the file: so
nothing is taken for what it is not.

An answer is followed by one place, that which the next question goes on from (`PromptWriter`).

The files hold conversations, though no words: whoever can read them and has the model can tell what
was said. They are for their owner alone (mode 0600), and the least recently used go first when they
outgrow their bound.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, cast

import mlx.core as mx
import numpy as np

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.stored import Parts, can_be_stored, is_rows, stored, take_up
from mlx_engine.decoding.prompt_folder import Kind, Piece, PromptFolder
from mlx_engine.decoding.prompt_writer import Content, PromptWriter, kept_in_memory
from mlx_engine.decoding.sequence import WORTH_A_TOKEN, Checkpoint, TokenSequence
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.words import size_words

FORMAT = "headstart-prompt-3"
LEAST_NEW = 32
"""Tokens between two places, at least."""

STATES_KEPT = 2
"""Newest places of a chat that keep their states, beside its first: one to go on from, and the one
before it for the last question to be put otherwise. Others do where their bytes are worth it.
"""


class _Read(NamedTuple):
    arrays: dict[str, mx.array]
    told: dict[str, str]


_Loaded = tuple[dict[str, mx.array], dict[str, str]]


class _Unusable(Exception):
    """Of a file, why."""


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

    computed_by: what the rows of a text depend on beside the model and the format, by name: kernels
    and numerics may change while a model is in use. trouble: why something was not written, until
    something is, or not read the last time; nothing is raised.
    """

    def __init__(
        self,
        folder: Path,
        model: str,
        most_bytes: int,
        computed_by: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._folder = PromptFolder(folder)
        self._model = model
        self._most = most_bytes
        self._computed_by = computed_by
        self._unread: Reason | None = None
        self._writer = PromptWriter(self._folder, most_bytes)
        try:
            self._folder.prepare()
        except OSError as error:
            words = f"{folder} cannot be used ({error.strerror})"
            self._writer.refused(kept_in_memory("prompt-files-folder", words))
        self._folder.keep_within(most_bytes)

    @property
    def trouble(self) -> Reason | None:
        """First of what could not be written."""
        return self._writer.trouble or self._unread

    @property
    def way(self) -> str:
        """What would compute rows now, in short."""
        told = json.dumps(dict(self._computed_by()), sort_keys=True)
        return hashlib.sha256(f"{FORMAT} {told}".encode()).hexdigest()[:16]

    # reading

    def fill(self, sequence: TokenSequence, wanted: Sequence[int], beyond: int) -> bool:
        """Have the conversation stand at the longest place of these tokens that can be read, if it
        has so many of them; whether it does.
        """
        way, self._unread = self.way, None
        while True:
            found = self._found(sequence, wanted)
            places = [p for p in found if p.kind == "states" and p.end >= beyond]
            others = [p for p in places if p.way != way]
            mine = [p for p in places if p.way == way]
            if not mine or (others and others[-1].end >= mine[-1].end + LEAST_NEW):
                self._tell_of(others)
            if not mine:
                return False
            piece = mine[-1]
            try:
                states, rows = self._chain(piece)
                sequence.shed()
                _take_up(sequence, states, rows, wanted[: piece.end])
            except _Unusable as error:
                self._unread = kept_in_memory("prompt-file-damaged", str(error))
            except (AssertionError, IndexError, KeyError, RuntimeError, ValueError) as error:
                self._folder.remove_place(piece)
                sequence.shed()
                words = f"{piece.name}: is of other layers ({error})"
                self._unread = kept_in_memory("prompt-file-foreign", words)
            else:
                with suppress(OSError):
                    self._note(sequence, [p for p in found if p.way == way and p.end <= piece.end])
                return True

    def _tell_of(self, others: Sequence[Piece]) -> None:
        """The longest of them, computed otherwise, would have been of use."""
        if not others:
            return
        with suppress(_Unusable, ValueError):
            its = json.loads(self._read(others[-1]).told["computed"])
            now = {**self._computed_by(), "format": FORMAT}
            differ = [f"{n} {its.get(n)} (now {its_now})" for n, its_now in now.items()]
            told = [words for n, words in zip(now, differ, strict=True) if its.get(n) != now[n]]
            words = f"What files have of this text was computed otherwise: {', '.join(told)}"
            self._unread = Reason("prompt-file-other", f"{words}. It is read again.")

    def _found(self, sequence: TokenSequence, tokens: Sequence[int]) -> list[Piece]:
        """All that is there of beginnings of these tokens, the shortest first."""
        pieces = self._folder.pieces()
        ends = sorted({piece.end for piece in pieces if piece.end <= len(tokens)})
        keys = self._keys(sequence, tokens, ends)
        return sorted(piece for piece in pieces if keys.get(piece.end) == piece.key)

    def _chain(self, piece: Piece) -> tuple[_Read, list[_Read]]:
        """States, and rows from the beginning to there; a place that is of no use is removed."""
        states = self._read(piece)
        there = {(its.key, its.way): its for its in self._folder.pieces() if its.kind == "rows"}
        rows: list[_Read] = []
        used = [piece]
        parent, end = states.told["rows"], piece.end
        while parent:
            before = there.get((parent, piece.way))
            if before is None or before.end != end or before in used:
                self._folder.remove_place(piece)
                raise _Unusable(f"{piece.name}: what comes before it is gone")
            read = self._read(before)
            rows.insert(0, read)
            used.append(before)
            parent, end = read.told["rows"], int(read.told["start"])
        self._folder.touch(used)
        return states, rows

    def _read(self, piece: Piece) -> _Read:
        path = self._folder.path / piece.name
        try:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest()[:40] != piece.checksum:
                    raise _Unusable(f"{path}: is damaged")
            arrays, told = cast(_Loaded, mx.load(str(path), return_metadata=True))
        except _Unusable:
            self._folder.remove_place(piece)
            raise
        except (OSError, RuntimeError, ValueError) as error:
            self._folder.remove_place(piece)
            raise _Unusable(f"{path}: cannot be read ({error})") from error
        if told.get("key") != piece.key or not {"computed", "rows", "start", "held"} <= set(told):
            self._folder.remove_place(piece)
            raise _Unusable(f"{path}: is of another text or version")
        return _Read(arrays, told)

    # writing

    def save(self, sequence: TokenSequence, goes_on: int) -> None:
        """Put away the place that a next question goes on from which begins with `goes_on` of the
        tokens, and the conversation's first for others to begin with; each unless it is there.
        """
        layers = [layer for caches in _all_caches(sequence) for layer in caches.layers]
        if self._most == 0 or not all(map(can_be_stored, layers)):
            return
        self._writer.look()
        self._writer.drop(sequence)
        try:
            if self._writer.trouble is not None:
                self._folder.prepare()
            for place in (*sequence.checkpoints[:1], sequence.place_for(goes_on)):
                self._put(sequence, place)
        except OSError as error:
            self._writer.refused(self._writer.unwritten(error))

    def wait(self, seconds: float | None = None) -> None:
        """Until all is written, or for so long."""
        self._writer.wait(seconds)

    def close(self) -> None:
        """Write what can be written in a little while, and no more."""
        self._writer.close()

    def _put(self, sequence: TokenSequence, place: Checkpoint) -> None:
        way = self.way
        found = self._found(sequence, sequence.tokens[: place.length])
        here = {p for p in found if p.way == way}
        coming = self._writer.coming
        ends = sorted({piece.end for piece in coming if piece.end <= place.length})
        keys = self._keys(sequence, sequence.tokens, [*ends, place.length])
        here |= {p for p in coming if p.way == way and keys.get(p.end) == p.key}
        states = sorted(p for p in here if p.kind == "states")
        self._note(sequence, here)
        since = place.length - (states[-1].end if states else 0)
        if place.source is None or since < LEAST_NEW:
            return
        before = max((p for p in here if p.kind == "rows"), default=None)
        contents = self._contents(sequence, place, before, keys[place.length], way)
        size = sum(array.nbytes for its in contents for array in its.arrays.values())
        if size > self._most:
            words = f"What a chat has read takes {size_words(size)}, more than all files may"
            self._writer.refused(kept_in_memory("prompt-files-small", words))
            return
        self._writer.check_room(size)
        mx.eval([array for its in contents for array in its.arrays.values()])
        self._note(sequence, [its.piece for its in contents])
        self._writer.write(sequence, contents, self._left(states), here)

    def _left(self, states: Sequence[Piece]) -> list[Piece]:
        """Of a chat's places, in order, those that take more than they save somebody to read who
        comes back to them. Without recurrent layers and windows none do.
        """
        left, before = [], states[0].end if states else 0
        for piece in states[1 : 1 - STATES_KEPT]:
            if self._folder.size(piece) > WORTH_A_TOKEN * (piece.end - before):
                left.append(piece)
            else:
                before = piece.end
        return left

    def _contents(
        self, sequence: TokenSequence, place: Checkpoint, before: Piece | None, key: str, way: str
    ) -> list[Content]:
        """Files of a place, rows first, whose arrays are copies or never change."""
        assert place.source is not None
        start = 0 if before is None else before.end
        arrays = _arrays(sequence, place, start)
        told = {
            "key": key,
            "computed": json.dumps({**self._computed_by(), "format": FORMAT}),
            "start": str(start),
            "rows": "" if before is None else before.key,
            "held": " ".join(str(caches.length) for caches in place.source.caches),
        }
        contents = []
        if arrays["rows"]:
            contents.append(Content(Piece(place.length, key, way, "rows"), arrays["rows"], told))
            told = {**told, "rows": key}
        contents.append(Content(Piece(place.length, key, way, "states"), arrays["states"], told))
        return contents

    def _note(self, sequence: TokenSequence, pieces: Iterable[Piece]) -> None:
        if sequence.chat is not None:
            self._folder.note(sequence.chat, sorted({piece.place for piece in pieces}))

    def _keys(
        self, sequence: TokenSequence, tokens: Sequence[int], ends: Iterable[int]
    ) -> dict[int, str]:
        """By number of tokens, in order: of so many, and of all that was asked for."""
        cache, source = sequence.cache, sequence.source
        kind = f"{type(source).__name__} {source.options.source}"
        digest = hashlib.sha256(f"{self._model} {cache.bits} {cache.head_bits} {kind} ".encode())
        data, done, keys = np.array(tokens, dtype=np.int32), 0, dict[int, str]()
        for end in ends:
            digest.update(data[done:end].tobytes())
            keys[end], done = digest.hexdigest()[:40], end
        return keys


def _all_caches(sequence: TokenSequence) -> tuple[LayerCaches, ...]:
    return (sequence.caches, *sequence.source.held)


def _arrays(
    sequence: TokenSequence, place: Checkpoint, start: int
) -> dict[Kind, dict[str, mx.array]]:
    """Of a place, by memory, layer and part. Of heads all rows: they are few beside the trunk's."""
    assert place.source is not None
    arrays: dict[Kind, dict[str, mx.array]] = {"rows": {}, "states": {}}
    places = (place.caches, *place.source.caches)
    for number, (caches, its) in enumerate(zip(_all_caches(sequence), places, strict=True)):
        for layer, (cache, at) in enumerate(zip(caches.layers, its.layers, strict=True)):
            kind: Kind = "rows" if number == 0 and is_rows(cache) else "states"
            begin = start if kind == "rows" else 0
            for part, array in enumerate(stored(cache, at, begin) if at.length > begin else ()):
                arrays[kind][f"{number}.{layer}.{part}"] = mx.contiguous(array)
    if place.source.newest is not None:
        arrays["states"]["newest"] = mx.contiguous(place.source.newest)
    return arrays


def _take_up(
    sequence: TokenSequence, states: _Read, rows: Sequence[_Read], tokens: Sequence[int]
) -> None:
    """Have an empty conversation stand after these tokens, from its files."""
    lengths = [len(tokens), *(int(length) for length in states.told["held"].split())]
    for number, caches in enumerate(_all_caches(sequence)):
        for layer, cache in enumerate(caches.layers):
            pieces = rows if number == 0 and is_rows(cache) else [states]
            parts = [_parts(read, f"{number}.{layer}.") for read in pieces]
            if lengths[number]:
                take_up(cache, lengths[number], parts)
    sequence.begin_at(tokens, states.arrays.get("newest"))


def _parts(read: _Read, beginning: str) -> Parts:
    names = [name for name in read.arrays if name.startswith(beginning)]
    return [read.arrays[name] for name in sorted(names)]


def prompt_files(
    options: LoadOptions, path: str, computed_by: Callable[[], Mapping[str, str]]
) -> PromptFiles | None:
    """Of a model that was loaded from `path`, where they are wanted and its weights can be told
    from others.
    """
    if options.prompt_files is None:
        return None
    try:
        heads = "" if options.heads is None else fingerprint(options.heads)
        model = f"{fingerprint(Path(path))} {heads} {options.head_bits} {options.draft_model}"
    except OSError:
        return None  # what was loaded from there is gone by now
    return PromptFiles(options.prompt_files, model, options.prompt_files_bytes, computed_by)
