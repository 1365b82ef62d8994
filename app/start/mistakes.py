"""Mistakes of the program's own: written to the log, shown with details to copy."""

import platform
import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QObject, Signal

LARGEST_LOG = 1_000_000


class Mistakes(QObject):
    """Signal `made`(words, details): something went wrong that the user can only report."""

    made = Signal(str, str)

    def __init__(self, log_file: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.log_file = log_file

    def catch_all(self) -> Callable[[], None]:
        """Whatever nobody catches from now on comes here; call the result to end that."""
        before = sys.excepthook
        sys.excepthook = self.take

        def end() -> None:
            sys.excepthook = before

        return end

    def take(
        self,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        """An exception that was not expected."""
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        words = f"{kind.__name__}: {error}. Your chats are kept; the window goes on."
        self.report(words, "".join(traceback.format_exception(kind, error, trace)))

    def report(self, words: str, details: str) -> None:
        """Keep a mistake in the log and tell of it."""
        whole = f"{about_this_machine()}\n\n{details}"
        self.note(f"{words}\n{whole}")
        self.made.emit(words, whole)

    def note(self, words: str) -> None:
        """Write to the log; a log that cannot be written is no reason to stop."""
        stamp = datetime.now().isoformat(timespec="seconds")
        try:
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            if self.log_file.exists() and self.log_file.stat().st_size > LARGEST_LOG:
                self.log_file.replace(self.log_file.with_suffix(".old.log"))
            with self.log_file.open("a", encoding="utf-8", errors="replace") as log:
                log.write(f"{stamp} {words}\n")
        except OSError:
            return


def about_this_machine() -> str:
    """What a report needs to know; nothing about the user."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{system}, Python {platform.python_version()}"
