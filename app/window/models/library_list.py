"""The list of models on disk: headings by place, two lines a model, what is broken with its why."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtWidgets import QListWidgetItem, QMenu

from app.values.models import FoundModel
from app.window.language import said, tr
from app.window.models.two_line_list import ENTRY, Row, TwoLineList, TwoLines, heading_item


class LibraryList(TwoLineList):
    """Signals: `chosen`(FoundModel) to load; `resume_wanted`(id on the hub) for a download that was
    not finished; `reveal_wanted`(path), `forget_wanted`(path), `delete_wanted`(FoundModel). Other
    broken ones are not chosen.
    """

    chosen = Signal(object)
    resume_wanted = Signal(str)
    reveal_wanted = Signal(str)
    forget_wanted = Signal(str)
    delete_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__(tr("Models on this computer"))
        self.taken.connect(self._take)

    def show_entries(self, entries: Sequence[FoundModel]) -> None:
        """Show these in their order, under a heading for each place; the place on show is kept."""
        current = self.currentItem()
        kept = current.data(ENTRY).path if current is not None and current.data(ENTRY) else None
        offset = self.verticalScrollBar().value()
        self.clear()
        for place in dict.fromkeys(entry.place for entry in entries):
            self.addItem(heading_item(place))
            for entry in (e for e in entries if e.place == place):
                item = Row(entry, _lines)
                self.addItem(item)
                if entry.path == kept:
                    self.setCurrentItem(item)
        self.verticalScrollBar().setValue(offset)

    def _take(self, item: QListWidgetItem) -> None:
        """Load the model of the row, or go on with its download."""
        entry = item.data(ENTRY)
        if isinstance(entry, FoundModel):
            self._choose_entry(entry)

    def _choose_entry(self, entry: FoundModel) -> None:
        if entry.unfinished:
            self.resume_wanted.emit(entry.unfinished)
        elif not entry.problem:
            self.chosen.emit(entry)

    def menu_of(self, item: QListWidgetItem | None) -> QMenu | None:
        """What can be done with the model in a row, None for a heading."""
        entry = item.data(ENTRY) if item is not None else None
        if not isinstance(entry, FoundModel):
            return None
        menu = QMenu(self)
        first = tr("Resume the download") if entry.unfinished else tr("Load…")
        choose = menu.addAction(first, lambda: self._choose_entry(entry))
        choose.setEnabled(not entry.problem or bool(entry.unfinished))
        path = str(entry.path)
        if not entry.is_built_in:
            menu.addAction(tr("Show in its folder"), lambda: self.reveal_wanted.emit(path))
            menu.addAction(tr("Copy path"), lambda: QGuiApplication.clipboard().setText(path))
        if entry.is_recent:
            menu.addSeparator()
            forget = tr("Remove from recent models")
            menu.addAction(forget, lambda: self.forget_wanted.emit(path))
        if not entry.is_built_in:
            menu.addSeparator()
            menu.addAction(tr("Delete from disk…"), lambda: self.delete_wanted.emit(entry))
        return menu

    # Qt

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """The menu of the row below the pointer, or of the current one for the menu key."""
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        item = self.currentItem() if by_key else self.itemAt(event.pos())
        menu = self.menu_of(item)
        if menu is not None:
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(event.globalPos())


def second_line(entry: FoundModel) -> str:
    """Where it is, or why it cannot be loaded."""
    if entry.unfinished:
        return tr("{problem}: click to resume", problem=entry.problem)
    if entry.problem:
        return tr("Cannot be loaded: {problem}", problem=entry.problem)
    return tr("Comes with Headstart") if entry.is_built_in else str(entry.path)


def _lines(entry: FoundModel) -> TwoLines:
    return TwoLines(
        entry.name,
        entry.detail,
        second_line(entry),
        "warning" if entry.unfinished else "error" if entry.problem else "muted",
        is_faint=bool(entry.problem),
        tip=f"{entry.path}\n{said(entry.problem)}".strip(),
    )
