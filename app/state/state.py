"""Base of all states: signals for changes and for problems."""

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QObject, Signal

from app.values.errors import StoreError


class State(QObject):
    """A part of the app that views watch and whose methods they call.

    Signals:
        changed: the state is not as it was last shown.
        failed: a problem, in words for the user.
        mended: the problem with the same words is over.
    """

    changed = Signal()
    failed = Signal(object)
    mended = Signal(object)
    _problem = ""

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Emit `failed` for a StoreError in the block instead of raising it."""
        try:
            yield
        except StoreError as error:
            self._problem = str(error)
            self.failed.emit(self._problem)

    def report(self, problem: str) -> None:
        """Emit `failed` for a problem unless it was the last one, and `mended` for the last; ""
        for none.
        """
        before, self._problem = self._problem, problem
        if before and before != problem:
            self.mended.emit(before)
        if problem and before != problem:
            self.failed.emit(problem)
