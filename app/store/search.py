"""Finding chats by words in their titles and messages."""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace

from app.store.chats import SUMMARY_COLUMNS, summary_from_row
from app.store.database import Database
from app.store.rows import text_of
from app.store.words import WordFinder, match_expression, query_words
from app.values.chats import ListedChat, TextRange

HITS = 50
BEFORE, SNIPPET = 30, 140
_IN_TITLES = f"""SELECT {SUMMARY_COLUMNS} FROM title_index JOIN chat ON chat.id = title_index.rowid
    WHERE title_index MATCH ? AND deleted_at IS NULL ORDER BY updated_at DESC LIMIT ?"""
_IN_TEXTS = f"""SELECT {SUMMARY_COLUMNS}, message.id AS message
    FROM text_index JOIN message ON message.id = text_index.rowid JOIN chat ON chat.id = chat
    WHERE text_index MATCH ? AND deleted_at IS NULL
    ORDER BY text_index.rowid DESC"""


class Search:
    """Searches one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, query: str, limit: int = HITS) -> tuple[ListedChat, ...]:
        """Chats with all words of `query`, those with them in the title first, then the newest.

        A word is found by its beginning, in scripts without spaces anywhere; nothing in a query is
        an operator. Each hit points at the newest such message. Raises StoreError.
        """
        words = query_words(query)
        if not words:
            return ()
        matching, finder = match_expression(words), WordFinder(words)
        hits = {
            chat.id: ListedChat(chat, tuple(finder.ranges(chat.title)))
            for chat in map(summary_from_row, self._database.rows(_IN_TITLES, matching, limit))
        }
        for row in self._newest_messages(matching, limit):
            chat_id = row["id"]
            if chat_id in hits or len(hits) < limit:
                hit = hits.get(chat_id) or ListedChat(summary_from_row(row))
                hits[chat_id] = self._with_message(hit, row["message"], finder)
        return tuple(hits.values())

    def _newest_messages(self, matching: str, limit: int) -> Iterator[sqlite3.Row]:
        """One for each chat; left as soon as there are enough, so a common word costs no more."""
        seen: set[int] = set()
        for row in self._database.each(_IN_TEXTS, matching):
            if row["id"] not in seen:
                seen.add(row["id"])
                yield row
            if len(seen) == limit:
                return

    def _with_message(self, hit: ListedChat, message_id: int, finder: WordFinder) -> ListedChat:
        row = self._database.row("SELECT text FROM message WHERE id = ?", message_id)
        snippet = cut_snippet("" if row is None else text_of(row["text"]), finder)
        return replace(
            hit,
            message_id=message_id,
            snippet=snippet,
            snippet_ranges=tuple(finder.ranges(snippet)),
        )


def cut_snippet(text: str, finder: WordFinder) -> str:
    """About a line around the first thing found, without line ends."""
    first = next(finder.ranges(text), TextRange(0, 0))
    start = max(0, first.start - BEFORE)
    if start:
        space = re.search(r"\s", text[start : first.start])
        start += space.end() if space else 0
    piece = re.sub(r"\s+", " ", text[start : start + SNIPPET]).strip()
    return ("…" if start else "") + piece + ("…" if start + SNIPPET < len(text) else "")
