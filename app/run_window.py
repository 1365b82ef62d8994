"""From arguments to the end of the window: one instance, its files, Qt's loop."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from app.app import App
from app.start.folders import this_users_folders
from app.start.open_files import OpenFiles, as_typed
from app.start.single_instance import SingleInstance
from app.window.icons import app_icon

LOOK_MS = 200
"""How often Python may look whether Ctrl-C was pressed in the terminal."""


def run_window(arguments: Sequence[str]) -> int:
    """Show the window until it is closed; the exit status. Paths go to a window already open."""
    paths = as_typed(arguments, Path.cwd())
    folders = this_users_folders()
    application = QApplication(sys.argv[:1])
    application.setApplicationName("Headstart")
    application.setWindowIcon(app_icon())
    instance = SingleInstance(folders.data)
    if instance.hand_over(paths):
        return 0
    app = App(application, folders)
    files = OpenFiles()
    application.installEventFilter(files)
    files.opened.connect(app.open)
    instance.called.connect(app.open)
    instance.listen()
    app.start(paths)
    signal.signal(signal.SIGINT, lambda *_: application.quit())
    wake = QTimer(interval=LOOK_MS)
    wake.timeout.connect(lambda: None)
    wake.start()
    status = application.exec()
    app.close()
    instance.close()
    if app.parts.worker.isRunning():
        os._exit(status)  # everything is saved; a pass may take a while to end
    return status
