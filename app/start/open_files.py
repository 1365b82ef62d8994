"""Files that the system wants opened: from Finder, the Dock, or the command line."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QFileOpenEvent


class OpenFiles(QObject):
    """An event filter for the application; signal `opened`(paths and links)."""

    opened = Signal(list)

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Take what macOS sends when a file is opened with Headstart."""
        if isinstance(event, QFileOpenEvent):
            self.opened.emit([event.file() or event.url().toString()])
            return True
        return super().eventFilter(watched, event)


def as_typed(arguments: Sequence[str], folder: Path) -> list[str]:
    """Arguments as absolute paths where such files are, else as they are (links, ids)."""
    return [str(folder / text) if (folder / text).exists() else text for text in arguments]
