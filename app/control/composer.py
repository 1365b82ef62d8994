"""Joins the composer with the chat on show: what is sent, stopped, attached, edited and kept."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Literal, NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QFileDialog

from app.control.answers import Answers
from app.control.chat import ChatController
from app.control.chat_list import ChatListController
from app.control.models import ModelController
from app.control.settings import KeptSettings
from app.library.text_file import read_text_file
from app.start.threads import Beside
from app.store.session_store import SessionStore
from app.values.app_settings import AppSettings
from app.values.attached_text import (
    AttachedText,
    Refused,
    SaidWith,
    fenced,
    said_with,
    with_attachments,
)
from app.values.errors import StoreError
from app.window.composer.composer import Composer
from app.window.language import tr
from app.window.transcript.reader import Reader
from app.worker.replies import TokensCounted
from mlx_engine.values.words import Words

NO_MODEL = Words("Open or drop a model first")
ENDED_SUDDENLY = Words(
    "Headstart came to a sudden end while it showed the chat “{title}”. It is in the list, and "
    "nothing of it is lost; this is a new chat."
)
NEW = 0
"""In place of the number of a chat that has none yet."""
CALM_MS = 1000
"""A chat that could not be shown would have stopped the window by then."""
KEPT_AFTER_MS = 500
"""A chat is laid out and painted first; and nobody types words so fast that each is worth a file.
"""


LONGEST_KEPT = 200_000
"""Characters of attachments."""


def as_kept(said: SaidWith) -> str:
    """One text for the file of settings, which is written again and again: without attachments that
    are long.
    """
    is_short = sum(len(one.text) for one in said.attachments) <= LONGEST_KEPT
    return with_attachments(*said) if is_short else said.text


class BeingRead(NamedTuple):
    """Files attached to a message of the chat `of`; `unwanted` once nobody waits for them."""

    of: int | None
    names: tuple[str, ...]
    unwanted: Event


class ComposerController(QObject):
    """Keeps the composer's button true, and never loses what was typed. Signal: `typed`."""

    typed = Signal()

    def __init__(
        self,
        composer: Composer,
        chats: ChatController,
        answers: Answers,
        models: ModelController,
        edit_last: Callable[[], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._composer, self._chats, self._models = composer, chats, models
        self._disk = Beside(self)
        self._of: int | None = None
        self._reading: list[BeingRead] = []
        self._unsent: dict[int | None, SaidWith] = {}
        composer.typed.connect(self.typed)
        composer.sent.connect(self._send)
        composer.stop_wanted.connect(chats.stop)
        composer.edit_last_wanted.connect(edit_last)
        composer.attach_wanted.connect(self._attach)
        composer.files_pasted.connect(self._read)
        composer.reading_given_up.connect(self._give_up_reading)
        composer.attachments_changed.connect(self._count)
        composer.attachments_changed.connect(lambda _: self.typed.emit())
        answers.changed.connect(self.refresh)
        chats.opened.connect(self._change_chat)
        models.changed.connect(self.refresh)
        models.loaded.connect(self._count_again)
        models.unloaded.connect(self._count_again)

    def refresh(self) -> None:
        """Send, stop, or why nothing can be sent."""
        if self._chats.running is not None:
            self._composer.show_answering()
        elif not self._models.can_answer:
            self._composer.show_ready(NO_MODEL)
        else:
            self._composer.show_ready()

    def unsent(self) -> dict[int, str]:
        """What is typed and not sent, by chat; NEW for one that has no number yet."""
        messages = self._unsent | {self._of: self._composer.message()}
        texts = {of: as_kept(message) for of, message in messages.items()}
        return {NEW if of is None else of: text for of, text in texts.items() if text.strip()}

    def restore(self, unsent: Mapping[int, str]) -> None:
        """What `unsent` said the last time; the chat on show is new."""
        for of, text in unsent.items():
            self._unsent[None if of == NEW else of] = said_with(text)
        self._show_unsent()

    def _change_chat(self) -> None:
        """What is typed belongs to its chat."""
        chat_id = self._chats.chat.chat_id
        if chat_id != self._of:
            self._unsent[self._of] = self._composer.message()
            self._of = chat_id
            self._show_unsent()
        self.refresh()

    def _show_unsent(self) -> None:
        self._composer.show_message(*self._unsent.pop(self._of, SaidWith("")))
        self._show_reading()

    def attach(self, paths: list[Path]) -> None:
        """Attach files that were dropped."""
        self._read(paths)
        self._composer.setFocus()

    def _read(self, paths: list[Path]) -> None:
        """Beside the window: they may lie on a slow disk, and documents take long."""
        if not paths:
            return
        files = BeingRead(self._of, tuple(path.name for path in paths), Event())
        self._reading.append(files)
        self._show_reading()

        def is_wanted() -> bool:
            return not files.unwanted.is_set()

        self._disk.run_each(
            lambda: [read_text_file(path, is_wanted) for path in paths if is_wanted()],
            lambda outcomes: self._take_texts(files, outcomes),
        )

    def _take_texts(self, files: BeingRead, outcomes: list[AttachedText | Refused]) -> None:
        """They belong to the chat that was open; why one has none is said at once."""
        if files.unwanted.is_set():
            return
        self._reading.remove(files)
        if files.of != self._of:
            texts = (outcome for outcome in outcomes if isinstance(outcome, AttachedText))
            unsent = self._unsent.get(files.of, SaidWith(""))
            self._unsent[files.of] = SaidWith(unsent.text, (*unsent.attachments, *texts))
            outcomes = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        self._show_reading()
        if outcomes:
            self._composer.attach(outcomes)

    def _give_up_reading(self) -> None:
        """Of the files for the chat on show, whose names it says."""
        for files in [files for files in self._reading if files.of == self._of]:
            files.unwanted.set()
            self._reading.remove(files)
        self._show_reading()

    def _show_reading(self) -> None:
        names = [name for files in self._reading if files.of == self._of for name in files.names]
        self._composer.show_reading(names)

    def _count(self, attachments: tuple[AttachedText, ...]) -> None:
        self._models.count(tuple(map(fenced, attachments)))

    def show_counts(self, counted: TokensCounted) -> None:
        """Counts of attachments that are no longer the same are out of date."""
        if counted.texts == tuple(map(fenced, self._composer.attachments())):
            model = self._models.description
            self._composer.show_tokens(counted.counts, model.context_length if model else None)

    def _count_again(self) -> None:
        """Another model has other tokens, and other room."""
        attachments = self._composer.attachments()
        self._composer.show_tokens([None] * len(attachments), None)
        self._count(attachments)

    def _attach(self) -> None:
        paths, _ = QFileDialog.getOpenFileNames(self._composer, tr("Attach text files"))
        self._read([Path(path) for path in paths])

    def _send(self, text: str, attachments: tuple[AttachedText, ...]) -> None:
        """What could not be sent is put back."""
        if not self._chats.send(with_attachments(text, attachments)):
            self._composer.show_message(text, attachments)


class ChatKeeper(QObject):
    """Which chat is open and what is typed, in it and in others: the same at the next start."""

    def __init__(
        self,
        composer: ComposerController,
        chats: ChatController,
        reader: Reader,
        settings: KeptSettings,
        store: SessionStore,
        listed: ChatListController,
        being_shown: Path,
        parent: QObject | None = None,
    ) -> None:
        """reader: of the transcript, which has what is typed in messages. being_shown: a file that
        names the chat that is being laid out or answered, so that one whose showing ends the
        program is not shown at each start.
        """
        super().__init__(parent)
        self._composer, self._chats, self._store = composer, chats, store
        self._reader, self._settings = reader, settings
        self._being_shown = being_shown
        self._calm = QTimer(self, interval=CALM_MS)
        self._calm.timeout.connect(self._forget_if_shown)
        chats.opened.connect(self._mark_being_shown)
        self._later = QTimer(self, singleShot=True, interval=KEPT_AFTER_MS)
        self._later.timeout.connect(lambda: settings.change(self.settings()))
        for happened in (chats.opened, composer.typed, reader.typed, listed.changed):
            happened.connect(self._soon)

    def _soon(self) -> None:
        if not self._later.isActive():
            self._later.start()

    def settings(self) -> AppSettings:
        """Those that hold, with what is open and typed now."""
        return replace(
            self._settings.value,
            last_chat=self._chats.chat.chat_id,
            unsent=self._there("chat", self._composer.unsent()),
            rewritten=self._there("message", self._reader.unsent),
        )

    def _there(self, kind: Literal["chat", "message"], texts: Mapping[int, str]) -> dict[int, str]:
        """Those of what was not deleted for good, as far as that can be told."""
        try:
            there = {NEW} | self._store.there(kind, texts)
        except StoreError:
            return dict(texts)
        return {of: text for of, text in texts.items() if of in there}

    def _mark_being_shown(self) -> None:
        chat_id = self._chats.chat.chat_id
        with suppress(OSError):
            if chat_id is None:
                self._being_shown.unlink(missing_ok=True)
            else:
                self._being_shown.write_text(str(chat_id))
                self._calm.start()

    def _forget_if_shown(self) -> None:
        if not self._reader.turns.is_busy and self._chats.running is None:
            self._forget_being_shown()

    def _forget_being_shown(self) -> None:
        self._calm.stop()
        with suppress(OSError):
            self._being_shown.unlink(missing_ok=True)

    def restore(self, kept: AppSettings, chats: Mapping[int, str]) -> str:
        """As it was then, as far as it is still there; a new chat is on show. chats: titles of
        those not in the bin. Words of the chat that was being shown when the program died, and is
        not opened.
        """
        is_risky = self._was_being_shown(kept.last_chat)
        self._composer.restore(self._there("chat", kept.unsent))
        self._reader.unsent.update(self._there("message", kept.rewritten))
        self._chats.begin(kept.new_chat)
        if kept.last_chat is None or kept.last_chat not in chats:
            return ""
        if is_risky:
            return tr(ENDED_SUDDENLY, title=chats[kept.last_chat] or tr("New chat"))
        self._chats.open(kept.last_chat)
        return ""

    def _was_being_shown(self, chat_id: int | None) -> bool:
        try:
            with self._being_shown.open("rb") as file:
                return file.read(20) == str(chat_id).encode()
        except OSError:
            return False

    def close(self) -> None:
        """Nothing is kept any more."""
        self._later.stop()
        self._forget_being_shown()
