"""Presets: choose one, save these settings under a name, delete one, or make these the default."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton

from app.window.controls.choices import DropDown, Option
from app.window.controls.group import Group
from app.window.controls.icons import IconButton

LONGEST_NAME = 60
LONGEST_ON_A_BUTTON = 16


class PresetsGroup(Group):
    """Signals: `chosen`(name), `saved`(name), `deleted`(name), `defaults_wanted`."""

    chosen = Signal(str)
    saved = Signal(str)
    deleted = Signal(str)
    defaults_wanted = Signal()

    def __init__(self) -> None:
        super().__init__("Presets", is_open=False)
        self._names: tuple[str, ...] = ()
        self._choice = DropDown("Preset")
        self._choice.setPlaceholderText("Choose a preset")
        self._delete = IconButton("delete", "Delete this preset")
        self._name = QLineEdit()
        self._name.setAccessibleName("Name of a new preset")
        self._name.setPlaceholderText("Name")
        self._name.setMaxLength(LONGEST_NAME)
        self._save = QPushButton("Save as")
        self._update = QPushButton()
        self._current: str | None = None
        self._defaults = QPushButton("Make these the defaults")
        self._defaults.setToolTip("New chats begin with the settings of this one")
        top, middle = QHBoxLayout(), QHBoxLayout()
        top.addWidget(self._choice, 1)
        top.addWidget(self._delete)
        middle.addWidget(self._name, 1)
        middle.addWidget(self._save)
        self.add_row(top)
        self.add(self._update)
        self.add_row(middle)
        self.add(self._defaults)
        self._choice.chosen.connect(self._choose)
        self._delete.clicked.connect(lambda: self.deleted.emit(self._choice.currentData()))
        self._name.textChanged.connect(self._allow)
        self._name.returnPressed.connect(self._save_as)
        self._save.clicked.connect(self._save_as)
        self._update.clicked.connect(lambda: self.saved.emit(self._current))
        self._defaults.clicked.connect(self.defaults_wanted)
        self.show_presets(())

    def show_presets(
        self, names: Sequence[str], current: str | None = None, is_changed: bool = False
    ) -> None:
        """Show these, with the one the chat began with, None when there is none.

        is_changed: the chat's settings are no longer those of `current`.
        """
        self._names, self._current = tuple(names), current
        changed = current if is_changed else None
        options = [Option(n, f"{n} (changed)" if n == changed else n) for n in names]
        self._choice.show_options(options, current)
        self._update.setVisible(changed is not None)
        self._update.setText(f"Save the changes to “{shortened(changed or '')}”")
        self._choice.setEnabled(bool(names))
        self._choice.setPlaceholderText("Choose a preset" if names else "No presets yet")
        self._allow()

    def _choose(self, name: str) -> None:
        self._allow()
        self.chosen.emit(name)

    def _save_as(self) -> None:
        name = self._name.text().strip()
        if name:
            self._name.clear()
            self.saved.emit(name)

    def _allow(self) -> None:
        name = self._name.text().strip()
        self._save.setEnabled(bool(name))
        self._save.setText("Replace" if name in self._names else "Save as")
        self._delete.setEnabled(self._choice.currentIndex() >= 0)


def shortened(name: str) -> str:
    """A name that fits on a button."""
    return name if len(name) <= LONGEST_ON_A_BUTTON else f"{name[: LONGEST_ON_A_BUTTON - 1]}…"
