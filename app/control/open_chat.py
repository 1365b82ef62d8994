"""The chat that is open: its settings and the branch on show, kept in step with the store."""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

from app.store.session_store import SessionStore
from app.values.attached_text import CHARACTERS_A_TOKEN
from app.values.chat_settings import ChatSettings
from app.values.chats import NO_TURNS, StoredMessage, Turn
from app.values.errors import StoreError
from mlx_engine.values.conversation import Message

LOOKED_AT = 100
"""Messages from the end of a chat in which its last question and answer are looked for."""


class OpenChat:
    """A new chat has no number until its first message is stored. All methods raise StoreError."""

    def __init__(self, store: SessionStore, settings: ChatSettings) -> None:
        self._store = store
        self.chat_id: int | None = None
        self.title, self.pinned = "", False
        self.settings = settings
        self.turns = NO_TURNS
        self.notes: tuple[str, ...] = ()

    def begin(self, settings: ChatSettings) -> None:
        """A new chat with these settings."""
        self.chat_id, self.settings = None, settings
        self.title, self.pinned = "", False
        self.turns, self.notes = NO_TURNS, ()

    def open(self, chat_id: int) -> None:
        """A stored chat as it is now."""
        chat = self._store.open_chat(chat_id)
        self.chat_id = chat.summary.id
        self.title, self.pinned = chat.summary.title, chat.summary.pinned
        self.settings, self.turns, self.notes = chat.settings, chat.turns, chat.notes

    def reload(self) -> None:
        """Read again what is stored."""
        if self.chat_id is not None:
            self.open(self.chat_id)

    def change_settings(self, settings: ChatSettings) -> None:
        """From now on, in this chat only."""
        if self.chat_id is not None:
            self._store.chats.set_settings(self.chat_id, settings)
        self.settings = settings

    def rename_preset(self, name: str, new: str) -> None:
        """In this chat and all others that began with it."""
        self._store.chats.rename_preset(name, new)
        if self.settings.preset == name:
            self.settings = replace(self.settings, preset=new)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Store all that the block writes, or roll back and leave the chat as it was."""
        before = self.chat_id
        try:
            with self._store.database.transaction():
                yield
        except StoreError:
            if before is None:
                self.begin(self.settings)
            else:
                self.open(before)
            raise

    def add_question(self, text: str) -> StoredMessage:
        """Store what the user says at the end of the branch on show; `reload` shows it."""
        if self.chat_id is None:
            self.chat_id = self._store.chats.create(self.settings)
        last = self.turns.ids[-1] if self.turns else None
        return self._store.messages.add(self.chat_id, last, "user", text)

    def edit(self, message_id: int, text: str) -> StoredMessage:
        """Store another wording of a message as a branch of its own; `reload` shows it."""
        return self._store.messages.edit(message_id, text)

    def rewrite(self, message_id: int, text: str) -> None:
        """An answer in its user's words as a version of its own, now on show."""
        self._store.messages.rewrite(message_id, text)
        self.reload()

    def show_branch(self, message_id: int, step: int) -> None:
        """The version `step` further on of a message, with what follows it."""
        turn = self.turn(message_id)
        place = turn.siblings.index(message_id) + step
        self.select(turn.siblings[min(max(place, 0), len(turn.siblings) - 1)])

    def select(self, message_id: int) -> None:
        """The branch through any message of this chat."""
        self._store.messages.select(message_id)
        self.reload()

    def place(self, message_id: int) -> int:
        """Of a message in the branch on show; KeyError when it is not there."""
        place = bisect_left(self.turns.ids, message_id)
        if message_id not in self.turns.ids[place : place + 1]:
            raise KeyError(message_id)
        return place

    def turn(self, message_id: int) -> Turn:
        """A message of the branch on show; KeyError when it is not."""
        turn: Turn = self.turns[self.place(message_id)]
        return turn

    def question_before(self, message_id: int) -> StoredMessage | None:
        """What a message answers, itself if it is a question."""
        before = reversed(self.turns[: self.place(message_id) + 1])
        messages = (turn.message for turn in before)
        return next((message for message in messages if message.role == "user"), None)

    def past(self, message_id: int) -> tuple[Message, ...]:
        """The conversation up to this message, with it, as the engine reads it: without the turns
        that were dropped, unless it is one of them.
        """
        place = self.place(message_id)
        first = self.first_read if place >= self.first_read else 0
        return self._store.messages.conversation(self.turns.ids[first : place + 1])

    @property
    def first_read(self) -> int:
        """The place on show of the first message that is read: 0 where none was dropped."""
        try:
            return self.place(self.settings.read_from or 0)
        except KeyError:
            return 0

    @property
    def can_drop(self) -> bool:
        """Whether a turn before the last is still read."""
        later = islice(self.newest, max(0, len(self.turns) - 1 - self.first_read))
        return any(message.role == "user" for message in later)

    def drop_oldest(self) -> None:
        """From now on the older half of the tokens that are read is not, one turn at least; the
        last question always is.
        """
        tokens = self._tokens()
        half = sum(tokens[self.first_read :]) / 2
        later = self._later_questions()
        place = next((place for place in later if sum(tokens[place:]) <= half), later[-1])
        self.change_settings(replace(self.settings, read_from=self.turns.ids[place]))

    def _tokens(self) -> list[float]:
        """Of each turn: what an answer's figures say it and its question have brought, there as
        one number at the question; about so many by the text where there are none.
        """
        known, tokens = 0, list[float]()
        for turn in self.turns:
            stats = turn.message.stats
            tokens.append(len(turn.message.text) / CHARACTERS_A_TOKEN)
            total = 0 if stats is None else stats.prompt_tokens + stats.generated_tokens
            if total > known and len(tokens) > 1:
                tokens[-2:] = total - known, 0
            known = total or known
        return tokens

    def _later_questions(self) -> list[int]:
        asked = [place for place, turn in enumerate(self.turns) if turn.message.role == "user"]
        first = self.first_read
        return [place for place in asked if place > first]

    @property
    def newest(self) -> Iterator[StoredMessage]:
        """The last messages on show, newest first; of a long chat not all, which takes long."""
        return (turn.message for turn in islice(reversed(self.turns), LOOKED_AT))

    @property
    def last_answer(self) -> StoredMessage | None:
        """The newest answer on show."""
        return next((message for message in self.newest if message.role == "assistant"), None)

    @property
    def last_question(self) -> StoredMessage | None:
        """The newest question on show."""
        return next((message for message in self.newest if message.role == "user"), None)
