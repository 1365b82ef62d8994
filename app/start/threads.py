"""What must not happen on just any thread: slow looks at disks, and the end of Qt's objects."""

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
"""Of a timer for work in slices, between which everything else has its turn: Qt lets one of 0 ms
go off several times in a row.
"""


class Turns(QObject):
    """Pieces of work that take milliseconds: a turn of the event loop does one, the oldest."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pieces: deque[Callable[[], object]] = deque()
        self._timer = QTimer(self, interval=TURN_MS)
        self._timer.timeout.connect(self._do_next)

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self._pieces)

    def do(self, piece: Callable[[], object]) -> None:
        """Call this in a turn to come, once however often it is asked for until then."""
        if piece not in self._pieces:
            self._pieces.append(piece)
            self._timer.start()

    def do_steps(self, steps: Iterator[object]) -> None:
        """The first of these now, each of the others in a turn to come."""
        for _ in steps:
            self.do(lambda: self.do_steps(steps))
            return

    def stop(self) -> None:
        """Nothing of what is still to be done is done any more."""
        self._pieces.clear()
        self._timer.stop()

    def _do_next(self) -> None:
        piece = self._pieces.popleft()
        if not self._pieces:
            self._timer.stop()
        piece()


EACH = 0
"""The number of looks that always count."""
MOST_LOOKS = 4
"""Threads of one kind of look: each may hang for ever on a share that is gone."""


class Look(NamedTuple):
    """A function to call on a background thread, and one for its result on the GUI thread."""

    number: int
    look: Callable[[], Any]
    use: Callable[[Any], object]


class Beside(QObject):
    """Runs one kind of look, of which only the newest counts. A disk that hangs holds up nobody, as
    long as there are fewer than MOST_LOOKS of them; of those that wait only the newest does.

    What a look raises is raised on the window's thread, as if it had looked itself.
    """

    _ended = Signal(int, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._newest = 0
        self._running, self._waiting = 0, list[Look]()
        self._ended.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        self._door = _Door()
        self.destroyed.connect(self._door.close)

    def run(self, look: Callable[[], T], use: Callable[[T], object]) -> None:
        """`look` on a thread of its own; then `use`, unless something newer was asked for."""
        self.forget()
        self._start(Look(self._newest, look, use))

    def run_each(self, look: Callable[[], T], use: Callable[[T], object]) -> None:
        """The same, whatever is asked for later."""
        self._start(Look(EACH, look, use))

    def forget(self) -> None:
        """Nobody waits any more for what runs."""
        self._newest += 1
        self._waiting = [waiting for waiting in self._waiting if waiting.number == EACH]

    def _start(self, asked: Look) -> None:
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
    """A lock that keeps an object alive while a background thread calls it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_open = True

    @contextmanager
    def open(self) -> Iterator[bool]:
        """Whether the object is there; it stays so until the end of the block."""
        with self._lock:
            yield self._is_open

    def close(self) -> None:
        """The object is going."""
        with self._lock:
            self._is_open = False


def _raise(error: Exception) -> None:
    raise error


LOOK_MS = 500


class Collector(QObject):
    """In place of Python's automatic collection, which runs on whatever thread makes an object,
    the engine's too: a widget in a cycle that ends there takes the program with it.
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
        """Collect the oldest generation that is due, as Python itself would.

        What is imported on the way, as for the first formula, are tens of thousands of objects that
        stay: they are left out too, once no more of it comes.
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
        """What there is now stays: leave it out of later collections, which are quick then."""
        self._has_settled = True
        gc.freeze()

    def close(self) -> None:
        """Back to Python's own way."""
        self._timer.stop()
        if self._has_settled:
            gc.unfreeze()
        if self._was_enabled:
            gc.enable()


def keep_clipboard() -> None:
    """Leave what we copied as plain text, in an object of Qt's own.

    One made in Python is destroyed by Qt when Python is gone already, and that crashes.
    """
    clipboard = QGuiApplication.clipboard()
    if clipboard.ownsClipboard():
        clipboard.setText(clipboard.text())
