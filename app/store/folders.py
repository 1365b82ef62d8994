"""The table of chat folders: create, rename, fill, remove, and undo a removal."""

import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import NamedTuple

from app.store.chats import chat_gone, clean_title
from app.store.database import Database
from app.store.rows import text_of
from app.values.chats import Folder
from app.values.errors import NoSuchChat

NEW = "New folder"


class Removed(NamedTuple):
    """A removed folder and its chats, as needed to undo the removal."""

    folder: Folder
    chat_ids: tuple[int, ...]


class Folders:
    """The table of folders. All methods raise StoreError; clock: seconds since 1970.

    Names are unique: a number is added to a name that is taken.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def listed(self) -> tuple[Folder, ...]:
        """Return all folders, sorted by name."""
        rows = self._database.rows("SELECT id, name, is_open FROM folder ORDER BY id")
        folders = (Folder(row["id"], text_of(row["name"]), bool(row["is_open"])) for row in rows)
        return tuple(sorted(folders, key=lambda folder: folder.name.casefold()))

    def create(self, name: str = "", chat_ids: Iterable[int] = ()) -> Folder:
        """Add an open folder with these chats in it."""
        with self._database.transaction():
            name = self._free(name)
            folder = self._insert(name)
            self._move(chat_ids, folder)
        return Folder(folder, name)

    def put_into(self, name: str, chat_id: int) -> None:
        """Move a chat into the folder of this name, created if needed, within a transaction."""
        same = (one.id for one in self.listed() if one.name.casefold() == name.casefold())
        folder = next(same, None)
        self._move([chat_id], self._insert(name) if folder is None else folder)

    def rename(self, folder: int, name: str) -> None:
        """Rename a folder; an empty name changes nothing."""
        if clean_title(name):
            self._set(folder, "name = ?", self._free(name, but=folder))

    def open(self, folder: int, is_open: bool) -> None:
        """Show or hide the folder's chats in the list."""
        self._set(folder, "is_open = ?", int(is_open))

    def move(self, chat_ids: Iterable[int], folder: int | None) -> None:
        """Move chats into a folder, or out of their folders for None; all of them or none."""
        with self._database.transaction():
            self._move(chat_ids, folder)

    def remove(self, folder: int) -> Removed:
        """Delete a folder; its chats stay, outside any folder."""
        with self._database.transaction():
            found = next((one for one in self.listed() if one.id == folder), None)
            if found is None:
                raise _gone(folder)
            rows = self._database.rows("SELECT id FROM chat WHERE folder = ?", folder)
            self._database.write("DELETE FROM folder WHERE id = ?", folder)
        return Removed(found, tuple(row["id"] for row in rows))

    def give_back(self, removed: Removed) -> Folder:
        """Undo `remove`, except for chats that were deleted or moved since; return the folder."""
        there = {
            row["id"] for row in self._database.rows("SELECT id FROM chat WHERE folder IS NULL")
        }
        return self.create(removed.folder.name, [one for one in removed.chat_ids if one in there])

    def _free(self, name: str, but: int | None = None) -> str:
        """Return the name, with the first number that makes it unique."""
        name = clean_title(name) or NEW
        taken = {one.name.casefold() for one in self.listed() if one.id != but}
        names = (name if number == 1 else f"{name} {number}" for number in count(1))
        return next(one for one in names if one.casefold() not in taken)

    def _insert(self, name: str) -> int:
        return self._database.insert(
            "INSERT INTO folder (created_at, name) VALUES (?, ?)", self._clock(), name
        )

    def _move(self, chat_ids: Iterable[int], folder: int | None) -> None:
        if (
            folder is not None
            and self._database.row("SELECT id FROM folder WHERE id = ?", folder) is None
        ):
            raise _gone(folder)
        for chat_id in chat_ids:
            if not self._database.write("UPDATE chat SET folder = ? WHERE id = ?", folder, chat_id):
                raise chat_gone(chat_id)

    def _set(self, folder: int, change: str, value: object) -> None:
        if not self._database.write(f"UPDATE folder SET {change} WHERE id = ?", value, folder):
            raise _gone(folder)


def _gone(folder: int) -> NoSuchChat:
    return NoSuchChat("Folder {folder} is not there any more: choose another.", folder=folder)
