"""The table of pictures: each is stored once, by the SHA-256 of its bytes.

A message and an unsent text name theirs as a JSON list of digests. A row of the same database is
written in the transaction of the message that needs it, so neither is ever there without the other.
"""

import json
from collections.abc import Iterable, Sequence
from weakref import WeakValueDictionary

from app.store.database import Database
from app.store.rows import content_of
from app.values.chats import LazySequence
from mlx_engine.values.picture import Picture

NO_PICTURES = "[]"
_NAMED = "SELECT value FROM {table}, json_each(iif(json_valid({column}), {column}, '[]'))"
_OF_MESSAGES = (
    _NAMED.format(table="message", column="pictures") + f" WHERE pictures <> '{NO_PICTURES}'"
)
_OF_DRAFTS = _NAMED.format(table="draft", column="text") + " WHERE attached = 2"


class Pictures:
    """The table of pictures. All methods raise StoreError.

    A picture is read from the file once as long as someone holds it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held: WeakValueDictionary[str, Picture] = WeakValueDictionary()

    def keep(self, pictures: Iterable[Picture]) -> str:
        """Store those that are new, and return the digests of all as a JSON list."""
        digests = list[str]()
        for picture in pictures:
            digest = picture.digest.hex()
            self._database.write(
                "INSERT OR IGNORE INTO picture (digest, width, height, data) VALUES (?, ?, ?, ?)",
                digest,
                picture.width,
                picture.height,
                picture.data,
            )
            self._held[digest] = picture
            digests.append(digest)
        return json.dumps(digests) if digests else NO_PICTURES

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
        sql = "SELECT 1 FROM picture WHERE digest = ?"
        named = (digest for digest in digests if isinstance(digest, str))
        return [digest for digest in named if self._database.row(sql, digest) is not None]

    def _get(self, digest: str) -> Picture:
        picture = self._held.get(digest)
        if picture is None:
            sql = "SELECT data, width, height FROM picture WHERE digest = ?"
            picture = self._held[digest] = Picture(*self._database.rows(sql, digest)[0])
        return picture

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
