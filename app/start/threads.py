"""Background tasks, queued short tasks, and garbage collection on the GUI thread only."""

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication

T = TypeVar("T")
TURN_MS = 1
"""Interval between tasks, in which other events are handled: a Qt timer of 0 ms may fire several
times in a row.
"""


class IdleQueue(QObject):
    """Queue of short tasks; each turn of the event loop runs the oldest one."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pieces: deque[Callable[[], object]] = deque()
        self._timer = QTimer(self, interval=TURN_MS)
        self._timer.timeout.connect(self._do_next)

    @property
    def is_busy(self) -> bool:
        """Whether a task is queued."""
        return bool(self._pieces)

    def do(self, piece: Callable[[], object]) -> None:
        """Run a task in a later turn; a task that already waits is not added again."""
        if piece not in self._pieces:
            self._pieces.append(piece)
            self._timer.start()

    def do_steps(self, steps: Iterator[object]) -> None:
        """Run the first step of an iterator now, and each further one in a later turn."""
        for _ in steps:
            self.do(lambda: self.do_steps(steps))
            return

    def stop(self) -> None:
        """Drop all queued tasks."""
        self._pieces.clear()
        self._timer.stop()

    def _do_next(self) -> None:
        piece = self._pieces.popleft()
        if not self._pieces:
            self._timer.stop()
        piece()


EACH = 0
"""Number of a task whose result is always used."""
MOST_LOOKS = 4
"""Threads of one kind of task at most: each may hang forever on a lost network share."""


class BackgroundTask(NamedTuple):
    """A function to run in a background thread, and one that takes its result on the GUI thread."""

    number: int
    look: Callable[[], Any]
    use: Callable[[Any], object]


class LatestTask(QObject):
    """Background task of which only the newest counts.

    A disk that hangs blocks nothing while fewer than MOST_LOOKS threads run; of waiting tasks only
    the newest is kept. Exceptions are raised on the GUI thread.
    """

    _ended = Signal(int, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._newest = 0
        self._running, self._waiting = 0, list[BackgroundTask]()
        self._ended.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        self._door = _Door()
        self.destroyed.connect(self._door.close)

    def run(self, look: Callable[[], T], use: Callable[[T], object]) -> None:
        """Run `look` in a background thread, then `use` on the GUI thread unless a newer task was
        started.
        """
        self.forget()
        self._start(BackgroundTask(self._newest, look, use))

    def run_each(self, look: Callable[[], T], use: Callable[[T], object]) -> None:
        """Run `look` in a background thread, then `use` on the GUI thread in any case."""
        self._start(BackgroundTask(EACH, look, use))

    def forget(self) -> None:
        """Ignore the result of the task that runs."""
        self._newest += 1
        self._waiting = [waiting for waiting in self._waiting if waiting.number == EACH]

    def _start(self, asked: BackgroundTask) -> None:
        if self._running == MOST_LOOKS:
            self._waiting.append(asked)
            return
        self._running += 1

        def work() -> None:
            try:
                seen = asked.look()
            except Exception as error:
                self._tell(asked.number, partial(_raise, error))
            else:
                self._tell(asked.number, lambda: asked.use(seen))

        Thread(target=work, name="disk", daemon=True).start()

    def _tell(self, number: int, use: Callable[[], object]) -> None:
        with self._door.open() as is_open:
            if is_open:
                self._ended.emit(number, use)

    def _deliver(self, number: int, use: Callable[[], object]) -> None:
        self._running -= 1
        if self._waiting:
            self._start(self._waiting.pop(0))
        if number in (EACH, self._newest):
            use()


class _Door:
    """Lock that keeps an object alive while a background thread calls it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_open = True

    @contextmanager
    def open(self) -> Iterator[bool]:
        """Hold the lock during the block; yields whether the object still exists."""
        with self._lock:
            yield self._is_open

    def close(self) -> None:
        """Mark the object as gone."""
        with self._lock:
            self._is_open = False


def _raise(error: Exception) -> None:
    raise error


LOOK_MS = 500


class Collector(QObject):
    """Runs Python's garbage collection on the GUI thread only. The automatic collection runs on
    whatever thread allocates; a widget collected on another thread crashes the program.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        self._has_settled = self._is_importing = False
        self._modules = len(sys.modules)
        gc.disable()
        self._timer = QTimer(self, interval=LOOK_MS)
        self._timer.timeout.connect(self.look)
        self._timer.start()

    def look(self) -> None:
        """Collect the oldest generation that is due, as Python would.

        Objects of modules that were imported meanwhile are excluded from later collections once the
        import is over.
        """
        before, self._modules = self._modules, len(sys.modules)
        if before != self._modules:
            self._is_importing = True
        elif self._is_importing:
            self._is_importing = False
            if self._has_settled:
                gc.freeze()
        else:
            counts, limits = gc.get_count(), gc.get_threshold()
            due = [age for age in (2, 1, 0) if counts[age] > limits[age]]
            if due:
                gc.collect(due[0])

    def settle(self) -> None:
        """Exclude all present objects from later collections, which makes these quick."""
        self._has_settled = True
        gc.freeze()

    def close(self) -> None:
        """Return to Python's automatic collection."""
        self._timer.stop()
        if self._has_settled:
            gc.unfreeze()
        if self._was_enabled:
            gc.enable()


def keep_clipboard() -> None:
    """Replace the clipboard's content by plain text, or else a picture, in an object that Qt owns.

    Qt destroys an object made in Python after Python has ended, which crashes.
    """
    clipboard = QGuiApplication.clipboard()
    if clipboard.ownsClipboard():
        text, image = clipboard.text(), clipboard.image()
        if text or image.isNull():
            clipboard.setText(text)
        else:
            clipboard.setImage(image)
