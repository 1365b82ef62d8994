"""What was copied here survives the end of the program, and the program its own end."""

from PySide6.QtGui import QGuiApplication


def keep_clipboard() -> None:
    """Leave what we copied as plain text, in an object of Qt's own.

    One made in Python is destroyed by Qt when Python is gone already, and that crashes.
    """
    clipboard = QGuiApplication.clipboard()
    if clipboard.ownsClipboard():
        clipboard.setText(clipboard.text())
