"""All chats of a user in one object, and the table of their unsent texts."""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from app.store.chats import Chats, Search
from app.store.database import IN_MEMORY, Database
from app.store.folders import Folders
from app.store.messages import Messages
from app.store.open_database import open_database, open_held, open_in_memory
from app.store.pictures import Pictures
from app.store.rows import content_of, text_of
from app.store.salvage import copy_daily
from app.values.attached_text import (
    AttachedPdf,
    AttachedText,
    SaidWith,
    said_with,
    with_attachments,
)
from app.values.chats import Chat
from app.values.errors import StoreBusy, StoreDamaged, StoreError, StoreFull
from app.values.typed_json import encode, read_fields
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class UnsentTexts:
    """All unsent texts. chats: by chat id, 0 for a new chat. messages: edited wordings by message
    id.
    """

    chats: Mapping[int, SaidWith] = field(default_factory=dict)
    messages: Mapping[int, str] = field(default_factory=dict)


TYPED, WITH_TEXTS, WITH_PICTURES, WITH_PDFS = range(4)
"""What a row of the table of unsent texts holds: its column `attached`."""


@dataclass(frozen=True, slots=True)
class _KeptPdf:
    """A PDF of an unsent message as stored.

    place: of its text among the attachments, -1 where its pages go. text: in that case. pages:
    digests, () where its text goes: they are drawn again.
    """

    path: Path = Path()
    place: int = -1
    name: str = ""
    text: str = ""
    pages: tuple[str, ...] = ()
    page_count: int = 0
    as_pictures: bool = False

    @staticmethod
    def of(pdf: AttachedPdf, said: SaidWith) -> "_KeptPdf":
        """Make what is stored of a PDF of an unsent message."""
        texts = (n for n, text in enumerate(said.attachments) if text is pdf.text)
        place = next(texts, -1)
        pages = tuple(page.digest.hex() for page in pdf.pages) if place < 0 else ()
        own = pdf.text if place < 0 else AttachedText("", "")
        return _KeptPdf(pdf.path, place, own.name, own.text, pages, pdf.page_count, pdf.as_pictures)

    def into(self, said: SaidWith) -> AttachedPdf:
        """Make the PDF of an unsent message that was read, with the texts and pictures of that."""
        is_text = 0 <= self.place < len(said.attachments)
        text = said.attachments[self.place] if is_text else AttachedText(self.name, self.text)
        pages = tuple(page for page in said.pictures if page.digest.hex() in self.pages)
        return AttachedPdf(self.path, text, pages, self.page_count, self.as_pictures)


@dataclass(frozen=True, slots=True)
class _KeptPdfs:
    pdfs: tuple[_KeptPdf, ...] = ()


class DraftTable:
    """The table of unsent texts; a text goes with its chat or message. Raises StoreError."""

    def __init__(self, database: Database, pictures: Pictures) -> None:
        self._database, self._pictures = database, pictures

    def read(self) -> UnsentTexts:
        """Read all unsent texts."""
        chats, messages = dict[int, SaidWith](), dict[int, str]()
        for chat, message, attached, text in self._database.rows(
            "SELECT chat, message, attached, text FROM draft ORDER BY attached, id"
        ):
            if message is not None:
                messages[message] = text_of(text)
            elif attached == WITH_PICTURES:
                said, pictures = chats.get(chat or 0, SaidWith("")), self._pictures.named(text)
                chats[chat or 0] = said._replace(pictures=tuple(pictures))
            elif attached == WITH_PDFS:
                said = chats.get(chat or 0, SaidWith(""))
                kept = read_fields(_KeptPdfs(), content_of(text), "").value.pdfs
                found = (pdf.into(said) for pdf in kept)
                pdfs = (pdf for pdf in found if pdf.pages or pdf.text in said.attachments)
                chats[chat or 0] = said._replace(pdfs=tuple(pdfs))
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
            self._write(chat_id or None, None, TYPED, said.text)
        if said.attachments != before.attachments:
            text = with_attachments("", said.attachments)
            self._write(chat_id or None, None, WITH_TEXTS, text)
        if said.pictures != before.pictures:
            named = self._pictures.keep(said.pictures) if said.pictures else ""
            self._write(chat_id or None, None, WITH_PICTURES, named)
        if (said.pdfs or before.pdfs) and said[1:] != before[1:]:
            kept = _KeptPdfs(tuple(_KeptPdf.of(pdf, said) for pdf in said.pdfs))
            text = json.dumps(encode(kept)) if said.pdfs else ""
            self._write(chat_id or None, None, WITH_PDFS, text)

    def write_message(self, message_id: int, text: str | None) -> None:
        """Store the edited wording of a message; None deletes it."""
        self._write(None, message_id, TYPED, text)

    def _write(
        self, chat: int | None, message: int | None, attached: int, text: str | None
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


@dataclass(frozen=True, slots=True)
class SessionStore:
    """The tables of one database, used by the thread that opened it."""

    database: Database
    chats: Chats
    folders: Folders
    messages: Messages
    search: Search
    drafts: DraftTable
    pictures: Pictures

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

    def copy_daily(self) -> None:
        """Keep a copy of the file, made anew each day in a thread of its own."""
        if not self.read_only and self.database.path != IN_MEMORY:
            Thread(target=copy_daily, args=(self.database.path,), daemon=True).start()

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
        store.pictures.clean()
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
    pictures = Pictures(database)
    return SessionStore(
        database,
        Chats(database, pictures, clock),
        Folders(database, clock),
        Messages(database, pictures, clock),
        Search(database),
        DraftTable(database, pictures),
        pictures,
    )
