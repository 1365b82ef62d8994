"""Escape in a part of the window that has a use for it, while it also is a shortcut."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent


def closes(event: QEvent) -> bool:
    """Whether Qt asks if Escape is to be a key here instead of the shortcut it is elsewhere."""
    if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.ShortcutOverride:
        return False
    return bool(event.key() == Qt.Key.Key_Escape)
