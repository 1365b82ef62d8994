"""Folders of chats: made, named, opened and closed, filled, taken away and given back."""

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
    """What is needed to give a folder back: itself, and the chats that were in it."""

    folder: Folder
    chat_ids: tuple[int, ...]


class Folders:
    """Folders of one database. All methods raise StoreError; clock: seconds since 1970.

    No two have the same name: a number is put after one that is taken.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def listed(self) -> tuple[Folder, ...]:
        """All of them, by name."""
        rows = self._database.rows("SELECT id, name, is_open FROM folder ORDER BY id")
        folders = (Folder(row["id"], text_of(row["name"]), bool(row["is_open"])) for row in rows)
        return tuple(sorted(folders, key=lambda folder: folder.name.casefold()))

    def create(self, name: str = "", chat_ids: Iterable[int] = ()) -> Folder:
        """A new, open folder with these chats in it."""
        with self._database.transaction():
            name = self._free(name)
            folder = self._insert(name)
            self._move(chat_ids, folder)
        return Folder(folder, name)

    def put_into(self, name: str, chat_id: int) -> None:
        """Within a transaction: a chat into the folder of this name, made where there is none."""
        same = (one.id for one in self.listed() if one.name.casefold() == name.casefold())
        folder = next(same, None)
        self._move([chat_id], self._insert(name) if folder is None else folder)

    def rename(self, folder: int, name: str) -> None:
        """One line; an empty name changes nothing."""
        if clean_title(name):
            self._set(folder, "name = ?", self._free(name, but=folder))

    def open(self, folder: int, is_open: bool) -> None:
        """List its chats, or no longer."""
        self._set(folder, "is_open = ?", int(is_open))

    def move(self, chat_ids: Iterable[int], folder: int | None) -> None:
        """Chats into a folder, or out of the ones they are in; all of them or none."""
        with self._database.transaction():
            self._move(chat_ids, folder)

    def remove(self, folder: int) -> Removed:
        """Take the folder away; its chats stay, in none."""
        with self._database.transaction():
            found = next((one for one in self.listed() if one.id == folder), None)
            if found is None:
                raise _gone(folder)
            rows = self._database.rows("SELECT id FROM chat WHERE folder = ?", folder)
            self._database.write("DELETE FROM folder WHERE id = ?", folder)
        return Removed(found, tuple(row["id"] for row in rows))

    def give_back(self, removed: Removed) -> None:
        """As it was before `remove`, but for chats that are gone or elsewhere since."""
        there = {
            row["id"] for row in self._database.rows("SELECT id FROM chat WHERE folder IS NULL")
        }
        self.create(removed.folder.name, [one for one in removed.chat_ids if one in there])

    def _free(self, name: str, but: int | None = None) -> str:
        """This name, or with the first number that makes it one of its own."""
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
