"""Keys that scroll the transcript, which a text in it must not keep to itself."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

SCROLLING = frozenset(
    (
        Qt.Key.Key_PageUp,
        Qt.Key.Key_PageDown,
        Qt.Key.Key_Home,
        Qt.Key.Key_End,
        Qt.Key.Key_Up,
        Qt.Key.Key_Down,
        Qt.Key.Key_Space,
        Qt.Key.Key_Escape,
    )
)


def scrolls(event: QKeyEvent) -> bool:
    """Whether a key without modifiers is meant for the scroll area around."""
    bare = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return event.key() in SCROLLING and bare == Qt.KeyboardModifier.NoModifier
