"""Unsent texts of all chats, stored soon after they change, and at the end."""

from collections.abc import Mapping
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer

from app.state.state import State
from app.store.session_store import SessionStore, UnsentTexts
from app.values.attached_text import SaidWith, said_with, with_attachments
from app.values.errors import StoreError
from mlx_engine.values.picture import Picture

NEW = 0
"""Stands for the id of a chat that is not stored yet."""
SAVED_AFTER_MS = 500
NOTHING = SaidWith("")


class LostTexts(NamedTuple):
    """Plain texts that could not be stored, by chat and by message."""

    chats: Mapping[int, str]
    messages: Mapping[int, str]


class Drafts(State):
    """Unsent texts.

    chats: by chat id, NEW for a new one. edits: edited wordings by message id. Signals: `failed`:
    the texts could not be stored, in words. `mended`: later they could.
    """

    def __init__(self, store: SessionStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._stored = UnsentTexts()
        try:
            self._stored = store.drafts.read()
        except StoreError as error:
            self._problem = str(error)  # which is told by whoever opens the store
        self.chats, self.edits = dict(self._stored.chats), dict(self._stored.messages)
        self._timer = QTimer(self, singleShot=True, interval=SAVED_AFTER_MS)
        self._timer.timeout.connect(self._save_in_turn)

    def write_ahead(self, picture: Picture) -> None:
        """Store a picture, from any thread, before a message or unsent text names it."""
        self._store.pictures.write_ahead(picture)

    def add_texts(self, chats: Mapping[int, str], messages: Mapping[int, str]) -> None:
        """Add texts that an older version, or one that could not write, left in the settings."""
        self.chats = {chat: said_with(text) for chat, text in chats.items()} | self.chats
        self.edits.update({message: t for message, t in messages.items() if t})
        self.save_soon()

    def of_chat(self, chat_id: int) -> SaidWith:
        """Return the unsent text of a chat."""
        return self.chats.get(chat_id, NOTHING)

    def keep(self, chat_id: int, said: SaidWith) -> None:
        """Set the unsent text of a chat."""
        if said != self.of_chat(chat_id):
            self.chats[chat_id] = said
            self.save_soon()

    def keep_edit(self, message_id: int, text: str) -> None:
        """Set the edited wording of a message."""
        self.edits[message_id] = text
        self.save_soon()

    def drop_edit(self, message_id: int) -> None:
        """Forget the edited wording of a message, after it was sent or cancelled."""
        self.edits.pop(message_id, None)
        self.save_soon()

    def move(self, old: int, new: int) -> None:
        """Move the unsent text of a chat to its new id."""
        self.chats[new] = self.chats.pop(old, NOTHING)
        self.save_soon()

    def save_soon(self) -> None:
        """Store within SAVED_AFTER_MS, so that not every keystroke is written."""
        if not self._timer.isActive():
            self._timer.start()

    def _save_in_turn(self) -> None:
        """Store changed texts, later if a picture is being stored, for which this would wait."""
        if self._store.database.is_written_elsewhere:
            self.save_soon()
        else:
            self.save()

    def save(self) -> bool:
        """Store changed texts; False if that failed."""
        self._timer.stop()
        now, before = UnsentTexts(dict(self.chats), dict(self.edits)), self._stored
        if now == before:
            return True
        table = self._store.drafts
        try:
            with self._store.database.transaction():
                for chat in now.chats.keys() | before.chats.keys():
                    table.write_chat(
                        chat, now.chats.get(chat, NOTHING), before.chats.get(chat, NOTHING)
                    )
                for message in now.messages.keys() | before.messages.keys():
                    text = now.messages.get(message)
                    if text != before.messages.get(message):
                        table.write_message(message, text)
        except StoreError as error:
            self.report(str(error))
            return False
        self._stored = now
        self.report("")
        return True

    def close(self) -> LostTexts:
        """Store all texts; return those that could not be stored."""
        if self.save():
            return LostTexts({}, {})
        stored = self._stored
        chats = {chat: said for chat, said in self.chats.items() if said != stored.chats.get(chat)}
        edits = {of: text for of, text in self.edits.items() if text != stored.messages.get(of)}
        return LostTexts({chat: with_attachments(*said[:2]) for chat, said in chats.items()}, edits)
