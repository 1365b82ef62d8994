"""Models on this computer, and the folders that are searched for them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QFile, QObject

from app.library.find_models import FoundHere, look_around, own_files, usual_places
from app.library.machine import Machine, first_choices
from app.library.model_card import with_headers
from app.start.threads import LatestTask
from app.state.downloads import Downloads
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.state.state import State
from app.values.app_settings import (
    BUILT_IN,
    settings_of,
    with_model_folder,
    without_model_folder,
    without_recent_model,
)
from app.values.models import BUILT_IN_NAME, BUILT_IN_PLACE, FoundModel
from mlx_engine.values.words import Words

POCKET = FoundModel(
    BUILT_IN_NAME,
    Path(BUILT_IN),
    BUILT_IN_PLACE,
    7_564_480,
    parameters=6_846_768,
    format=Words("{bits}-bit {kind}", bits=8, kind="MLX"),
    heads=True,
    fit="fits",
)
NOT_IN_TRASH = Words(
    "{path} could not be moved to the Trash: its disk may have none, or may not be written to."
)


class KnownModels(State):
    """Searches folders in a background thread: names and sizes first, then headers.

    models: the built-in model, recent ones, then by folder. missing: the user's folders that do not
    exist. problem: why a model could not be deleted, in words, "" for nothing. suggestions: a few
    models of the hub that suit this machine. usable_bytes: memory for models. Signal `changed`: any
    of these.
    """

    def __init__(
        self,
        models: ModelState,
        downloads: Downloads,
        settings: KeptSettings,
        machine: Machine,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._models, self._downloads = models, downloads
        self._settings, self._machine = settings, machine
        self.models: tuple[FoundModel, ...] = (POCKET,)
        self.missing: tuple[Path, ...] = ()
        self.problem = ""
        self.suggestions, self.usable_bytes = first_choices(machine), machine.usable_bytes
        self._headers: dict[Path, FoundModel] = {}
        self._has_looked = False
        self._disk, self._trash = LatestTask(self), LatestTask(self)
        models.switched.connect(self._follow_model)
        downloads.completed.connect(self.refresh)

    @property
    def folders(self) -> Sequence[Path]:
        """The user's folders that are searched for models."""
        return self._settings.value.model_folders

    @property
    def recent(self) -> tuple[FoundModel, ...]:
        """Models used before, newest first, without the built-in one."""
        return tuple(model for model in self.models if model.is_recent)

    @property
    def offered_again(self) -> tuple[FoundModel, ...]:
        """Models in the menu to switch to: recent ones, and the built-in one."""
        return tuple(model for model in (*self.recent, POCKET) if not model.problem)

    @property
    def is_first_use(self) -> bool:
        """Whether to show the first steps: no model but the built-in one was used so far."""
        return self._settings.value.is_new and self._has_looked

    def refresh(self) -> None:
        """Search for models again; the list stays until then."""
        value = self._settings.value
        recent = tuple(path for path in value.recent_models if path != BUILT_IN)
        places = usual_places(Path.home(), self._downloads.folders)
        self._disk.run(lambda: look_around(places, value.model_folders, recent), self._take)

    def add_folder(self, folder: Path) -> None:
        """Add a folder to those that are searched."""
        self._settings.change(with_model_folder(self._settings.value, folder))
        self._tell()

    def remove_folder(self, folder: Path) -> None:
        """Stop looking in a folder; its files stay."""
        self._settings.change(without_model_folder(self._settings.value, folder))
        self._tell()

    def forget(self, path: str) -> None:
        """Remove a model from the recent ones."""
        self._settings.change(without_recent_model(self._settings.value, path))
        self._tell()

    def delete(self, model: FoundModel) -> None:
        """Move the files of a model to the Trash, in a background thread."""

        def move() -> str:
            try:
                kept = [path for path in own_files(model.path) if not to_trash(path)]
            except OSError as error:
                return f"{model.path}: {error.strerror or error}."
            return Words(NOT_IN_TRASH.template, path=kept[0]) if kept else ""

        def take(problem: str) -> None:
            if problem:  # some of it may be gone
                self._tell(problem)
            else:
                self._models.forget(str(model.path))
                self._downloads.forget(str(model.path))
                self.forget(str(model.path))

        self._trash.run_each(move, take)

    def forget_problem(self) -> None:
        """It was read: show it no longer."""
        self.problem = ""
        self.changed.emit()

    def close(self) -> None:
        """Stop waiting for background searches."""
        self._disk.forget()

    def _follow_model(self) -> None:
        if self._models.in_use is not None and self._models.in_use.path is not None:
            self.end_first_use()
        self.refresh()

    def end_first_use(self) -> None:
        """Hide the first steps permanently."""
        self._settings.change(replace(self._settings.value, is_new=False))
        self.changed.emit()

    def _tell(self, problem: str = "") -> None:
        self.problem = problem
        self.changed.emit()
        self.refresh()

    def _take(self, found: FoundHere) -> None:
        """Show the found models, then read their headers."""
        models = tuple(dict.fromkeys((POCKET, *found.models)))
        self.missing = found.missing
        if not self._has_looked and any(not model.problem for model in found.models):
            self.end_first_use()
        self._has_looked = True
        self._show(models)
        machine, value = self._machine, self._settings.value

        def read() -> tuple[FoundModel, ...]:
            told = (
                with_headers(model, machine, settings_of(value, str(model.path)).load.heads)
                for model in models
            )
            return tuple(model for model in told if model is not None)

        self._disk.run(read, self._take_headers)

    def _take_headers(self, models: tuple[FoundModel, ...]) -> None:
        self._headers = {model.path: model for model in models}
        self._show(models)

    def _show(self, models: tuple[FoundModel, ...]) -> None:
        self.models = tuple(map(self._with_known_headers, models))
        self.changed.emit()

    def _with_known_headers(self, model: FoundModel) -> FoundModel:
        known = self._headers.get(model.path)
        if known is None or model.problem or known.nbytes != model.nbytes:
            return model
        return replace(known, name=model.name, place=model.place)


def to_trash(path: Path) -> bool:
    """Move a file or folder to the Trash; False if that failed."""
    return QFile(str(path)).moveToTrash()
