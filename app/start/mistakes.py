"""Mistakes of the program's own: written to the log, shown with details to copy."""

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
"""Bytes; what was written before is in a second file of that size."""
LOG = "headstart.log"
CRASHES = "crash.log"
"""What Python can still write when the process itself is brought down, such as by a bad pointer."""


class _LogFile(RotatingFileHandler):
    """A log that only its user can read; that it cannot be written is no reason to stop."""

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


class Mistakes(QObject):
    """Signal `made`(words, details): something went wrong that the user can only report."""

    made = Signal(object, str)

    def __init__(self, logs: Path, parent: QObject | None = None) -> None:
        """logs: the folder of logs, which need not be there."""
        super().__init__(parent)
        self.log_file = logs / LOG
        self._file = _LogFile(
            self.log_file, maxBytes=LARGEST_LOG, backupCount=1, encoding="utf-8", delay=True
        )
        self._file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._log = logging.getLogger("headstart")
        self._log.addHandler(self._file)

    def catch_all(self) -> Callable[[], None]:
        """Whatever nobody catches from now on comes here; call the result to end that."""
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
        """An exception that was not expected."""
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        words = Words(
            "{kind}: {error}. Your chats are kept; the window goes on.",
            kind=kind.__name__,
            error=str(error).removesuffix("."),
        )
        details = "".join(traceback.format_exception(kind, error, trace))
        # else Python holds what these frames held until the next mistake, on whatever thread it is
        traceback.clear_frames(trace)
        self.report(words, details)

    def _take_of_thread(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and args.exc_type is not SystemExit:
            self.take(args.exc_type, args.exc_value, args.exc_traceback)

    def report(self, words: str, details: str) -> None:
        """Keep a mistake in the log and tell of it."""
        whole = f"{about_this_machine()}\n\n{details}"
        self.note(f"{words}\n{whole}")
        self.made.emit(words, whole)

    def note(self, words: str) -> None:
        """Write to the log."""
        whole = words.encode("utf-8", "replace").decode()  # half characters harm other handlers
        self._log.error("%s", whole)


def watch_for_crashes(logs: Path, note: Callable[[str], None]) -> None:
    """`note` what the last crash left behind, and have the next one leave where it happened; from
    now on also what Qt warns of.

    A folder that cannot be written to is no reason to stop.
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
    """What a report needs to know; nothing about the user."""
    here = os.uname()
    version = sys.version.split()[0]
    return f"{here.sysname} {here.release} {here.machine}, Python {version}"
