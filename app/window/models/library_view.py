"""The page of models: those on this computer, those on the hub, and downloads below both."""

import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QPoint, QProcess, Qt, QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QFocusEvent,
    QGuiApplication,
    QHideEvent,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QLineEdit, QMenu, QPushButton, QTreeWidgetItem, QWidget
from typing_extensions import override

from app.start.threads import LatestTask
from app.state.card import OfferedModel
from app.state.downloads import Downloads
from app.state.hub import HubState
from app.state.known_models import KnownModels
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.models import FoundModel
from app.window.controls.choices import Option, Segments
from app.window.controls.dialogs import choose_folder, confirm
from app.window.controls.fields import add_clear_button
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortLabel, label, paragraph, say, set_tip
from app.window.controls.layouts import STRETCH, Wide, column, row, stacked
from app.window.language import said, tr
from app.window.models.downloads import DownloadList
from app.window.models.hub_view import HubView
from app.window.models.model_table import ABOUT, ModelRow, ModelTable, goes_down, grouped
from mlx_engine.values.words import Words, size_words

NOTHING = Words(
    "No models found. Drop a model folder or a .gguf file on the window, or get one "
    "from Hugging Face."
)
DOWNLOADS_SHARE = 0.3
"""Largest share of the page's height for downloads."""
PLACES = (Option("here", Words("On this computer")), Option("hub", "Hugging Face"))


class FolderSection(QWidget):
    """Folders that are searched for models, and the one for downloads."""

    _known: KnownModels
    _downloads: Downloads

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Your folders"))
        self._rows: list[QWidget] = []
        self._shown, self._disk = Path(), LatestTask(self)
        self._add = QPushButton(tr("Add Folder…"))
        set_tip(self._add, tr("Look for models in this folder each time Headstart starts"))
        self._change = QPushButton(tr("Change…"))
        self._change.setAccessibleName(tr("Choose the download folder"))
        self._target = ShortLabel(Qt.TextElideMode.ElideMiddle)
        self._target.setProperty("role", "note")
        top = row(Wide(label(tr("Your folders"), "muted")), self._add)
        self._column = column(spacing=0)
        target = row(label(tr("Downloads go to"), "muted"), Wide(self._target), self._change)
        column(top, self._column, target, of=self, spacing=4)

    def watch(self, known: KnownModels, downloads: Downloads, settings: KeptSettings) -> None:
        """Show and change these folders."""
        self._known, self._downloads, self._settings = known, downloads, settings
        known.changed.connect(self._show_folders)
        downloads.changed.connect(self._follow_target)
        self._add.clicked.connect(self._add_folder)
        self._change.clicked.connect(self._change_target)
        self._show_folders()

    def _show_folders(self) -> None:
        for old in self._rows:
            self._column.removeWidget(old)
            old.deleteLater()
        missing = self._known.missing
        self._rows = [self._row(folder, folder in missing) for folder in self._known.folders]
        for new in self._rows:
            self._column.addWidget(new)

    def _row(self, folder: Path, is_missing: bool) -> QWidget:
        path = ShortLabel(Qt.TextElideMode.ElideMiddle)
        path.show_text(
            tr("{folder} · it is not there now", folder=folder) if is_missing else str(folder)
        )
        path.setProperty("role", "problem" if is_missing else "note")
        remove = IconButton("close", tr("Stop looking in {folder}", folder=folder))
        remove.clicked.connect(lambda: self._known.remove_folder(folder))
        line = QWidget()
        row(Wide(path), remove, of=line, margins=(12, 0, 0, 0))
        return line

    def _follow_target(self) -> None:
        """Update the download folder when it changes."""
        if self._downloads.folder != self._shown:
            self._show_target()

    def _show_target(self) -> None:
        """Show the download folder, then its free space."""
        self._shown = folder = self._downloads.folder
        self._target.show_text(str(folder))

        def show(free: int) -> None:
            size = tr("{size} free", size=size_words(free)) if free else ""
            self._target.show_text(" · ".join(filter(None, (str(folder), size))))

        self._disk.run(self._downloads.free_bytes, show)

    def _look_again(self) -> None:
        self._known.refresh()
        self._show_target()

    def _add_folder(self) -> None:
        if folder := choose_folder(self, tr("Look for models in"), self._settings):
            self._known.add_folder(Path(folder))

    def _change_target(self) -> None:
        if folder := choose_folder(self, tr("Download models to"), self._settings):
            self._downloads.use_folder(Path(folder))

    # Qt

    @override
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._look_again()

    @override
    def changeEvent(self, event: QEvent) -> None:
        """Look for models again after the user worked in another program."""
        super().changeEvent(event)
        is_switch = event.type() == QEvent.Type.ActivationChange
        if is_switch and self.isVisible() and self.isActiveWindow():
            self._look_again()


