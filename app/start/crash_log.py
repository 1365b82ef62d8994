"""Crash log: unexpected errors are logged, and reported with details to copy."""

import faulthandler
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler

from mlx_engine.values.private_files import make_private, make_private_file, make_private_folder
from mlx_engine.values.words import Words

LARGEST_LOG = 1_000_000
"""Bytes of the log; one older file of that size is kept."""
LOG = "headstart.log"
CRASHES = "crash.log"
"""File that faulthandler writes when the process itself crashes."""


class _LogFile(RotatingFileHandler):
    """Log file that only its user can read; errors while writing are ignored."""

    def close(self) -> None:
        with suppress(OSError):  # what a full disk did not take is written once more
            super().close()

    # logging

    def _open(self) -> TextIOWrapper:
        file = Path(self.baseFilename)
        make_private_folder(file.parent)
        make_private_file(file)
        make_private(file.with_name(f"{file.name}.1"))
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:
        del record


class CrashLog(QObject):
    """Log of unexpected errors. Signal `made`(words, details): an error to be reported."""

    made = Signal(object, str)

    def __init__(self, logs: Path, parent: QObject | None = None) -> None:
        """logs: the folder of logs, which need not exist."""
        super().__init__(parent)
        self.log_file = logs / LOG
        self._file = _LogFile(
            self.log_file, maxBytes=LARGEST_LOG, backupCount=1, encoding="utf-8", delay=True
        )
        self._file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._log = logging.getLogger("headstart")
        self._log.addHandler(self._file)

    def catch_all(self) -> Callable[[], None]:
        """Handle uncaught exceptions from now on; call the result to stop."""
        before, before_in_threads = sys.excepthook, threading.excepthook
        sys.excepthook, threading.excepthook = self.take, self._take_of_thread

        def end() -> None:
            sys.excepthook, threading.excepthook = before, before_in_threads
            self._log.removeHandler(self._file)
            self._file.close()

        return end

    def take(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Report an uncaught exception."""
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        words = Words("Headstart made a mistake. Your chats are kept; the window goes on.")
        details = "".join(traceback.format_exception(kind, error, trace))
        # else Python holds what these frames held until the next mistake, on whatever thread it is
        traceback.clear_frames(trace)
        self.report(words, details)

    def _take_of_thread(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and args.exc_type is not SystemExit:
            self.take(args.exc_type, args.exc_value, args.exc_traceback)

    def report(self, words: str, details: str) -> None:
        """Log an error and emit `made`."""
        whole = f"{about_this_machine()}\n\n{details}"
        self.note(f"{words}\n{whole}")
        self.made.emit(words, whole)

    def note(self, words: str) -> None:
        """Write a line to the log."""
        whole = words.encode("utf-8", "replace").decode()  # half characters harm other handlers
        self._log.error("%s", whole)


def watch_for_crashes(logs: Path, note: Callable[[str], None]) -> None:
    """Log what the last crash left behind, record the next crash, and log Qt's warnings.

    A folder that cannot be written to is ignored.
    """

    def take(kind: QtMsgType, context: QMessageLogContext, words: str) -> None:
        del context
        if kind not in (QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg):
            note(f"Qt: {words}")

    qInstallMessageHandler(take)
    file = logs / CRASHES
    try:
        left = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        make_private_folder(logs)
        make_private_file(file)
        faulthandler.enable(file.open("w", encoding="utf-8"))
    except OSError:
        return
    if left:
        note(f"Headstart came to a sudden end the last time.\n{about_this_machine()}\n\n{left}")


def about_this_machine() -> str:
    """Describe system and Python version for a report; nothing about the user."""
    here = os.uname()
    version = sys.version.split()[0]
    return f"{here.sysname} {here.release} {here.machine}, Python {version}"
