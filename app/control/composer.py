"""Joins the composer with the chat on show: what is sent, stopped, attached and kept."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import NamedTuple

from PySide6.QtCore import QObject

from app.library.text_file import read_text_file
from app.start.threads import Beside
from app.state.answers import Answers
from app.state.chat import ChatState
from app.state.drafts import NEW, Drafts
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.attached_text import (
    AttachedText,
    Refused,
    SaidWith,
    fenced,
    with_attachments,
)
from app.window.composer import Composer
from app.window.controls.file_dialogs import choose_files
from app.window.language import tr
from app.worker.replies import TokensCounted
from mlx_engine.values.words import Words

NO_MODEL = Words("Open or drop a model first")


class BeingRead(NamedTuple):
    """Files attached to a message of the chat `of`; `unwanted` once nobody waits for them."""

    of: int | None
    names: tuple[str, ...]
    unwanted: Event


class ComposerController(QObject):
    """Keeps the composer's button true, and never loses what was typed."""

    def __init__(
        self,
        composer: Composer,
        chat: ChatState,
        answers: Answers,
        models: ModelState,
        drafts: Drafts,
        edit_last: Callable[[], None],
        settings: KeptSettings,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._composer, self._chat, self._models = composer, chat, models
        self._drafts, self._settings, self._disk = drafts, settings, Beside(self)
        self._reading: list[BeingRead] = []
        composer.box.textChanged.connect(self._keep)
        composer.sent.connect(self._send)
        composer.stop_wanted.connect(chat.stop)
        composer.box.edit_last_wanted.connect(edit_last)
        composer.attach_button.clicked.connect(self._attach)
        composer.box.files_pasted.connect(self._read)
        composer.row.stop_reading.clicked.connect(self._give_up_reading)
        composer.attachments_changed.connect(self._count)
        answers.changed.connect(self.refresh)
        chat.opened.connect(self.show_unsent)
        chat.changed.connect(self.refresh)
        models.changed.connect(self.refresh)
        models.switched.connect(self._count_again)

    def refresh(self) -> None:
        """Send, stop, or why nothing can be sent."""
        if self._chat.running is not None:
            self._composer.show_answering()
        elif not self._models.can_answer:
            self._composer.show_ready(NO_MODEL)
        else:
            self._composer.show_ready()

    def _keep(self) -> None:
        self._chat.unsent = self._composer.message()

    def show_unsent(self) -> None:
        """The unsent text of the chat on show."""
        self._composer.show_message(*self._chat.unsent)
        self._show_reading()

    def attach(self, paths: list[Path]) -> None:
        """Attach files that were dropped."""
        self._read(paths)
        self._composer.setFocus()

    def _read(self, paths: list[Path]) -> None:
        """Beside the window: they may lie on a slow disk, and documents take long."""
        if not paths:
            return
        files = BeingRead(self._chat.chat_id, tuple(path.name for path in paths), Event())
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
        if files.of != self._chat.chat_id:
            texts = (outcome for outcome in outcomes if isinstance(outcome, AttachedText))
            of = files.of or NEW
            unsent = self._drafts.of_chat(of)
            self._drafts.keep(of, SaidWith(unsent.text, (*unsent.attachments, *texts)))
            outcomes = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        self._show_reading()
        if outcomes:
            self._composer.attach(outcomes)

    def _give_up_reading(self) -> None:
        """Of the files for the chat on show, whose names it says."""
        for files in [files for files in self._reading if files.of == self._chat.chat_id]:
            files.unwanted.set()
            self._reading.remove(files)
        self._show_reading()

    def _show_reading(self) -> None:
        here = [files for files in self._reading if files.of == self._chat.chat_id]
        names = [name for files in here for name in files.names]
        self._composer.show_reading(names)

    def _count(self, attachments: tuple[AttachedText, ...]) -> None:
        self._keep()
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
        title, every_kind = tr("Attach text files"), ""
        paths = choose_files(self._composer, title, every_kind, self._settings)
        self._read([Path(path) for path in paths])

    def _send(self, text: str, attachments: tuple[AttachedText, ...]) -> None:
        """Keep text and attachments of a question that could not be sent."""
        if self._chat.send(with_attachments(text, attachments)):
            self._composer.show_message("")
