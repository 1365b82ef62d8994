"""Shows a file in the system's own window of its folder."""

import sys
from pathlib import Path

from PySide6.QtCore import QProcess, QUrl
from PySide6.QtGui import QDesktopServices


def reveal(path: str, platform: str = sys.platform) -> bool:
    """Selected in the Finder on a Mac; elsewhere its folder is opened. False: it is not there."""
    place = Path(path)
    if not place.exists():
        return False
    if platform == "darwin":
        return QProcess.startDetached("/usr/bin/open", ["-R", str(place)])[0]
    folder = place if place.is_dir() else place.parent
    return QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
