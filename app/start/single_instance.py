"""One window a user: a second launch hands its paths to the first and ends."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

ANSWER_MS = 1000
LARGEST_MESSAGE = 1_000_000


class SingleInstance(QObject):
    """Listens for later launches that use the same folder of data.

    Signals:
        called: a later launch wants the window, with the paths it was given.
    """

    called = Signal(list)

    def __init__(self, data: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = "headstart-" + sha256(str(data.resolve()).encode()).hexdigest()[:16]
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._greet)
        self._heard: dict[QLocalSocket, bytes] = {}

    def hand_over(self, paths: Sequence[str]) -> bool:
        """Give the paths to a window that runs already; False when there is none."""
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(ANSWER_MS):
            return False
        socket.write(json.dumps(list(paths)).encode() + b"\n")
        taken = socket.waitForBytesWritten(ANSWER_MS) and socket.waitForReadyRead(ANSWER_MS)
        socket.disconnectFromServer()
        return taken

    def listen(self) -> bool:
        """Be the one that is called; what a crashed window left behind is taken away first."""
        QLocalServer.removeServer(self._name)
        return self._server.listen(self._name)

    def close(self) -> None:
        """Listen no more."""
        self._server.close()

    def _greet(self) -> None:
        while self._server.hasPendingConnections():
            socket = self._server.nextPendingConnection()
            self._heard[socket] = b""
            socket.readyRead.connect(self._hear)
            socket.disconnected.connect(self._part)
            self._read(socket)

    def _hear(self) -> None:
        socket = self.sender()
        if isinstance(socket, QLocalSocket):
            self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        said = self._heard.get(socket, b"") + bytes(socket.readAll().data())
        self._heard[socket] = said
        if len(said) > LARGEST_MESSAGE:
            socket.abort()
        elif said.endswith(b"\n"):
            self._heard[socket] = b""
            socket.write(b"taken\n")
            socket.flush()
            self.called.emit(paths_in(said))

    def _part(self) -> None:
        socket = self.sender()
        if isinstance(socket, QLocalSocket):
            self._heard.pop(socket, None)
            socket.deleteLater()


def paths_in(message: bytes) -> list[str]:
    """The paths of a message; none when it is not one of ours."""
    try:
        content = json.loads(message)
    except ValueError:
        return []
    if not isinstance(content, list):
        return []
    return [path for path in content if isinstance(path, str)]
