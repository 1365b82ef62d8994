"""The tree of messages of every chat: branches, answers being written, the selected path."""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from app.store.chats import chat_gone, copy_message, title_from
from app.store.database import Database
from app.store.pictures import NO_PICTURES, Pictures
from app.store.rows import (
    message_from_row,
    role_of,
    spans_to_json,
    stats_from_text,
    stats_to_json,
    text_of,
    uses_from_text,
    uses_to_json,
)
from app.values.chats import AnswerSoFar, Branch, EndedAnswer, StoredMessage, Turn
from app.values.errors import NoSuchChat, StoreDamaged, StoreError
from app.values.tools import answer_messages
from app.values.typed_json import words_to_text
from mlx_engine.values.conversation import Message, Role
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats

MOST_FIGURES = 500
BLOCK = 100
"""Messages of a branch that are read in one query."""
_NEWEST_BELOW = """WITH RECURSIVE down (id, chat) AS (
        SELECT id, chat FROM message WHERE id = ? UNION ALL
        SELECT (SELECT max(id) FROM message
            WHERE parent = down.id AND id > down.id AND chat = down.chat), chat
        FROM down WHERE id IS NOT NULL
    )
    SELECT max(id) AS id FROM down"""
"""Guards against damaged files, in which a message may follow a later one or one of another chat.
"""


class AnswerFigures(NamedTuple):
    """Statistics of one answer, and the name of the model that gave it."""

    model: str
    stats: GenerationStats


class Removed(NamedTuple):
    """Message rows taken out of a chat, the ids of their children, and the chat's leaf."""

    chat_id: int
    leaf: int | None
    rows: tuple[Mapping[str, Any], ...]
    followers: Mapping[int, int]