class ModelsHere(QWidget):
    """Models on this computer. open: button of the command that opens a model."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = QLineEdit()
        self.filter.setAccessibleName(tr("Filter models"))
        self.filter.setPlaceholderText(tr("Filter"))
        add_clear_button(self.filter)
        self.open = QPushButton(tr("Open…"))
        set_tip(self.open, tr("Choose a model folder or a .gguf file"))
        self.table = ModelTable(tr("Models on this computer"), range(ABOUT))
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        goes_down(self.filter, self.table)
        self.folders = FolderSection()
        self._empty = paragraph("", "muted")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._problem = paragraph("", "problem")
        top, tables = row(Wide(self.filter), self.open), (Wide(self.table), Wide(self._empty))
        column(top, *tables, self._problem, self.folders, of=self, spacing=8)
        self.filter.textChanged.connect(lambda _: self._refresh())
        self.table.taken.connect(self._take)
        self.table.customContextMenuRequested.connect(self._show_menu)

    def watch(
        self, known: KnownModels, models: ModelState, offered: OfferedModel, hub: HubState
    ) -> None:
        """Show the known models, with a mark on the one in use."""
        self._known, self._models, self._offered, self._hub = known, models, offered, hub
        known.changed.connect(self._refresh)
        models.switched.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        words, in_use = self.filter.text().casefold().split(), self._models.description
        unique = {model.path: model for model in reversed(self._known.models)}
        shown = [model for model in reversed(unique.values()) if matches(model, words)]
        self.table.show_rows(
            grouped(_row_of(model, in_use is not None and model.is_of(in_use)) for model in shown)
        )
        self.table.setVisible(bool(shown))
        none_match = tr("No model matches “{filter}”.", filter=self.filter.text())
        say(self._empty, "" if shown else none_match if self._known.models else NOTHING)
        say(self._problem, self._known.problem)

    def _take(self, model: FoundModel) -> None:
        """Open the card of a model, or continue its download."""
        if model.unfinished:
            self._hub.show(model.unfinished)
        elif not model.problem:
            self._offered.offer(None if model.is_built_in else str(model.path))

    def _show_menu(self, place: QPoint) -> None:
        """Open the menu of the row below the pointer, or of the current row."""
        menu = self.menu_of(self.table.itemAt(place) or self.table.currentItem())
        if menu is not None:
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(self.table.viewport().mapToGlobal(place))

    def menu_of(self, item: QTreeWidgetItem | None) -> QMenu | None:
        """Make the menu of a model's row, None for other lines."""
        model, known = self.table.entry_at(item), self._known
        if not isinstance(model, FoundModel):
            return None
        menu, path = QMenu(self), str(model.path)
        first = tr("Resume Download") if model.unfinished else tr("Load…")
        choose = menu.addAction(first, lambda: self._take(model))
        choose.setEnabled(not model.problem or bool(model.unfinished))
        if not model.is_built_in:
            menu.addAction(tr("Show in Folder"), lambda: self._reveal(path))
            menu.addAction(tr("Copy Path"), lambda: QGuiApplication.clipboard().setText(path))
        if model.is_recent:
            menu.addSeparator()
            menu.addAction(tr("Remove from Recent Models"), lambda: known.forget(path))
        if not model.is_built_in:
            menu.addSeparator()
            menu.addAction(tr("Move to Trash…"), lambda: self._ask_to_delete(model))
        return menu

    def _reveal(self, path: str) -> None:
        gone = tr("{path} is no longer there.", path=path)
        say(self._problem, "" if reveal(path) else gone)

    def _ask_to_delete(self, model: FoundModel) -> None:
        """Ask before a model is moved to the Trash."""
        size = size_words(model.nbytes)
        question = (
            tr("Move {name} ({size}) to the Trash?", name=model.name, size=size)
            if model.nbytes
            else tr("Move {name} to the Trash?", name=model.name)
        )
        after = tr("The space is free once the Trash is emptied.")
        details, verb = f"{model.path}\n{after}", tr("Move to Trash")
        confirm(self, question, details, verb, lambda: self._known.delete(model))


