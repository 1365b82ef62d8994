"""Run the window: from the folders and the single instance to the exit status."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, qInstallMessageHandler
from PySide6.QtWidgets import QMessageBox

from app.start.crash_log import watch_for_crashes
from app.start.folders import this_users_folders
from app.start.outside import Application, SingleInstance, as_typed
from app.start.qt_libraries import terminal_where_qt_gives_up
from app.window.controls.icons import app_icon
from app.window.language import speak, tr
from mlx_engine.values.environment import use_private_temporary_folder
from mlx_engine.values.private_files import make_private_folder
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    from app.app import App

HANGS = Words(
    "Headstart is open already, but does not answer. Two of them would harm each "
    "other's chats: wait a moment or force the other one to quit, then start again."
)
SHARE_S = 0.0005
"""Python's switch interval: the window waits for it at each call of Qt.

With Python's own 5 ms the window stands still while another thread imports.
"""
LOOK_MS = 200
"""Milliseconds between checks for signals."""
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that quit: Ctrl-C, the end of the user's session, a closed terminal."""


def hear_outside(app: "App", application: Application, instance: SingleInstance) -> None:
    """Open what the system and later launches pass on."""
    application.opened.connect(app.open)
    instance.called.connect(app.open)


def hear_the_end(leave: Callable[[], None]) -> None:
    """Quit on signals, once the running event has ended.

    Signals that are ignored, as under `nohup`, stay ignored.
    """
    for ending in ENDINGS:
        if signal.getsignal(ending) != signal.SIG_IGN:
            signal.signal(ending, lambda *_: QTimer.singleShot(0, leave))


def run_window(arguments: Sequence[str]) -> int:
    """Show the window until it is closed; return the exit status.

    Paths are passed to a window that is already open.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an exception between Qt's own calls would crash
    paths = as_typed(arguments, Path.cwd())
    folders = this_users_folders()
    sys.setswitchinterval(SHARE_S)
    terminal_where_qt_gives_up(paths)
    application = Application(sys.argv[:1])
    qInstallMessageHandler(None)
    application.setApplicationName("Headstart")
    application.setWindowIcon(app_icon())
    instance = SingleInstance(folders.data)
    if instance.hand_over(paths):
        return 0
    with suppress(OSError):  # what follows from that is said when chats are opened
        make_private_folder(folders.data)
    if not instance.claim():
        speak(application, "system")
        QMessageBox.critical(None, "Headstart", tr(HANGS))
        return 1
    from app.app import App  # a later launch ends before, and need not wait for all of this

    app = App(application, folders)
    watch_for_crashes(folders.logs, app.crash_log.note)
    hear_outside(app, application, instance)
    instance.listen()
    use_private_temporary_folder()
    app.start(paths)
    hear_the_end(application.quit)
    wake = QTimer(interval=LOOK_MS)
    wake.timeout.connect(lambda: None)
    wake.start()
    status = application.exec()
    app.close()
    instance.close()
    os._exit(status)  # everything is saved: to end a pass and take MLX apart would only take time
