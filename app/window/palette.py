"""A line to type into, above the commands that it finds: all of the window's, by the keyboard."""

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QDialog, QHeaderView, QLineEdit, QTreeWidget, QTreeWidgetItem, QWidget
from typing_extensions import override

from app.window.controls.layouts import Wide, column
from app.window.language import tr
from app.window.look import look

WIDTH, HEIGHT, FROM_TOP = 460, 340, 72
"""Pixels at a zoom of 1."""
STEPS = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
ACTION = Qt.ItemDataRole.UserRole


def is_subsequence(typed: str, text: str) -> bool:
    """Whether the letters of `typed` stand in `text` in this order."""
    letters = iter(text)
    return all(letter in letters for letter in typed)


def found(typed: str, actions: Iterable[QAction]) -> list[QAction]:
    """Actions whose words have the typed letters in this order: first those that begin with them,
    then those whose words do, then those that contain them in one piece.
    """
    typed = "".join(typed.casefold().split())

    def rank(action: QAction) -> tuple[bool, bool, bool]:
        words = action.text().casefold().split()
        whole, initials = "".join(words), "".join(word[0] for word in words)
        in_pieces = not is_subsequence(typed, initials)
        return not whole.startswith(typed), in_pieces, typed not in whole

    return sorted((a for a in actions if is_subsequence(typed, a.text().casefold())), key=rank)


class Palette(QDialog):
    """The enabled commands with their shortcuts; Return runs the selected one."""

    def __init__(self, actions: Iterable[QAction], parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("role", "palette")
        self.setAccessibleName(tr("Command Palette"))
        self._actions = [action for action in actions if action.isEnabled()]
        self._typed, self._found = QLineEdit(), QTreeWidget()
        self._typed.setPlaceholderText(tr("Type a command"))
        self._typed.setAccessibleName(tr("Command"))
        self._found.setAccessibleName(tr("Commands"))
        self._found.setColumnCount(2)
        self._found.setHeaderHidden(True)
        self._found.setRootIsDecorated(False)
        self._found.header().setStretchLastSection(False)
        self._found.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self._found.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self._found.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(self._typed, Wide(self._found), of=self, margins=(8, 8, 8, 8), spacing=8)
        self._typed.textChanged.connect(self._find)
        self._typed.returnPressed.connect(self._run)
        self._found.itemClicked.connect(self._run)
        self._find("")
        zoom, window = look().zoom, parent.geometry()
        self.resize(min(round(WIDTH * zoom), window.width()), round(HEIGHT * zoom))
        self.move(window.center().x() - self.width() // 2, window.top() + FROM_TOP)
        self.show()
        self._typed.setFocus()

    def _find(self, typed: str) -> None:
        self._found.clear()
        for action in found(typed, self._actions):
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            item = QTreeWidgetItem([action.text(), keys])
            item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight)
            item.setData(0, ACTION, action)
            self._found.addTopLevelItem(item)
        self._select(0)

    def _select(self, row: int) -> None:
        """Select the command in this row, or the one at the end that is nearest."""
        item = self._found.topLevelItem(min(max(row, 0), self._found.topLevelItemCount() - 1))
        if item is not None:
            self._found.setCurrentItem(item)

    def _run(self) -> None:
        item = self._found.currentItem()
        if item is not None:
            action = item.data(0, ACTION)
            self.close()
            action.trigger()

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = STEPS.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
        else:
            self._select(self._found.currentIndex().row() + step)
