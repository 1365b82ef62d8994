"""The library: models found on this computer, a filter, downloads, and ways to get another."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from app.values.models import DownloadFigures, FoundModel
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortLabel, label, paragraph, say
from app.window.controls.layouts import Wide, column, row
from app.window.models.downloads import DownloadList
from app.window.models.library_list import LibraryList


class FolderSection(QWidget):
    """Signals: `add_wanted`, `remove_wanted`(path)."""

    add_wanted = Signal()
    remove_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Your folders")
        self._rows: list[QWidget] = []
        self._add = QPushButton("Add folder…")
        self._add.setToolTip("Look for models in a folder of yours, at every start")
        self._add.clicked.connect(self.add_wanted)
        top = row(Wide(label("Your folders", "muted")), self._add)
        self._column = column(top, of=self, spacing=0)

    def show_folders(self, folders: Sequence[Path], missing: Sequence[Path] = ()) -> None:
        """Show these in their order; missing: those that are not there now."""
        for old in self._rows:
            self._column.removeWidget(old)
            old.deleteLater()
        self._rows = [self._row(str(folder), folder in missing) for folder in folders]
        for new in self._rows:
            self._column.addWidget(new)

    def _row(self, folder: str, is_missing: bool) -> QWidget:
        path = ShortLabel(Qt.TextElideMode.ElideMiddle)
        path.show_text(f"{folder} · it is not there now" if is_missing else folder)
        path.setProperty("role", "problem" if is_missing else "note")
        remove = IconButton("close", f"Look no more in {folder}")
        remove.clicked.connect(lambda: self.remove_wanted.emit(folder))
        line = QWidget()
        row(Wide(path), remove, of=line, margins=(12, 0, 0, 0))
        return line


NOTHING = "No models found. Drop a model folder or a .gguf file on the window, or get one below."

DOWNLOADS_SHARE = 0.3
"""Of the page's height."""


class LibraryView(QWidget):
    """Signals: `open_wanted`, `get_wanted`(name or link on the hub).

    `list`, `folders` and `downloads` say what is wanted of the models in them.
    """

    open_wanted = Signal()
    get_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Library")
        self._entries: tuple[FoundModel, ...] = ()
        self._filter = QLineEdit()
        self._filter.setAccessibleName("Filter models")
        self._filter.setPlaceholderText("Filter")
        self._filter.setClearButtonEnabled(True)
        self._open = QPushButton("Open…")
        self._open.setToolTip("Choose a model folder or a .gguf file")
        self.list = LibraryList()
        self.folders = FolderSection()
        self._empty = paragraph("", "muted")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._wanted = QLineEdit()
        self._wanted.setAccessibleName("Model to download")
        self._wanted.setPlaceholderText("owner/name, owner/name:Q4_K_M or a link")
        self._get = QPushButton("Find")
        self._get.setToolTip("Ask the hub for its size; nothing is fetched before you agree")
        self._problem = paragraph("", "problem")
        self.downloads = DownloadList()
        column(
            row(Wide(self._filter), self._open),
            Wide(self.list),
            Wide(self._empty),
            self.folders,
            self.downloads,
            label("From Hugging Face", "muted"),
            row(Wide(self._wanted), self._get),
            self._problem,
            of=self,
            margins=(24, 0, 24, 16),
            spacing=8,
        )
        self._filter.textChanged.connect(lambda _: self._refresh())
        self._open.clicked.connect(self.open_wanted)
        self.list.resume_wanted.connect(self.get_wanted)
        self._wanted.textChanged.connect(self._allow_download)
        self._wanted.returnPressed.connect(self._ask)
        self._get.clicked.connect(self._ask)
        self._allow_download("")
        self.show_entries(())

    def show_entries(self, entries: Sequence[FoundModel]) -> None:
        """Show these models; the filter stays."""
        self._entries = tuple(entries)
        self._refresh()

    def show_downloads(self, downloads: Sequence[DownloadFigures]) -> None:
        """Show these downloads, in their order."""
        self.downloads.show_downloads(downloads)
        self._fit_downloads()

    def show_problem(self, words: str) -> None:
        """What is wrong with the download that was asked for, "" for nothing."""
        say(self._problem, words)

    def _fit_downloads(self) -> None:
        self.downloads.fit(round(self.height() * DOWNLOADS_SHARE))

    def _refresh(self) -> None:
        words = self._filter.text().casefold().split()
        shown = [entry for entry in self._entries if matches(entry, words)]
        self.list.show_entries(shown)
        self.list.setVisible(bool(shown))
        none_match = f"No model matches “{self._filter.text()}”."
        say(self._empty, "" if shown else none_match if self._entries else NOTHING)

    def _allow_download(self, text: str) -> None:
        self._get.setEnabled(bool(text.strip()))
        self.show_problem("")

    def _ask(self) -> None:
        if self._wanted.text().strip():
            self.get_wanted.emit(self._wanted.text().strip())

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Another height, another share."""
        super().resizeEvent(event)
        self._fit_downloads()


def matches(entry: FoundModel, words: Sequence[str]) -> bool:
    """Whether all (case-folded) words are somewhere in it."""
    text = f"{entry.name} {entry.detail} {entry.path}".casefold()
    return all(word in text for word in words)
