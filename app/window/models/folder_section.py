"""The user's own folders of models: listed, added, removed."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortLabel, label, set_role
from app.window.models.model_values import OwnFolder


class FolderSection(QWidget):
    """Signals: `add_wanted`, `remove_wanted`(path)."""

    add_wanted = Signal()
    remove_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Your folders")
        self._rows: list[FolderRow] = []
        self._add = QPushButton("Add folder…")
        self._add.setToolTip("Look for models in a folder of yours, at every start")
        self._add.clicked.connect(self.add_wanted)
        top = QHBoxLayout()
        top.addWidget(label("Your folders", "muted"), 1)
        top.addWidget(self._add)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addLayout(top)

    def show_folders(self, folders: Sequence[OwnFolder]) -> None:
        """Show these in their order."""
        for row in self._rows:
            self._column.removeWidget(row)
            row.deleteLater()
        self._rows = [FolderRow(folder) for folder in folders]
        for row in self._rows:
            row.remove_wanted.connect(self.remove_wanted)
            self._column.addWidget(row)


class FolderRow(QWidget):
    """One folder; signal `remove_wanted`(path)."""

    remove_wanted = Signal(str)

    def __init__(self, folder: OwnFolder) -> None:
        super().__init__()
        path = ShortLabel(Qt.TextElideMode.ElideMiddle)
        path.show_text(f"{folder.path} · {folder.problem}" if folder.problem else folder.path)
        set_role(path, "problem" if folder.problem else "note")
        self._remove = IconButton("close", f"Look no more in {folder.path}")
        self._remove.clicked.connect(lambda: self.remove_wanted.emit(folder.path))
        across = QHBoxLayout(self)
        across.setContentsMargins(12, 0, 0, 0)
        across.addWidget(path, 1)
        across.addWidget(self._remove)
