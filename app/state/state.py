"""What all states have in common: they announce that they have changed, and what went wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QObject, Signal

from app.values.errors import StoreError


class State(QObject):
    """A part of the app that views watch and whose methods they call.

    Signals:
        changed: it is no longer as it was shown.
        failed: something could not be done, in words for the user.
        mended: it is no longer so, in the same words.
    """

    changed = Signal()
    failed = Signal(object)
    mended = Signal(object)
    _problem = ""

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Context in which a StoreError is announced by `failed` instead of raised."""
        try:
            yield
        except StoreError as error:
            self._problem = str(error)
            self.failed.emit(self._problem)

    def report(self, problem: str) -> None:
        """Announce a problem once until it is another or gone (""), and then that."""
        before, self._problem = self._problem, problem
        if before and before != problem:
            self.mended.emit(before)
        if problem and before != problem:
            self.failed.emit(problem)
