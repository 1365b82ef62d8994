"""All chats of a user: opened, listed, searched and written through one object."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.store.chats import Chats, Search
from app.store.database import Database
from app.store.drafts import DraftTable
from app.store.folders import Folders
from app.store.messages import Messages
from app.store.open_database import open_database, open_held, open_in_memory
from app.values.chats import Chat
from app.values.errors import StoreBusy, StoreDamaged, StoreError, StoreFull
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class SessionStore:
    """The tables of one database, used by the thread that opened it."""

    database: Database
    chats: Chats
    folders: Folders
    messages: Messages
    search: Search
    drafts: DraftTable

    @property
    def notices(self) -> tuple[str, ...]:
        """What was found and done on opening, in sentences for the user."""
        return self.database.notices

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written; the notices say why."""
        return bool(self.database.read_only)

    def open_chat(self, chat_id: int) -> Chat:
        """Return a chat with its settings and the selected branch; raises StoreError."""
        settings = self.chats.settings(chat_id)
        return Chat(
            self.chats.get(chat_id), settings.value, self.messages.path(chat_id), settings.notes
        )

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def open_store(path: Path, clock: Callable[[], float] = time.time) -> SessionStore:
    """Open the store in the file `path`, close answers that a crash cut off, and empty the trash.

    Raises StoreError; open_database describes which damage is handled.
    """
    try:
        return _tidied(_store(open_database(path), clock))
    except StoreDamaged:  # has asked for a closer look, which opening takes now
        return _tidied(_store(open_database(path), clock))


def _tidied(store: SessionStore) -> SessionStore:
    if store.read_only:
        return store
    try:
        store.messages.interrupt_left_over()
        store.chats.empty_bin()
    except (StoreBusy, StoreFull) as error:
        store.database.notices = (*store.database.notices, str(error))
    except BaseException:
        store.close()
        raise
    return store


def open_passing_store(notice: str) -> SessionStore:
    """Open a store that lasts until the program ends. notice: why, for the user."""
    return _store(open_in_memory(notice), time.time)


def open_some_store(path: Path) -> SessionStore:
    """Open the user's chats whatever state the file is in; the last resort is a temporary store."""
    try:
        return open_store(path)
    except (StoreError, sqlite3.Error, OSError, MemoryError) as error:
        if isinstance(error, StoreBusy):
            with suppress(StoreError, sqlite3.Error):
                return _store(open_held(path), time.time)
        unknown = Words("{path} cannot be opened ({error}).", path=path, error=str(error))
        words = str(error) if isinstance(error, StoreError) else unknown
        return open_passing_store(
            Words("{error} Until then chats are lost when you quit.", error=words)
        )


def _store(database: Database, clock: Callable[[], float]) -> SessionStore:
    return SessionStore(
        database,
        Chats(database, clock),
        Folders(database, clock),
        Messages(database, clock),
        Search(database),
        DraftTable(database),
    )
