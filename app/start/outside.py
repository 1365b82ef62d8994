"""A single instance per data folder, and files that the system opens."""

import fcntl
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QApplication
from typing_extensions import override

from mlx_engine.values.private_files import is_private

CONNECT_MS, ANSWER_MS = 1000, 10_000
"""Timeouts for connecting to the running window, and for its answer.

A busy machine may take seconds. Paths that the window takes later still count as handed over.
"""
LARGEST_MESSAGE = 1_000_000
SOCKET, TAKEN = "window", b"taken\n"


class SingleInstance(QObject):
    """One window per data folder: a second launch hands its paths to the first one and ends.

    The socket lies in a private temporary folder, since the path of a socket must be short; a link
    in the data folder leads there.

    Signal `called`(paths): a second launch wants the window, with the paths it was given.
    """

    called = Signal(list)

    def __init__(self, data: Path) -> None:
        super().__init__()
        self._lock_file, self._lock = data / "headstart.lock", -1
        self._link = data / "headstart.socket"
        self._folder: Path | None = None
        self._server = QLocalServer(self)
        self._server.newConnection.connect(self._greet)
        self._heard: dict[QLocalSocket, bytes] = {}

    def hand_over(self, paths: Sequence[str]) -> bool:
        """Send the paths to a running window; False if none answers."""
        folder = self._socket_folder()
        if folder is None:
            return False
        socket = QLocalSocket()
        socket.connectToServer(str(folder / SOCKET))
        if not socket.waitForConnected(CONNECT_MS):
            return False
        socket.write(json.dumps(list(paths)).encode() + b"\n")
        if socket.waitForBytesWritten(CONNECT_MS) and not socket.bytesAvailable():
            socket.waitForReadyRead(ANSWER_MS)
        answer = bytes(socket.readAll().data())
        socket.disconnectFromServer()
        return answer == TAKEN

    def _socket_folder(self) -> Path | None:
        """Return the target of the link, if it is a folder that only this user may enter."""
        try:
            folder = self._link.readlink()
        except OSError:
            return None
        return folder if is_private(folder) else None

    def claim(self) -> bool:
        """Lock the data folder until `close`; False if another window holds the lock, even one that
        does not answer.

        The system releases the lock of a process that ends, whatever the file says. A folder that
        cannot be written to is not locked.
        """
        try:
            self._lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._unlock()
            return not isinstance(error, BlockingIOError)
        return True

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def listen(self) -> bool:
        """Accept second launches; replaces the socket that a crash left behind."""
        try:
            self._remove(self._socket_folder())
            self._folder = Path(tempfile.mkdtemp(prefix="headstart-"))
            self._link.symlink_to(self._folder)
        except OSError:
            return False
        return self._server.listen(str(self._folder / SOCKET))

    def close(self) -> None:
        """Stop accepting and release the lock."""
        self._server.close()
        for socket in list(self._heard):
            socket.abort()
        with suppress(OSError):
            self._remove(self._folder)
        self._unlock()

    def _remove(self, folder: Path | None) -> None:
        """Remove the link, and the socket with its folder."""
        self._link.unlink(missing_ok=True)
        if folder is not None:
            (folder / SOCKET).unlink(missing_ok=True)
            folder.rmdir()

    def _greet(self) -> None:
        while self._server.hasPendingConnections():
            socket = self._server.nextPendingConnection()
            self._heard[socket] = b""
            socket.readyRead.connect(partial(self._read, socket))
            socket.disconnected.connect(partial(self._part, socket))
            self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        said = self._heard.get(socket, b"") + bytes(socket.readAll().data())
        self._heard[socket] = said
        if len(said) > LARGEST_MESSAGE:
            socket.abort()
        elif said.endswith(b"\n"):
            self._heard[socket] = b""
            socket.write(TAKEN)
            socket.flush()
            self.called.emit(paths_in(said))

    def _part(self, socket: QLocalSocket) -> None:
        self._heard.pop(socket, None)
        socket.deleteLater()


def paths_in(message: bytes) -> list[str]:
    """Parse the paths in a message; none if it is not one of ours."""
    try:
        content = json.loads(message)
    except ValueError:
        return []
    if not isinstance(content, list):
        return []
    return [path for path in content if isinstance(path, str)]


class Application(QApplication):
    """QApplication with a signal `opened`(paths and links): macOS opens a file with Headstart."""

    opened = Signal(list)

    # Qt

    @override
    def event(self, event: QEvent) -> bool:
        # an event filter would see every event of every widget
        if isinstance(event, QFileOpenEvent):
            self.opened.emit([event.file() or event.url().toString()])
            return True
        return bool(super().event(event))


def as_typed(arguments: Sequence[str], folder: Path) -> list[str]:
    """Make arguments absolute paths if such files exist, else leave them (links, ids)."""
    return [str(folder / text) if (folder / text).exists() else text for text in arguments]
