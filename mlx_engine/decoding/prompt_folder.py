"""The folder of what conversations have read: which files there are, whose they are, their bound.

It needs no MLX, so that what is kept can be told and thrown away without a model. Nothing is
remembered between two calls: several programs may use a folder, and any file may be gone. A file
that is still written has a name of its own until it is whole; whoever removes that ends its
writing.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from time import time, time_ns
from typing import Literal, NamedTuple, cast

from mlx_engine.values.private_files import make_private, make_private_folder

LEFT_OVER_S = 3600
"""Seconds after which nobody writes any more what is not whole, or not there."""

Kind = Literal["rows", "states"]

_NAME = re.compile(
    r"(\d+)-([0-9a-f]{40})-([0-9a-f]{16})-([0-9a-f]{40})\.(rows|states)\.safetensors"
)
_OURS = re.compile(r"\d+-[0-9a-f-]{57,}(\.\w+)?\.(safetensors|part)|[0-9a-f]{40}\.(chat|part)")
"""These too: what earlier versions wrote, files that are not whole, and lists."""


class Piece(NamedTuple):
    """A file. end: tokens at the place it is of. key: of these tokens, and of all that was asked
    for. way: what computed it. checksum: of its bytes, "" before it is whole.
    """

    end: int
    key: str
    way: str
    kind: Kind
    checksum: str = ""

    @property
    def name(self) -> str:
        """Of the file."""
        end = f"-{self.checksum}.{self.kind}.safetensors" if self.checksum else f".{self.kind}.part"
        return self.place + end

    @property
    def place(self) -> str:
        """The place, as lists know it."""
        return f"{self.end}-{self.key}-{self.way}"


class PromptFolder:
    """Raises OSError where the folder cannot be used; a file that cannot be removed is left."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make it, for its owner alone, and clear what was left over."""
        make_private_folder(self.path)
        for path in self._ours():
            make_private(path)
            is_used = path.suffix == ".chat" or _NAME.fullmatch(path.name)
            if not is_used and _is_left_over(path):
                self._unlink(path)

    def pieces(self) -> list[Piece]:
        """All that are whole; none where there is no folder."""
        found = [_NAME.fullmatch(path.name) for path in self._ours()]
        return [Piece(int(i[1]), i[2], i[3], cast(Kind, i[5]), i[4]) for i in found if i]

    @property
    def nbytes(self) -> int:
        """Of all files together."""
        return sum(size for _, size, _ in self._by_age())

    def size(self, piece: Piece) -> int:
        """Bytes of a file, 0 where it is not there."""
        with suppress(OSError):
            return (self.path / piece.name).stat().st_size
        return 0

    def touch(self, pieces: Iterable[Piece]) -> None:
        """They are in use, all of them alike."""
        now = time_ns()
        for piece in pieces:
            with suppress(OSError):
                os.utime(self.path / piece.name, ns=(now, now))

    def remove(self, pieces: Iterable[Piece]) -> None:
        """Whole or not."""
        for piece in pieces:
            self._unlink(self.path / piece.name)

    def remove_place(self, piece: Piece) -> None:
        """With what else is of the same place."""
        self.remove([other for other in self.pieces() if other.place == piece.place])

    def keep_within(self, most: int) -> None:
        """Remove the least recently used, of a chain the last first, until there are no more bytes;
        and lists of what is gone. With 0 nothing stays.
        """
        if not most:
            self.forget_all()
        found = self._by_age()
        total = sum(size for _, size, _ in found)
        for _, size, piece in found:
            if total <= most:
                break
            self.remove([piece])
            total -= size
        there = {piece.place for piece in self.pieces()}
        for path in self._lists():
            if there.isdisjoint(_lines(path)) and _is_left_over(path):
                self._unlink(path)

    # whose they are

    def note(self, chat: str, places: Iterable[str]) -> None:
        """The chat of this name has read up to these places."""
        path = self._list_of(chat)
        new = [place for place in dict.fromkeys(places) if place not in _lines(path)]
        if new:
            descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "a", encoding="ascii") as file:
                file.writelines(f"{place}\n" for place in new)

    def knows(self, chat: str, place: str) -> bool:
        """Whether it was noted, and the chat not forgotten since."""
        return place in _lines(self._list_of(chat))

    def forget(self, chat: str) -> None:
        """Remove what a chat has read, but for beginnings that another has read, too."""
        path = self._list_of(chat)
        its = _lines(path)
        self._unlink(path)
        for other in self._lists():
            its -= _lines(other)
        for file in self._ours():
            if any(file.name.startswith(place) for place in its):
                self._unlink(file)

    def forget_all(self) -> None:
        """Remove every file of ours, those too that are being written."""
        for path in self._ours():
            self._unlink(path)

    def _list_of(self, chat: str) -> Path:
        return self.path / f"{hashlib.sha256(chat.encode()).hexdigest()[:40]}.chat"

    def _lists(self) -> Iterator[Path]:
        return (path for path in self._ours() if path.suffix == ".chat")

    def _ours(self) -> list[Path]:
        with suppress(OSError):
            return [path for path in self.path.iterdir() if _OURS.fullmatch(path.name)]
        return []

    def _by_age(self) -> list[tuple[tuple[int, int], int, Piece]]:
        found = []
        for piece in self.pieces():
            with suppress(OSError):
                its = (self.path / piece.name).stat()
                found.append(((its.st_mtime_ns, -piece.end), its.st_size, piece))
        return sorted(found)

    def _unlink(self, path: Path) -> None:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _is_left_over(path: Path) -> bool:
    with suppress(OSError):
        return path.stat().st_mtime < time() - LEFT_OVER_S
    return False


def _lines(path: Path) -> set[str]:
    with suppress(OSError, ValueError):
        return set(path.read_text(encoding="ascii").split())
    return set()
