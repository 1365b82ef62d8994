"""Changes that can be undone, the newest first."""

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal


class Deed(NamedTuple):
    """words: what was done."""

    words: str
    undo: Callable[[], object]


class Deeds(QObject):
    """What was done in one list. Signal `changed`: there is another newest one, or none."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._deeds: list[Deed] = []

    @property
    def newest(self) -> Deed | None:
        """The one that `undo` undoes."""
        return self._deeds[-1] if self._deeds else None

    def add(self, words: str, undo: Callable[[], object]) -> None:
        """Remember how to undo something."""
        self._deeds.append(Deed(words, undo))
        self.changed.emit()

    def undo(self) -> None:
        """Undo the newest one, if there is one."""
        if self._deeds:
            deed = self._deeds.pop()
            self.changed.emit()
            deed.undo()

    def forget(self) -> None:
        """Nothing can be undone any more."""
        self._deeds.clear()
        self.changed.emit()
