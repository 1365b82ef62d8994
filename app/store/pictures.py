"""The table of pictures: each is stored once, by the SHA-256 of its bytes.

A message and an unsent text name theirs as a JSON list of digests. A row of the same database is
written in the transaction of the message that needs it, so neither is ever there without the other.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from app.store.database import Database
from app.store.rows import content_of
from app.values.chats import LazySequence
from app.values.errors import StoreError
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import Words

NO_PICTURES = "[]"
_NAMED = "SELECT value FROM {table}, json_each(iif(json_valid({column}), {column}, '[]'))"
_OF_MESSAGES = (
    _NAMED.format(table="message", column="pictures") + f" WHERE pictures <> '{NO_PICTURES}'"
)
_INSERT = "INSERT OR IGNORE INTO picture (digest, width, height, data) VALUES (?, ?, ?, ?)"
_OF_DRAFTS = _NAMED.format(table="draft", column="text") + " WHERE attached = 2"

_DIGEST = re.compile("[0-9a-f]{64}").fullmatch


def _row(picture: Picture) -> tuple[Any, ...]:
    return picture.digest.hex(), picture.width, picture.height, picture.data


class Pictures:
    """The table of pictures. All methods raise StoreError.

    The bytes of a picture are read from the file when they are wanted, in the thread that wants
    them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: WeakValueDictionary[str, Picture] = WeakValueDictionary()

    def keep(self, pictures: Iterable[Picture]) -> str:
        """Store those that are new, and return the digests of all as a JSON list."""
        digests = list[str]()
        for picture in pictures:
            digest = picture.digest.hex()
            if not self._is_stored(digest):
                self._database.write(_INSERT, *_row(picture))
            self._held[digest] = picture
            digests.append(digest)
        return json.dumps(digests) if digests else NO_PICTURES

    def write_ahead(self, picture: Picture) -> None:
        """Store a picture from any thread, so that `keep` finds it there.

        Does nothing if that fails: `keep` then stores it. If no message comes to name it, the next
        start of the program deletes it.
        """
        if self._database.allows_threads:
            with suppress(StoreError):
                self._database.write_in_any_thread(_INSERT, *_row(picture))

    def named(self, digests: str) -> Sequence[Picture]:
        """Return the pictures that a JSON list names, each read on access; a lost one is left
        out.
        """
        if digests == NO_PICTURES:
            return ()
        there = self._there(content_of(digests))
        return LazySequence(len(there), lambda places: [self._get(there[at]) for at in places])

    def _there(self, digests: object) -> list[str]:
        if not isinstance(digests, list):
            return []
        named = (digest for digest in digests if isinstance(digest, str) and _DIGEST(digest))
        return [digest for digest in named if self._is_stored(digest)]

    def _is_stored(self, digest: str) -> bool:
        return self._database.row("SELECT 1 FROM picture WHERE digest = ?", digest) is not None

    def _get(self, digest: str) -> Picture:
        picture = self._held.get(digest)
        if picture is None:
            sql = "SELECT width, height FROM picture WHERE digest = ?"
            width, height = self._database.rows(sql, digest)[0]
            picture = Picture(bytes.fromhex(digest), width, height, lambda: self._data(digest))
            if not self._database.allows_threads:
                sql = "SELECT data FROM picture WHERE digest = ?"
                picture = Picture.from_bytes(self._database.rows(sql, digest)[0][0], width, height)
            self._held[digest] = picture
        return picture

    def _data(self, digest: str) -> bytes:
        """Read the bytes of a picture, in any thread. Raises BadPicture."""
        try:
            sql = "SELECT data FROM picture WHERE digest = ?"
            rows = self._database.rows_in_any_thread(sql, digest)
        except StoreError as error:
            raise BadPicture(
                Words("A picture cannot be read. {error}", error=str(error))
            ) from error
        if not rows:
            raise BadPicture("A picture of this chat is not there any more: attach it again.")
        return bytes(rows[0]["data"])

    def of_chat(self, chat_id: int) -> str:
        """Return the digests that the messages and the unsent text of a chat name."""
        rows = self._database.rows(
            f"{_OF_MESSAGES} AND chat = ?1 UNION {_OF_DRAFTS} AND chat = ?1", chat_id
        )
        return json.dumps([row[0] for row in rows])

    def clean(self, among: str | None = None) -> None:
        """Delete the pictures that no message or unsent text names. among: only of these
        digests.
        """
        these = "" if among is None else "digest IN (SELECT value FROM json_each(?)) AND "
        self._database.write(
            f"DELETE FROM picture WHERE {these}digest NOT IN ({_OF_MESSAGES} UNION {_OF_DRAFTS})",
            *(() if among is None else (among,)),
        )
