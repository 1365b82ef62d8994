"""The whole window in tests, with scripted models in place of the engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from pytestqt.qtbot import QtBot
from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine, described

from app.app import App
from app.start.folders import Folders
from mlx_engine.hub.client import Hub

PATIENCE_MS = 60_000


def folders_in(place: Path) -> Folders:
    """Everything in one folder."""
    return Folders(place, place, place / "cache", place / "logs", place / "hub")


def scripted(*answers: Answer) -> ScriptedModels:
    """A source whose built-in model says these answers."""
    model = described("pocket_model", 7_000_000)
    return ScriptedModels({"None": WorkerEngine(list(answers), model)})


class Driven:
    """An app under test, with the steps tests take most."""

    def __init__(self, app: App, qtbot: QtBot) -> None:
        self.app, self.widgets = app, app.widgets
        self._qtbot = qtbot

    def until(self, is_so: Callable[[], bool]) -> None:
        self._qtbot.waitUntil(is_so, timeout=PATIENCE_MS)

    def until_loaded(self) -> None:
        self.until(lambda: self.app.models.description is not None)

    def until_answered(self) -> None:
        """And shown."""
        self.until(lambda: self.app.chats.running is None)
        self.until(lambda: not self.widgets.transcript.reader.turns.is_busy)

    def send(self, text: str) -> None:
        """As if it were typed and sent."""
        box = self.widgets.composer.focusProxy()
        assert isinstance(box, QPlainTextEdit)
        box.setPlainText(text)
        self._qtbot.keyClick(box, Qt.Key.Key_Return)

    def ask(self, text: str) -> str:
        """Send and wait; the answer's text."""
        self.send(text)
        self.until_answered()
        answer = self.app.chats.chat.last_answer
        assert answer is not None
        return answer.text

    @property
    def shown(self) -> list[str]:
        """Texts of the messages on show."""
        return [view.message.text for view in self.widgets.transcript.column.views]


@contextmanager
def running(
    qapp: QApplication,
    qtbot: QtBot,
    place: Path,
    source: ScriptedModels,
    hub: Hub | None = None,
) -> Iterator[Driven]:
    """A started app with its model loaded; closed at the end."""
    app = App(qapp, folders_in(place), source, hub)
    driven = Driven(app, qtbot)
    try:
        app.start()
        driven.until_loaded()
        yield driven
    finally:
        close(app)


def close(app: App) -> None:
    """All of it, the engine's thread first: Qt aborts when a running thread is destroyed."""
    app.close()
    assert app.worker.wait(PATIENCE_MS)
    window = app.widgets.window
    window.close()
    window.deleteLater()
    app.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
