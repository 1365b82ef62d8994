"""The folder of saved prompts: its files, the chats that use them, and its size limit.

A file is in the folder of its chat; a file that several chats use has a hard link in the folder of
each. Deleting a chat's folder thus keeps what other chats use. File names hold all that a search
needs. Nothing is kept in memory between two calls, as several programs may use the folder and any
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
"""File names of earlier formats, in the folder itself."""


class SavedPrompt(NamedTuple):
    """Name of a saved prompt's file, which holds cache rows of tokens `start` to `end`.

    Recurrent states and sliding windows are those at `end`. key: hash of the first `end` tokens,
    the model and the formats. tag: hash of the kernels and numerics that computed the rows.
    is_base: files of longer prompts may continue this one. checksum: of the rest of the name and
    all bytes; "" before the file is written.
    """

    end: int
    start: int
    key: str
    tag: str
    is_base: bool
    checksum: str = ""

    @property
    def file_stem(self) -> str:
        """The prompt file's name without checksum and suffix."""
        return f"{self.end}-{self.start}-{self.key}-{self.tag}-{self.is_base:d}"

    @property
    def name(self) -> str:
        """The prompt file's name, with checksum and suffix."""
        return f"{self.file_stem}-{self.checksum}.safetensors"


class PromptFolder:
    """The folder of saved prompts. A file that cannot be removed is left in place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make_root_folder(self) -> None:
        """Make the folder of saved prompts, readable by its owner only. Raises OSError.

        Removes files of earlier formats and unfinished files.
        """
        make_private_folder(self.path)
        for path in self.path.iterdir():
            if _OLD.fullmatch(path.name):
                delete_files([path])
        for folder in self.path.glob(_CHAT):
            delete_files(folder.glob("*.part"))
            with suppress(OSError):
                folder.rmdir()  # if it is empty

    def saved_files(self) -> dict[SavedPrompt, list[Path]]:
        """Find all complete prompt files, each with its hard links, one per chat.

        There are none if the folder does not exist.
        """
        found: dict[SavedPrompt, list[Path]] = {}
        for path in self.path.glob(f"{_CHAT}/*.safetensors"):
            if match := _NAME.fullmatch(path.name):
                end, start, key, tag, is_base, checksum = match.groups()
                prompt = SavedPrompt(int(end), int(start), key, tag, is_base != "0", checksum)
                if prompt.start < prompt.end:
                    found.setdefault(prompt, []).append(path)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all saved prompts; a file with several hard links counts once."""
        return sum(file.nbytes for file in self._least_recent_first())

    def delete_oldest(self, most_bytes: int) -> None:
        """Remove the least recently used prompt files until the rest fit in so many bytes; 0: all.

        Of files that continue each other the longest prompt is removed first.
        """
        if not most_bytes:
            self.forget_all()
        files = self._least_recent_first()
        total = sum(file.nbytes for file in files)
        for file in files:
            if total <= most_bytes:
                return
            delete_files(file.links)
            total -= file.nbytes

    def chat_folder(self, chat: str | None) -> Path:
        """Path of the folder of a chat's saved prompts; None stands for all raw prompts."""
        return self.path / hashlib.sha256((chat or "").encode()).hexdigest()[:40]

    def mark_used(self, files: Iterable[Path], chat: str | None) -> None:
        """Mark prompt files as used now, and hard-link them into the chat's folder."""
        now = time_ns()
        for file in files:
            with suppress(OSError):
                os.utime(file, ns=(now, now))
            if chat is not None:
                with suppress(OSError):  # linked already, or a disk without links
                    os.link(file, self.make_chat_folder(chat) / file.name)

    def make_chat_folder(self, chat: str | None) -> Path:
        """Make the folder of a chat's saved prompts, if there is none. Raises OSError."""
        make_private_folder(self.path)
        folder = self.chat_folder(chat)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        return folder

    def forget_chat(self, chat: str) -> None:
        """Remove a chat's saved prompts, except those that other chats use too."""
        _remove_folder(self.chat_folder(chat))

    def forget_all(self) -> None:
        """Remove every saved prompt."""
        for folder in self.path.glob(_CHAT):
            _remove_folder(folder)

    def _least_recent_first(self) -> list["_StoredFile"]:
        """All prompt files of chats, of any format, least recently used first.

        Of files used at the same time the longest prompt comes first.
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
    """A saved prompt's file: last use, tokens by its name, size, and all of its hard links."""

    used_ns: int
    tokens: int
    nbytes: int
    links: list[Path]


def delete_files(files: Iterable[Path]) -> None:
    """Delete those files that exist."""
    for file in files:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def _remove_folder(folder: Path) -> None:
    """Remove a folder, also when another thread writes a file into it at this moment."""
    for _ in range(3):
        shutil.rmtree(folder, ignore_errors=True)
