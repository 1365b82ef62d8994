"""The library: models found on this computer, those on the hub, and downloads below both."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QResizeEvent
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from app.values.models import DownloadFigures, FoundModel
from app.window.controls.choices import Option, Segments
from app.window.controls.fields import add_clear_button
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortLabel, label, paragraph, say, set_tip
from app.window.controls.layouts import STRETCH, Wide, column, row, stacked
from app.window.language import tr
from app.window.models.downloads import DownloadList
from app.window.models.hub_view import ROOMY, HubView
from app.window.models.library_list import LibraryList
from app.window.models.two_line_list import goes_down
from mlx_engine.values.words import Words


class FolderSection(QWidget):
    """Signals: `add_wanted`, `remove_wanted`(path)."""

    add_wanted = Signal()
    remove_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Your folders"))
        self._rows: list[QWidget] = []
        self._add = QPushButton(tr("Add folder…"))
        set_tip(self._add, tr("Look for models in this folder each time Headstart starts"))
        self._add.clicked.connect(self.add_wanted)
        top = row(Wide(label(tr("Your folders"), "muted")), self._add)
        self._column = column(top, of=self, spacing=0)

    def show_folders(self, folders: Sequence[Path], missing: Sequence[Path]) -> None:
        """Show these in their order; missing: those that are not there now."""
        for old in self._rows:
            self._column.removeWidget(old)
            old.deleteLater()
        self._rows = [self._row(str(folder), folder in missing) for folder in folders]
        for new in self._rows:
            self._column.addWidget(new)

    def _row(self, folder: str, is_missing: bool) -> QWidget:
        path = ShortLabel(Qt.TextElideMode.ElideMiddle)
        path.show_text(
            tr("{folder} · it is not there now", folder=folder) if is_missing else folder
        )
        path.setProperty("role", "problem" if is_missing else "note")
        remove = IconButton("close", tr("Stop looking in {folder}", folder=folder))
        remove.clicked.connect(lambda: self.remove_wanted.emit(folder))
        line = QWidget()
        row(Wide(path), remove, of=line, margins=(12, 0, 0, 0))
        return line


NOTHING = Words(
    "No models found. Drop a model folder or a .gguf file on the window, or get one "
    "from Hugging Face."
)

DOWNLOADS_SHARE = 0.3
"""Of the page's height."""


PLACES = (Option("here", Words("On this computer")), Option("hub", "Hugging Face"))


class LibraryView(QWidget):
    """open: button of a command. Signal `get_wanted`(name on the hub of a download to go on with).

    `list`, `folders`, `hub` and `downloads` say what is wanted of the models in them.
    """

    get_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Library"))
        self._entries: tuple[FoundModel, ...] = ()
        self._places = Segments(tr("Where"))
        self._places.show_options(PLACES)
        self._places.setStyleSheet(ROOMY)
        self._filter = QLineEdit()
        self._filter.setAccessibleName(tr("Filter models"))
        self._filter.setPlaceholderText(tr("Filter"))
        add_clear_button(self._filter)
        self.open = QPushButton(tr("Open…"))
        set_tip(self.open, tr("Choose a model folder or a .gguf file"))
        self.list = LibraryList()
        goes_down(self._filter, self.list)
        self.folders = FolderSection()
        self._empty = paragraph("", "muted")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._problem = paragraph("", "problem")
        self.hub, self.downloads = HubView(), DownloadList()
        here = QWidget()
        top, lists = row(Wide(self._filter), self.open), (Wide(self.list), Wide(self._empty))
        column(top, *lists, self.folders, self._problem, of=here, spacing=8)
        self._pages = {"here": here, "hub": self.hub}
        self._stack = stacked(here, self.hub)
        parts = row(self._places, STRETCH), Wide(self._stack), self.downloads
        column(*parts, of=self, margins=(24, 0, 24, 16), spacing=8)
        self._places.chosen.connect(self._go_to)
        self._filter.textChanged.connect(lambda _: self._refresh())
        self.list.resume_wanted.connect(self.get_wanted)
        self.show_place("here")
        self.show_entries(())

    def show_place(self, where: str) -> None:
        """Models "here", or those on the "hub"."""
        self._places.set_value(where)
        self._stack.setCurrentWidget(self._pages[where])

    def _go_to(self, where: str) -> None:
        """What is typed next is looked for there."""
        self.show_place(where)
        self.setFocus()

    def show_entries(self, entries: Sequence[FoundModel]) -> None:
        """Show these models; the filter stays."""
        self._entries = tuple(entries)
        self._refresh()

    def show_downloads(self, downloads: Sequence[DownloadFigures]) -> None:
        """Show these downloads, in their order."""
        self.downloads.show_downloads(downloads)
        self.hub.show_downloads(downloads)
        self._fit_downloads()

    def show_problem(self, words: str) -> None:
        """What cannot be done with a model here, "" for nothing."""
        say(self._problem, words)

    def _fit_downloads(self) -> None:
        self.downloads.fit(round(self.height() * DOWNLOADS_SHARE))

    def _refresh(self) -> None:
        words = self._filter.text().casefold().split()
        shown = [entry for entry in self._entries if matches(entry, words)]
        self.list.show_entries(shown)
        self.list.setVisible(bool(shown))
        none_match = tr("No model matches “{filter}”.", filter=self._filter.text())
        say(self._empty, "" if shown else none_match if self._entries else NOTHING)

    # Qt

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The keys are for what searches the models on show, in the place of what it has."""
        del event
        on_show = self._stack.currentWidget()
        wanted = self.hub if on_show is self.hub else self._filter
        wanted.setFocus(Qt.FocusReason.TabFocusReason)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another height, another share."""
        super().resizeEvent(event)
        self._fit_downloads()


def matches(entry: FoundModel, words: Sequence[str]) -> bool:
    """Whether all (case-folded) words are somewhere in it."""
    text = f"{entry.name} {entry.detail} {entry.path}".casefold()
    return all(word in text for word in words)
