"""Joins the page of models with what is on the disk, recent, or to be deleted, and downloads."""

import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QFile, QObject, QProcess, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.control.hub import HubController
from app.library.find_models import FoundHere, look_around, own_files, usual_places
from app.library.machine import Machine, advice
from app.start.threads import Beside
from app.state.card import OfferedModel
from app.state.downloads import Downloads
from app.state.settings import KeptSettings
from app.values.app_settings import (
    BUILT_IN,
    with_model_folder,
    without_model_folder,
    without_recent_model,
)
from app.values.models import BUILT_IN_NAME, BUILT_IN_PLACE, DownloadFigures, FoundModel
from app.window.language import tr
from app.window.widgets import Widgets
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import HubModel
from mlx_engine.values.words import Words, size_words

NO_TRASH = Words(
    "{path} could not be moved to the trash: its disk may have none, or may not be written to."
)


class DeleteController(QObject):
    """Signals: `deleted`(FoundModel) is in the trash; `failed`: why it is not, in words."""

    deleted = Signal(object)
    failed = Signal(object)

    def __init__(self, page: QWidget, parent: QObject | None = None) -> None:
        """page: where the question is asked."""
        super().__init__(parent)
        self._page = page
        self._disk = Beside(self)

    def ask(self, model: FoundModel) -> None:
        """Say what would be deleted, and delete it if that is agreed to."""
        size = size_words(model.nbytes)
        question = (
            tr("Move {name} ({size}) to the Trash?", name=model.name, size=size)
            if model.nbytes
            else tr("Move {name} to the Trash?", name=model.name)
        )
        box = QMessageBox(QMessageBox.Icon.Question, tr("Delete from disk"), "", parent=self._page)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(question)
        after = tr("The space is free once the Trash is emptied.")
        box.setInformativeText(f"{model.path}\n{after}")
        delete = box.addButton(tr("Move to Trash"), QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        delete.clicked.connect(lambda: self._delete(model))
        box.open()

    def _delete(self, model: FoundModel) -> None:
        """Beside the window, for disks may be slow."""

        def move() -> str:
            try:
                kept = [path for path in own_files(model.path) if not to_trash(path)]
            except OSError as error:
                return f"{model.path}: {error.strerror or error}."
            return tr(NO_TRASH, path=kept[0]) if kept else ""

        def tell(problem: str) -> None:
            if problem:
                self.failed.emit(problem)
            else:
                self.deleted.emit(model)

        self._disk.run_each(move, tell)


POCKET = FoundModel(
    BUILT_IN_NAME, Path(BUILT_IN), BUILT_IN_PLACE, 7_564_480, note=Words("1 drafting head")
)
QUESTIONS = (
    "How does drafting work?",
    "How do I read a file line by line?",
    "What does os.path.join do?",
)
"""In English, which is all that the built-in model reads."""


class LibraryController(QObject):
    """Folders are searched beside the window, for disks may be slow."""

    def __init__(
        self,
        widgets: Widgets,
        offered: OfferedModel,
        hub: Hub,
        settings: KeptSettings,
        machine: Machine,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._library, self._start, self._notice = widgets.library, widgets.start, widgets.notice
        self._head = widgets.head
        self._window, self._offered = widgets.window, offered
        self.downloads = self._downloads = Downloads(hub, settings, self)
        self._settings = settings
        self.hub = HubController(widgets.library.hub, hub, machine, self._downloads, self)
        self._places = usual_places(Path.home(), hub.cache)
        self._disk, self.delete = Beside(self), DeleteController(widgets.library, self)
        self._connect()
        self._start.show_questions(QUESTIONS)
        self._start.show_advice(advice(machine))
        self._show_folders(())
        self._show_downloads()

    def _connect(self) -> None:
        library, downloads, offered = self._library, self._downloads, self._offered
        library.list.chosen.connect(self._choose)
        library.get_wanted.connect(lambda hub_id: self.get(HubModel(hub_id)))
        wishes = library.downloads.wishes
        wishes.pause_wanted.connect(downloads.pause)
        wishes.resume_wanted.connect(downloads.resume)
        wishes.cancel_wanted.connect(downloads.cancel)
        wishes.load_wanted.connect(offered.offer)
        library.hub.load_wanted.connect(offered.offer)
        library.list.reveal_wanted.connect(self._reveal)
        library.list.forget_wanted.connect(self._forget)
        library.list.delete_wanted.connect(self.delete.ask)
        self.delete.deleted.connect(self._lose)
        self.delete.failed.connect(self._fail_to_delete)
        library.folders.add_wanted.connect(self._ask_folder)
        library.folders.remove_wanted.connect(self.remove_folder)
        self._start.chosen.connect(self._choose)
        self._start.get.clicked.connect(self._show_hub)
        downloads.changed.connect(self._show_downloads)
        downloads.completed.connect(self._arrive)

    def refresh(self) -> None:
        """Look again; the page shows what is known until then."""
        value = self._settings.value
        recent = tuple(path for path in value.recent_models if path != BUILT_IN)
        places, own = self._places, value.model_folders
        self._disk.run(lambda: look_around(places, own, recent), self._show)

    def get(self, model: HubModel) -> None:
        """Show what a download would fetch, ready to begin."""
        self._show_hub()
        self.hub.show(model)

    def _show_hub(self) -> None:
        self._window.show_page("library")
        self._library.show_place("hub")
        self._library.hub.setFocus()

    def add_folder(self, folder: str) -> None:
        """Look for models there too, from now on."""
        self._window.show_page("library")
        self._settings.change(with_model_folder(self._settings.value, Path(folder)))
        self._show_folders(())
        self.refresh()

    def remove_folder(self, folder: str) -> None:
        """Look there no more; its files stay as they are."""
        self._settings.change(without_model_folder(self._settings.value, Path(folder)))
        self._show_folders(())
        self.refresh()

    def close(self) -> None:
        """The program ends."""
        self._disk.forget()
        self.hub.close()
        self._downloads.close()

    def _show(self, found: FoundHere) -> None:
        entries = list(dict.fromkeys((POCKET, *found.models)))
        self._library.show_entries(entries)
        recent = [entry for entry in entries if entry.is_recent]
        self._start.show_recent(recent)
        self._head.show_recent([entry for entry in (*recent, POCKET) if not entry.problem])
        self._show_folders(found.missing)

    def _show_folders(self, missing: Sequence[Path]) -> None:
        self._library.folders.show_folders(self._settings.value.model_folders, missing)

    def _choose(self, model: FoundModel) -> None:
        self._offered.offer(None if model.is_built_in else str(model.path))

    def _show_downloads(self) -> None:
        self._library.show_downloads(self._downloads.figures)

    def _arrive(self, figures: DownloadFigures) -> None:
        self._notice.offer(tr("{name} is downloaded.", name=figures.name), figures.path)
        self.refresh()

    def _lose(self, model: FoundModel) -> None:
        """It was deleted."""
        self._downloads.forget(str(model.path))
        self._forget(str(model.path))

    def _ask_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self._library, tr("Look for models in"))
        if folder:
            self.add_folder(folder)

    def _reveal(self, path: str) -> None:
        if not reveal(path):
            self._library.show_problem(tr("{path} is no longer there.", path=path))

    def _fail_to_delete(self, words: str) -> None:
        """Some of it may be gone."""
        self._library.show_problem(words)
        self.refresh()

    def _forget(self, path: str) -> None:
        self._library.show_problem("")
        self._settings.change(without_recent_model(self._settings.value, path))
        self.refresh()


def to_trash(path: Path) -> bool:
    """Moved to where its user can take it back; False where that cannot be."""
    return QFile(str(path)).moveToTrash()


def reveal(path: str) -> bool:
    """Selected in the Finder on a Mac; elsewhere its folder is opened. False: it is not there."""
    place = Path(path)
    if not place.exists():
        return False
    if sys.platform == "darwin":
        return QProcess.startDetached("/usr/bin/open", ["-R", str(place)])[0]
    folder = place if place.is_dir() else place.parent
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
