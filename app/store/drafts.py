"""Unsent texts: what is typed in a chat, and other wordings of messages, until they are sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.store.database import Database
from app.store.rows import text_of
from app.values.attached_text import SaidWith, said_with, with_attachments


@dataclass(frozen=True, slots=True)
class UnsentTexts:
    """All unsent texts. chats: by chat id, 0 for a new chat. messages: edited wordings by message
    id.
    """

    chats: Mapping[int, SaidWith] = field(default_factory=dict)
    messages: Mapping[int, str] = field(default_factory=dict)


class DraftTable:
    """The table of unsent texts; a text goes with its chat or message. Raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> UnsentTexts:
        """Read all unsent texts."""
        chats, messages = dict[int, SaidWith](), dict[int, str]()
        for chat, message, attached, text in self._database.rows(
            "SELECT chat, message, attached, text FROM draft ORDER BY attached, id"
        ):
            if message is not None:
                messages[message] = text_of(text)
            elif attached:
                typed = chats.get(chat or 0, SaidWith("")).text
                chats[chat or 0] = SaidWith(typed, said_with(text_of(text)).attachments)
            else:
                chats[chat or 0] = SaidWith(text_of(text))
        return UnsentTexts(chats, messages)

    def write_chat(self, chat_id: int, said: SaidWith, before: SaidWith) -> None:
        """Store the unsent text of a chat where it differs from `before`; attachments, which may be
        long, are written only when they changed.
        """
        if said.text != before.text:
            self._write(chat_id or None, None, attached=False, text=said.text)
        if said.attachments != before.attachments:
            text = with_attachments("", said.attachments)
            self._write(chat_id or None, None, attached=True, text=text)

    def write_message(self, message_id: int, text: str | None) -> None:
        """Store the edited wording of a message; None deletes it."""
        self._write(None, message_id, attached=False, text=text)

    def _write(
        self, chat: int | None, message: int | None, *, attached: bool, text: str | None
    ) -> None:
        """Replace a row; nothing is written for a chat or message that is gone."""
        self._database.write(
            "DELETE FROM draft WHERE chat IS ? AND message IS ? AND attached = ?",
            chat,
            message,
            attached,
        )
        if text is not None and (text.strip() or message is not None):
            self._database.write(
                """INSERT INTO draft (chat, message, attached, text) SELECT ?1, ?2, ?3, ?4
                    WHERE (?1 IS NULL OR EXISTS (SELECT 1 FROM chat WHERE id = ?1))
                    AND (?2 IS NULL OR EXISTS (SELECT 1 FROM message WHERE id = ?2))""",
                chat,
                message,
                attached,
                text,
            )
