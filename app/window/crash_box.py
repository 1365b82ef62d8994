"""Shows a mistake of the program's own, with details to copy for a report."""

from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.window.controls.labels import label, paragraph


class CrashBox(QDialog):
    """Not modal: the window goes on, and so does an answer that runs."""

    def __init__(self, words: str, details: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Headstart made a mistake")
        self._details = details
        shown = QPlainTextEdit(details)
        shown.setReadOnly(True)
        shown.setProperty("role", "details")
        shown.setAccessibleName("Details")
        shown.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        shown.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        buttons = QDialogButtonBox()
        self.copy_button = QPushButton("Copy details")
        self.copy_button.clicked.connect(self.copy)
        close = QPushButton("Close")
        close.setProperty("role", "primary")
        close.setDefault(True)
        buttons.addButton(self.copy_button, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(close, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 16)
        column.setSpacing(12)
        column.addWidget(label("Headstart made a mistake", "title"))
        column.addWidget(paragraph(words))
        column.addWidget(shown, 1)
        column.addWidget(buttons)
        self.resize(640, 420)

    def copy(self) -> None:
        """Put the details on the clipboard."""
        QGuiApplication.clipboard().setText(self._details)
        self.copy_button.setText("Copied")