class Messages:
    """The table of messages. All methods raise StoreError; clock: seconds since 1970.

    unwritten: ended answers that could not be written yet, by id.
    """

    def __init__(
        self, database: Database, pictures: Pictures, clock: Callable[[], float] = time.time
    ) -> None:
        self._database, self._pictures = database, pictures
        self._clock = clock
        self.unwritten: dict[int, EndedAnswer] = {}

    def path(self, chat_id: int) -> Branch:
        """Return the selected branch from its first message to its leaf, read in blocks on access.

        In a damaged file the leaf may belong to another chat; then the newest message is used.
        """
        children, parents = dict[int | None, list[int]](), dict[int, int | None]()
        for message_id, parent in self._database.rows(
            "SELECT id, parent FROM message WHERE chat = ? ORDER BY id", chat_id
        ):
            children.setdefault(parent, []).append(message_id)
            parents[message_id] = parent
        chat = self._database.row("SELECT leaf FROM chat WHERE id = ?", chat_id)
        leaf = None if chat is None else chat["leaf"]
        ids = [leaf if leaf in parents else max(parents)] if parents and chat is not None else []
        while ids and (above := parents[ids[-1]]) in parents and above < ids[-1]:
            ids.append(above)
        ids.reverse()

        def read(places: range) -> list[Turn]:
            messages = self._readable(chat_id, ids[places.start : places.stop])
            return [_turn(message, children.get(message.parent, [])) for message in messages]

        self._with_ids(ids[-1:])  # what cannot be read at all is said now
        return Branch(ids, read, BLOCK)

    def _with_ids(self, ids: Sequence[int]) -> list[StoredMessage]:
        """Return the messages with these ids that exist, in ascending order."""
        sql = "SELECT * FROM message WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
        return [self._read(row) for row in self._database.rows(sql, json.dumps(ids))]

    def _readable(self, chat_id: int, ids: Sequence[int]) -> list[StoredMessage]:
        """Return all of these messages; one that cannot be read shows the error as its text."""
        found, problem = dict[int, StoredMessage](), ""
        try:
            found = {message.id: message for message in self._with_ids(ids)}
        except StoreError as error:
            problem = str(error)
        return [
            found.get(each) or _unreadable(each, chat_id, problem or str(_gone(each)))
            for each in ids
        ]

    def conversation(self, ids: Sequence[int]) -> tuple[Message, ...]:
        """Return these messages as the engine reads them, tool calls and results as messages of
        their own; ids ascend.
        """
        sql = """SELECT id, role, text, thinking, calls, pictures FROM message
            WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"""
        found = list[Message]()
        rows = self._database.rows(sql, json.dumps(ids))
        for message_id, role, text, thinking, calls, pictures in rows:
            ended = self.unwritten.get(message_id)
            if ended is not None:
                answer = ended.so_far
                found += answer_messages(answer.text, answer.thinking, answer.uses)
            elif role_of(role) == "assistant":
                uses = uses_from_text(text_of(calls))
                found += answer_messages(text_of(text), text_of(thinking), uses)
            else:
                images = tuple(self._pictures.named(text_of(pictures)))
                told = Message(role_of(role), text_of(text), text_of(thinking), images=images)
                found.append(told)
        return tuple(found)

    def ids_with_pictures(self, chat_id: int) -> frozenset[int]:
        """Return the ids of a chat's messages that have pictures."""
        sql = f"SELECT id FROM message WHERE chat = ? AND pictures <> '{NO_PICTURES}'"
        return frozenset(row[0] for row in self._database.rows(sql, chat_id))

    def all_of(self, chat_id: int) -> tuple[StoredMessage, ...]:
        """Return every message of every branch, oldest first."""
        rows = self._database.rows("SELECT * FROM message WHERE chat = ? ORDER BY id", chat_id)
        return tuple(self._read(row) for row in rows)

    def get(self, message_id: int) -> StoredMessage:
        """Return one message; raises NoSuchChat if it is gone."""
        row = self._database.row("SELECT * FROM message WHERE id = ?", message_id)
        if row is None:
            raise _gone(message_id)
        return self._read(row)

    def figures(self, chat_id: int) -> tuple[AnswerFigures, ...]:
        """Return figures of the newest finished answers of all branches, oldest first."""
        rows = self._database.rows(
            """SELECT model, stats FROM message
                WHERE chat = ? AND stats IS NOT NULL ORDER BY id DESC LIMIT ?""",
            chat_id,
            MOST_FIGURES,
        )
        read = ((text_of(row["model"]), stats_from_text(text_of(row["stats"]))) for row in rows)
        found = [AnswerFigures(model, stats) for model, stats in read if stats is not None]
        return tuple(reversed(found))

    def add(
        self,
        chat_id: int,
        parent: int | None,
        role: Role,
        text: str,
        pictures: Sequence[Picture] = (),
    ) -> StoredMessage:
        """Add a complete message after `parent` as a new branch, and select it.

        A chat without a title takes its title from the user's first message.
        """
        with self._database.transaction():
            added = self._insert(chat_id, parent, role, text, "", "done")
            if pictures:
                named = self._pictures.keep(pictures)
                self._database.write("UPDATE message SET pictures = ? WHERE id = ?", named, added)
            if role == "user":
                title = title_from(text)
                self._database.write(
                    "UPDATE chat SET title = ? WHERE id = ? AND title = ''", title, chat_id
                )
            return self.get(added)

    def edit(
        self, message_id: int, text: str, pictures: Sequence[Picture] | None = None
    ) -> StoredMessage:
        """Add another wording of a message; the old one and all below it stay as a branch.

        pictures: None for the old ones.
        """
        old = self.get(message_id)
        kept = old.pictures if pictures is None else pictures
        return self.add(old.chat_id, self._parent(old), old.role, text, kept)

    def _parent(self, message: StoredMessage) -> int | None:
        """Return the parent's id, None where a damaged file names an impossible one."""
        sql = "SELECT id FROM message WHERE id = ? AND chat = ? AND id < ?"
        row = self._database.row(sql, message.parent, message.chat_id, message.id)
        return None if row is None else int(row["id"])

    def rewrite(self, message_id: int, text: str) -> StoredMessage:
        """Add the user's own wording of an answer, with copies of the messages that follow it on
        show.

        The old answer and everything below it stay as a branch.
        """
        old = self.get(message_id)
        on_show = self.path(old.chat_id).ids
        following = on_show[on_show.index(old.id) + 1 :] if old.id in on_show else []
        with self._database.transaction():
            leaf = rewritten = copy_message(self._database, old.id, old.chat_id, self._parent(old))
            self._database.write(
                """UPDATE message SET text = ?, edited = 1, state = 'done', finish_reason = NULL,
                    problem = '', spans = '[]', stats = NULL, calls = ? WHERE id = ?""",
                text,
                uses_to_json([replace(use, text_end=0) for use in old.uses]),
                rewritten,
            )
            for later in following:
                leaf = copy_message(self._database, later, old.chat_id, leaf)
            self._database.write(
                "UPDATE chat SET leaf = ?, updated_at = ? WHERE id = ?",
                leaf,
                self._clock(),
                old.chat_id,
            )
        return self.get(rewritten)

    def begin_answer(self, chat_id: int, parent: int | None, model: str = "") -> int:
        """Add an empty answer after `parent`, select it, and return its id. model: name of the
        model, "" if not known yet.

        To regenerate an answer, give the parent of the old one.
        """
        with self._database.transaction():
            return self._insert(chat_id, parent, "assistant", "", model, "partial")

    def save_partial(self, message_id: int, so_far: AnswerSoFar) -> None:
        """Store an unfinished answer; on return it survives a killed process."""
        changed = self._database.write(
            """UPDATE message SET state = 'partial', text = ?, thinking = ?, spans = ?, calls = ?,
                thinking_seconds = ?, model = coalesce(nullif(?, ''), model) WHERE id = ?""",
            so_far.text,
            so_far.thinking,
            spans_to_json(so_far.spans),
            uses_to_json(so_far.uses),
            so_far.thinking_seconds,
            so_far.model,
            message_id,
        )
        if not changed:
            raise _gone(message_id)

    def end_answer(self, message_id: int, ended: EndedAnswer) -> None:
        """Store a finished answer and flush it to the disk. If that fails, the answer is kept in
        memory, read from there, and written by `write_again`.
        """
        self.unwritten[message_id] = ended
        try:
            with self._database.transaction():
                self.save_partial(message_id, ended.so_far)
                self._database.write(
                    """UPDATE message SET state = ?, finish_reason = ?, stats = ?, problem = ?
                        WHERE id = ?""",
                    ended.state,
                    ended.reason,
                    stats_to_json(ended.stats),
                    words_to_text(ended.problem),
                    message_id,
                )
                self._database.write(
                    """UPDATE chat SET updated_at = ?
                        WHERE id = (SELECT chat FROM message WHERE id = ?)""",
                    self._clock(),
                    message_id,
                )
        except (NoSuchChat, StoreDamaged):
            del self.unwritten[message_id]
            raise
        del self.unwritten[message_id]
        self._database.checkpoint()

    def write_again(self) -> None:
        """Write answers that could not be written before, up to the first that still fails."""
        for message_id, ended in list(self.unwritten.items()):
            self.end_answer(message_id, ended)

    def interrupt_left_over(self) -> int:
        """Mark answers that a crash left unfinished as stopped; return how many. Call at start."""
        return self._database.write("UPDATE message SET state = 'stopped' WHERE state = 'partial'")

    def select(self, message_id: int) -> None:
        """Select the branch through this message, down to its newest descendant."""
        chat_id = self.get(message_id).chat_id
        leaf = self._database.rows(_NEWEST_BELOW, message_id)[0]["id"]
        self._database.write("UPDATE chat SET leaf = ? WHERE id = ?", leaf, chat_id)

    def remove(self, question_id: int) -> Removed:
        """Take a question and its answers out of their chat. What followed one of the answers
        follows what stood before the question. Where nothing followed what is on show, another
        version of the question is selected, the one before it first.
        """
        with self._database.transaction():
            question = self.get(question_id)
            rows = self._database.rows(
                "SELECT * FROM message WHERE id = ? OR parent = ? ORDER BY id",
                question_id,
                question_id,
            )
            gone = [int(row["id"]) for row in rows]
            followers = {
                int(row["id"]): int(row["parent"])
                for row in self._database.rows(
                    """SELECT id, parent FROM message
                        WHERE parent IN (SELECT id FROM message WHERE parent = ?)""",
                    question_id,
                )
            }
            chat = self._database.row("SELECT leaf FROM chat WHERE id = ?", question.chat_id)
            leaf, parent = None if chat is None else chat["leaf"], self._parent(question)
            for message_id in followers:
                self._follow(message_id, parent)
            for message_id in reversed(gone):
                self._database.write("DELETE FROM message WHERE id = ?", message_id)
            if leaf in gone:
                version = self._database.row(
                    "SELECT id FROM message WHERE chat = ? AND parent IS ? "
                    "ORDER BY id > ?, abs(id - ?) LIMIT 1",
                    question.chat_id,
                    parent,
                    question_id,
                    question_id,
                )
                sql = "UPDATE chat SET leaf = ? WHERE id = ?"
                self._database.write(sql, parent, question.chat_id)
                if version is not None:
                    self.select(version["id"])
        return Removed(question.chat_id, leaf, tuple(map(dict, rows)), followers)

    def put_back(self, removed: Removed) -> None:
        """Put a removed question and its answers back where they were."""
        with self._database.transaction():
            for row in removed.rows:
                names, places = ", ".join(row), ", ".join("?" * len(row))
                sql = f"INSERT INTO message ({names}) VALUES ({places})"
                self._database.write(sql, *row.values())
            for message_id, parent in removed.followers.items():
                self._follow(message_id, parent)
            sql = "UPDATE chat SET leaf = ? WHERE id = ?"
            self._database.write(sql, removed.leaf, removed.chat_id)

    def _follow(self, message_id: int, parent: int | None) -> None:
        """Make a message the child of another one."""
        self._database.write("UPDATE message SET parent = ? WHERE id = ?", parent, message_id)

    def _insert(
        self, chat_id: int, parent: int | None, role: Role, text: str, model: str, state: str
    ) -> int:
        if parent is not None and self.get(parent).chat_id != chat_id:
            raise NoSuchChat(
                "Message {parent} is of another chat: open the chat again.", parent=parent
            )
        now = self._clock()
        added = self._database.insert(
            """INSERT INTO message
                (chat, parent, role, state, model, created_at, text, thinking, spans)
                SELECT id, ?, ?, ?, ?, ?, ?, '', '[]' FROM chat WHERE id = ?""",
            parent,
            role,
            state,
            model,
            now,
            text,
            chat_id,
        )
        changed = self._database.write(
            "UPDATE chat SET leaf = ?, updated_at = ? WHERE id = ?", added, now, chat_id
        )
        if not changed:
            raise chat_gone(chat_id)
        return added

    def _read(self, row: sqlite3.Row) -> StoredMessage:
        """Convert a row to a message, with its pictures and the unwritten end of its answer."""
        message = message_from_row(row)
        if (named := text_of(row["pictures"])) not in ("", NO_PICTURES):
            message = replace(message, pictures=self._pictures.named(named))
        ended = self.unwritten.get(message.id)
        return message if ended is None else ended.of(message)


def _gone(message_id: int) -> NoSuchChat:
    return NoSuchChat(
        "Message {message_id} is not there any more: open the chat again.", message_id=message_id
    )


def _unreadable(message_id: int, chat_id: int, problem: str) -> StoredMessage:
    return StoredMessage(
        message_id, chat_id, None, "assistant", "", state="stopped", problem=problem
    )


def _turn(message: StoredMessage, siblings: list[int]) -> Turn:
    """Make a Turn; a damaged index may lack the message itself."""
    return Turn(message, tuple(siblings) if message.id in siblings else (message.id,))
