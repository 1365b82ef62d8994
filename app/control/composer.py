"""Joins the composer with the chat on show: what is sent, stopped, attached and edited."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog

from app.control.answers import Answers
from app.control.chat import ChatController
from app.control.models import ModelController
from app.library.text_file import read_text_file
from app.start.threads import Beside
from app.values.attached_text import AttachedText, fenced, with_attachments
from app.window.composer.composer import Composer
from app.worker.replies import TokensCounted

NO_MODEL = "Open or drop a model first"


class ComposerController(QObject):
    """Keeps the composer's button true, and never loses what was typed."""

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
        composer.sent.connect(self._send)
        composer.stop_wanted.connect(chats.stop)
        composer.edit_last_wanted.connect(edit_last)
        composer.attach_wanted.connect(self._attach)
        composer.files_pasted.connect(self._read)
        composer.attachments_changed.connect(self._count)
        models.counted.connect(self._show_counts)
        answers.changed.connect(self.refresh)
        chats.opened.connect(self.refresh)
        models.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Send, stop, or why nothing can be sent."""
        if self._chats.running is not None:
            self._composer.show_answering()
        elif self._models.description is None and self._models.loading is None:
            self._composer.show_ready(NO_MODEL)
        else:
            self._composer.show_ready()

    def attach(self, paths: list[Path]) -> None:
        """Attach files that were dropped."""
        self._read(paths)
        self._composer.setFocus()

    def _read(self, paths: list[Path]) -> None:
        """Beside the window; they may lie on a slow disk."""
        self._disk.run_each(lambda: [read_text_file(path) for path in paths], self._composer.attach)

    def _count(self, attachments: tuple[AttachedText, ...]) -> None:
        self._models.count(tuple(map(fenced, attachments)))

    def _show_counts(self, counted: TokensCounted) -> None:
        """Counts of attachments that are no longer the same are out of date."""
        if counted.texts == tuple(map(fenced, self._composer.attachments())):
            self._composer.show_tokens(counted.counts)

    def _attach(self) -> None:
        paths, _ = QFileDialog.getOpenFileNames(self._composer, "Attach text files")
        self._read([Path(path) for path in paths])

    def _send(self, text: str, attachments: tuple[AttachedText, ...]) -> None:
        """What could not be sent is put back."""
        if not self._chats.send(with_attachments(text, attachments)):
            self._composer.show_message(text, attachments)
