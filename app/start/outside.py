"""Files that the system wants opened, and files shown in the system's own window."""

import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QProcess, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QFileOpenEvent


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


def reveal(path: str, platform: str = sys.platform) -> bool:
    """Selected in the Finder on a Mac; elsewhere its folder is opened. False: it is not there."""
    place = Path(path)
    if not place.exists():
        return False
    if platform == "darwin":
        return QProcess.startDetached("/usr/bin/open", ["-R", str(place)])[0]
    folder = place if place.is_dir() else place.parent
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
