"""A small model to draft with: typed, or chosen as a file or a folder."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLineEdit, QMenu, QPushButton, QWidget

NAME = "Draft model"
FILES = "Models (*.gguf *.safetensors)"


class DraftModelField(QWidget):
    """Signal `changed`(str): a path or hub id, "" for none."""

    changed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._place = ""
        self._edit = QLineEdit()
        self._edit.setAccessibleName(NAME)
        self._edit.setPlaceholderText("None")
        self._edit.setToolTip("A file, a folder or a hub id of a small model of the same family")
        self._choose = QPushButton("Choose…")
        self._choose.setAccessibleName("Choose a draft model")
        menu = QMenu(self._choose)
        menu.addAction("File…", self._choose_file)
        menu.addAction("Folder…", self._choose_folder)
        menu.addSeparator()
        menu.addAction("None", lambda: self._take(""))
        self._choose.setMenu(menu)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._edit, 1)
        row.addWidget(self._choose)
        self._edit.editingFinished.connect(lambda: self._take(self._edit.text().strip()))

    def show_place(self, place: str) -> None:
        """Show a path or hub id, "" for none; nothing is emitted."""
        self._place = place
        self._edit.setText(place)
        self._edit.setToolTip(place or "A file, a folder or a hub id")

    def _take(self, place: str) -> None:
        if place != self._place:
            self.show_place(place)
            self.changed.emit(place)

    def _choose_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self.window(), NAME, "", FILES)
        if path:
            self._take(path)

    def _choose_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self.window(), NAME)
        if path:
            self._take(path)
