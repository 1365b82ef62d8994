"""The whole window in tests, with scripted models in place of the engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QApplication, QDialog, QLineEdit, QPlainTextEdit
from pytestqt.qtbot import QtBot
from scripted_engine import Answer, ScriptedEngine
from scripted_models import ScriptedModels, WorkerEngine, described

from app.app import App
from app.start.folders import Folders
from app.values.app_settings import AppSettings
from app.values.chat_settings import ChatSettings
from app.window.main_window import USUAL
from app.worker.model_in_use import ModelSource, Progress, Stop
from app.worker.requests import LoadModel
from mlx_engine.hub.client import Hub
from mlx_engine.values.model_description import ModelDescription

PATIENCE_MS = 60_000


def folders_in(place: Path) -> Folders:
    """Everything in one folder."""
    return Folders(place, place, place / "cache", place / "logs", place / "hub")


def scripted(*answers: Answer) -> ScriptedModels:
    """A source whose built-in model says these answers."""
    model = described("pocket_model", 7_000_000)
    return ScriptedModels({"None": WorkerEngine(list(answers), model)})


class Relay(ModelSource):
    """Has models from the source of the test that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.source = scripted()

    def inspect(self, request: LoadModel, on_download: Progress, stop: Stop) -> ModelDescription:
        return self.source.inspect(request, on_download, stop)

    def load(
        self, request: LoadModel, on_progress: Progress, on_download: Progress, stop: Stop
    ) -> ScriptedEngine:
        return self.source.load(request, on_progress, on_download, stop)

    def forget_files(self, chat_id: str) -> None:
        self.source.forget_files(chat_id)


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
        self.until(lambda: self.app.chat.running is None)
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
        answer = self.app.chat.last_answer
        assert answer is not None
        return answer.text

    def begin_anew(self) -> None:
        """As after a first start: of what other tests did nothing is left, open, typed or stored;
        the model is loaded once more.
        """
        app, widgets, window = self.app, self.widgets, self.widgets.window
        for dialog in window.findChildren(QDialog):
            dialog.close()
            dialog.deleteLater()
        app.compare.stop()
        app.models.cancel()
        for chat_id in app.answers.chat_ids:
            app.answers.stop(chat_id)
        self.until(lambda: not (app.answers.chat_ids or app.compare.is_running))
        self.until(lambda: app.models.loading is None)
        app.settings.change(AppSettings())
        for table in ("chat", "folder", "sqlite_sequence"):
            app.store.database.write(f"DELETE FROM {table}")
        app.drafts.chats.clear()
        app.chat.begin(ChatSettings())
        widgets.transcript.reader.edits.clear()
        widgets.transcript.find_bar.field.clear()
        widgets.transcript.close_find()
        app.drops.leave()
        app.offered.close()
        app.chats.deeds.forget()
        widgets.session.presets.deeds.forget()
        widgets.sidebar.clear_search()
        app.chats.show_trash(False)
        for field in widgets.library.findChildren(QLineEdit):
            field.clear()
        widgets.library.show_place("here")
        widgets.session.fold_groups(AppSettings().folded_groups)
        window.showNormal()
        window.resize(*USUAL)
        window.show_page("chat")
        window.show_panel("session")
        window.show_sidebar(True)
        app.models.rest("")
        app.models.load(None)
        self.until(lambda: app.models.loading is None)
        self.until(lambda: not widgets.transcript.reader.turns.is_busy)
        widgets.notice._dismiss()
        widgets.composer.setFocus()

    @property
    def shown(self) -> list[str]:
        """Texts of the messages on show."""
        return [view.message.text for view in self.widgets.transcript.column.views]


@contextmanager
def running(
    qapp: QApplication,
    qtbot: QtBot,
    place: Path,
    source: ModelSource,
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
