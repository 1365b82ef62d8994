"""The folder of saved prompts: its files, the chats that use them, and its size limit.

A file of a chat lies in a folder of that chat; a file that several chats use has a hard link in the
folder of each. So a deleted chat takes along what no other chat needs. File names tell all that a
search needs. Nothing is remembered between two calls: several programs may use the folder, and any
file may disappear. No MLX here: an app shows and clears the folder without a model.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import NamedTuple

from mlx_engine.values.private_files import FOLDER_MODE, make_private_folder

_NAME = re.compile(r"(\d+)-(\d+)-([0-9a-f]{40})-([0-9a-f]{16})-(\d)-([0-9a-f]{40})\.safetensors")
_CHAT = "[0-9a-f]" * 40
_OLD = re.compile(r"\d+-[0-9a-f-]{57,}(\.\w+)?\.(safetensors|part)|[0-9a-f]{40}\.(chat|part)")
"""Files of earlier formats, which lay in the folder itself."""


class SavedPrompt(NamedTuple):
    """The name of a file, which holds rows `start` to `end` of keys and values, and at `end` the
    states and windows.

    key: hash of the first `end` tokens, the model and the formats. tag: hash of what computed the
    rows (kernels, numerics). is_base: longer prompts may continue from `end` in files of their own.
    checksum: of the rest of the name and all bytes; "" while the file is not written.
    """

    end: int
    start: int
    key: str
    tag: str
    is_base: bool
    checksum: str = ""

    @property
    def stem(self) -> str:
        """The name without the checksum."""
        return f"{self.end}-{self.start}-{self.key}-{self.tag}-{self.is_base:d}"

    @property
    def name(self) -> str:
        """The file name."""
        return f"{self.stem}-{self.checksum}.safetensors"


class PromptFolder:
    """Saved prompts under `path`. A file that cannot be removed is left in place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make the folder, for its owner alone (mode 0700); remove files of earlier formats and
        unfinished ones. Raises OSError.
        """
        make_private_folder(self.path)
        for path in self.path.iterdir():
            if _OLD.fullmatch(path.name):
                remove([path])
        for folder in self.path.glob(_CHAT):
            remove(folder.glob("*.part"))
            with suppress(OSError):
                folder.rmdir()  # if it is empty

    def saved(self) -> dict[SavedPrompt, list[Path]]:
        """Every complete file and its links, one per chat that uses it; empty without a folder."""
        found: dict[SavedPrompt, list[Path]] = {}
        for path in self.path.glob(f"{_CHAT}/*.safetensors"):
            if told := _NAME.fullmatch(path.name):
                end, start, key, tag, is_base, checksum = told.groups()
                prompt = SavedPrompt(int(end), int(start), key, tag, is_base != "0", checksum)
                if prompt.start < prompt.end:
                    found.setdefault(prompt, []).append(path)
        return found

    @property
    def nbytes(self) -> int:
        """Size of all files; links count once."""
        return sum(file.nbytes for file in self._by_use())

    def keep_within(self, most_bytes: int) -> None:
        """Remove the least recently used files until the rest fits; of a chain the last first. With
        0 nothing stays.
        """
        if not most_bytes:
            self.forget_all()
        files = self._by_use()
        total = sum(file.nbytes for file in files)
        for file in files:
            if total <= most_bytes:
                return
            remove(file.links)
            total -= file.nbytes

    def chat_folder(self, chat: str | None) -> Path:
        """Where files of this chat lie; None stands for all prompts outside of a chat."""
        return self.path / hashlib.sha256((chat or "").encode()).hexdigest()[:40]

    def use(self, files: Iterable[Path], chat: str | None) -> None:
        """Mark files as used now, all at the same time, and link them into the chat's folder."""
        now = time_ns()
        for file in files:
            with suppress(OSError):
                os.utime(file, ns=(now, now))
            if chat is not None:
                with suppress(OSError):  # linked already, or a disk without links
                    os.link(file, self.make(chat) / file.name)

    def make(self, chat: str | None) -> Path:
        """Make the chat's folder, if there is none. Raises OSError."""
        make_private_folder(self.path)
        folder = self.chat_folder(chat)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        return folder

    def forget(self, chat: str) -> None:
        """Remove what this chat has saved, except for what other chats use too."""
        _remove_folder(self.chat_folder(chat))

    def forget_all(self) -> None:
        """Remove every saved prompt."""
        for folder in self.path.glob(_CHAT):
            _remove_folder(folder)

    def _by_use(self) -> list["_StoredFile"]:
        """All files of chats, those with names of other formats included, least recently used
        first; of files used at the same time the longest prompt first.
        """
        by_inode: dict[int, _StoredFile] = {}
        for path in self.path.glob(f"{_CHAT}/*.safetensors"):
            with suppress(OSError):
                stat = path.stat()
                end = path.name.partition("-")[0]
                tokens = int(end) if end.isdecimal() else 0
                new = _StoredFile(stat.st_mtime_ns, tokens, stat.st_size, [])
                by_inode.setdefault(stat.st_ino, new).links.append(path)
        return sorted(by_inode.values(), key=lambda file: (file.used_ns, -file.tokens))


class _StoredFile(NamedTuple):
    """A file in the folder: last use, tokens by its name, size, and all of its hard links."""

    used_ns: int
    tokens: int
    nbytes: int
    links: list[Path]


def remove(files: Iterable[Path]) -> None:
    """Delete files that are still there."""
    for file in files:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def _remove_folder(folder: Path) -> None:
    """Remove it for good, though a file may be begun in it meanwhile: that needs the folder."""
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)
