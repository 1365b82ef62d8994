"""Deletes a model from the disk, once its user has agreed: to the system's trash."""

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from app.library.delete_model import files_of
from app.start.outside import to_trash
from app.start.threads import Beside
from app.values.models import FoundModel
from mlx_engine.values.words import size_words

NO_TRASH = "could not be moved to the trash: its disk may have none, or may not be written to."


class DeleteController(QObject):
    """Signals: `deleted`(FoundModel) is in the trash; `failed`: why it is not, in words."""

    deleted = Signal(object)
    failed = Signal(str)

    def __init__(self, page: QWidget, parent: QObject | None = None) -> None:
        """page: where the question is asked."""
        super().__init__(parent)
        self._page = page
        self._disk = Beside(self)

    def ask(self, model: FoundModel) -> None:
        """Say what would be deleted, and delete it if that is agreed to."""
        size = f" ({size_words(model.nbytes)})" if model.nbytes else ""
        box = QMessageBox(
            QMessageBox.Icon.Question,
            "Delete from disk",
            f"Move {model.name}{size} to the trash?",
            parent=self._page,
        )
        box.setInformativeText(f"{model.path}\nThe room is free once the trash is emptied.")
        box.setTextFormat(Qt.TextFormat.PlainText)
        delete = box.addButton("Move to trash", QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        delete.clicked.connect(lambda: self._delete(model))
        box.open()

    def _delete(self, model: FoundModel) -> None:
        """Beside the window, for disks may be slow."""

        def move() -> str:
            try:
                kept = [path for path in files_of(model.path) if not to_trash(path)]
            except OSError as error:
                return f"{model.path}: {error.strerror or error}."
            return f"{kept[0]} {NO_TRASH}" if kept else ""

        def tell(problem: str) -> None:
            if problem:
                self.failed.emit(problem)
            else:
                self.deleted.emit(model)

        self._disk.run_each(move, tell)
