"""Dialogs for files: opening a model, chats in and out, the log, and what Headstart is."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.store.session_store import SessionStore
from app.store.transfer import export_chat, import_chat
from app.values.chat_settings import ChatSettings
from app.values.errors import StoreError

MODELS = "Models and texts (*.gguf *.safetensors *.json *.txt *.md *.py *);;All files (*)"
CHATS = "Markdown (*.md);;JSON with everything (*.json)"
ABOUT = (
    "Headstart chats with language models on your Mac. The model's own multi-token-prediction "
    "heads draft, one batched pass of the model verifies: the same words, sooner."
)


class FileController(QObject):
    """Signals:
    opened: paths the user chose.
    imported: the id of a chat that came from a file.
    told: something to know, in words.
    failed: why it could not be done, in words.
    """

    opened = Signal(list)
    imported = Signal(int)
    told = Signal(str)
    failed = Signal(str)

    def __init__(
        self,
        store: SessionStore,
        window: QWidget,
        log_file: Path,
        defaults: Callable[[], ChatSettings],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._window = store, window
        self._log_file, self._defaults = log_file, defaults

    def choose(self) -> None:
        """Ask for a model or text files; a folder is chosen by any file in it."""
        paths, _ = QFileDialog.getOpenFileNames(self._window, "Open", "", MODELS)
        if paths:
            self.opened.emit(paths)

    def attach(self) -> list[Path]:
        """Ask for text files."""
        paths, _ = QFileDialog.getOpenFileNames(self._window, "Attach text files")
        return [Path(path) for path in paths]

    def export_chat(self, chat_id: int) -> None:
        """Ask where to, and write the chat there."""
        name = self._file_name(chat_id)
        path, kind = QFileDialog.getSaveFileName(self._window, "Export chat", name, CHATS)
        if path:
            self.export_to(chat_id, _with_ending(Path(path), kind))

    def export_to(self, chat_id: int, path: Path) -> None:
        """Write a chat as .md or .json."""
        try:
            export_chat(self._store, chat_id, path)
        except StoreError as error:
            self.failed.emit(str(error))
        else:
            self.told.emit(f"The chat was written to {path}.")

    def import_chat(self) -> None:
        """Ask for files, and add each as a chat."""
        paths, _ = QFileDialog.getOpenFileNames(
            self._window, "Import chats", "", "Chats (*.md *.json)"
        )
        for path in paths:
            self.import_from(Path(path))

    def import_from(self, path: Path) -> None:
        """Add the chat in a file."""
        try:
            imported = import_chat(self._store, path, self._defaults())
        except StoreError as error:
            self.failed.emit(str(error))
            return
        self.imported.emit(imported.chat_id)
        if imported.notes:
            self.told.emit(" ".join(imported.notes))

    def open_link(self, link: str) -> None:
        """In the browser; only what the web has, never a file or a program of this computer."""
        url = QUrl(link, QUrl.ParsingMode.StrictMode)
        if url.isValid() and url.scheme() in ("http", "https", "mailto"):
            QDesktopServices.openUrl(url)
        else:
            self.told.emit(f"This link is not opened: {link[:200]}")

    def show_log(self) -> None:
        """Open the log with whatever shows text here."""
        if self._log_file.exists():
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._log_file)))
        else:
            self.told.emit(f"Nothing has been logged yet; it will be in {self._log_file}.")

    def show_about(self) -> None:
        """What this is."""
        box = QMessageBox(QMessageBox.Icon.NoIcon, "About Headstart", ABOUT, parent=self._window)
        box.setInformativeText("Apache License 2.0")
        box.open()

    def _file_name(self, chat_id: int) -> str:
        try:
            title = self._store.chats.get(chat_id).title or "Chat"
        except StoreError:
            title = "Chat"
        kept = "".join(c if c.isalnum() or c in " -_" else " " for c in title)
        return " ".join(kept.split())[:80] + ".md"


def _with_ending(path: Path, kind: str) -> Path:
    """The ending of the kind that was chosen, unless one was typed."""
    if path.suffix.lower() in (".md", ".json"):
        return path
    return path.with_name(path.name + (".json" if "json" in kind else ".md"))