def _unnamed(model: FoundModel) -> str:
    """What is wrong with a model, without its name, which stands above it."""
    words = said(model.problem or model.refusal)
    return words.removeprefix(f"{model.path}: ").removeprefix(f"{model.path.name}: ")


def _row_of(model: FoundModel, is_in_use: bool) -> ModelRow:
    problem = model.problem
    if model.unfinished:
        problem = tr("{problem}: click to resume", problem=model.problem)
    elif model.problem or model.refusal:
        problem = tr("Cannot be loaded: {problem}", problem=_unnamed(model))
    where = tr("Comes with Headstart") if model.is_built_in else str(model.path)
    return ModelRow(
        model,
        model.label,
        model.base,
        model.parameters,
        said(model.format),
        model.nbytes,
        model.heads,
        model.fit,
        problem=problem,
        tip="\n".join(filter(None, (where, said(model.refusal)))),
        is_in_use=is_in_use,
        is_faint=bool(model.refusal or (model.problem and not model.unfinished)),
    )


class LibraryView(QWidget):
    """Shows the models `here` or on the `hub`, above the downloads."""

    _known: KnownModels | None = None

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Models"))
        self._places = Segments(tr("Where"))
        self._places.show_options(PLACES)
        self.here, self.hub, self.downloads = ModelsHere(), HubView(), DownloadList()
        self.open = self.here.open
        self._pages: dict[str, QWidget] = {"here": self.here, "hub": self.hub}
        self._stack = stacked(self.here, self.hub)
        parts = row(self._places, STRETCH), Wide(self._stack), self.downloads
        column(*parts, of=self, margins=(24, 0, 24, 16), spacing=8)
        self._places.chosen.connect(self._go_to)
        self.show_place("here")

    def watch(
        self,
        known: KnownModels,
        models: ModelState,
        offered: OfferedModel,
        downloads: Downloads,
        hub: HubState,
        settings: KeptSettings,
    ) -> None:
        """Pass these states to the parts of the page."""
        self._known = known
        self.here.watch(known, models, offered, hub)
        self.here.folders.watch(known, downloads, settings)
        self.hub.watch(hub, downloads, offered)
        self.downloads.watch(downloads, offered, hub)
        downloads.changed.connect(self._fit_downloads)
        hub.wanted.connect(lambda: self._go_to("hub"))
        self._fit_downloads()

    def show_place(self, where: str) -> None:
        """Show the models "here" or those on the "hub"."""
        self._places.set_value(where)
        self._stack.setCurrentWidget(self._pages[where])

    def _go_to(self, where: str) -> None:
        self.show_place(where)
        self.setFocus()

    def _fit_downloads(self) -> None:
        self.downloads.fit(round(self.height() * DOWNLOADS_SHARE))

    # Qt

    @override
    def focusInEvent(self, event: QFocusEvent) -> None:
        del event
        on_show = self._stack.currentWidget()
        wanted = self.hub if on_show is self.hub else self.here.filter
        wanted.setFocus(Qt.FocusReason.TabFocusReason)

    @override
    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if not event.spontaneous() and self._known and self._known.problem:
            self._known.forget_problem()

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_downloads()


def matches(model: FoundModel, words: Sequence[str]) -> bool:
    """Whether all (case-folded) words occur in a model's name, format or path."""
    text = f"{model.name} {model.detail} {model.format} {model.path}".casefold()
    return all(word in text for word in words)


def reveal(path: str) -> bool:
    """Select a file in the Finder, elsewhere open its folder; False if it does not exist."""
    place = Path(path)
    if not place.exists():
        return False
    if sys.platform == "darwin":
        return QProcess.startDetached("/usr/bin/open", ["-R", str(place)])[0]
    folder = place if place.is_dir() else place.parent
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
