"""Offers the model that answered the chat on show, when another one is in use."""

from pathlib import Path

from PySide6.QtCore import QObject

from app.control.chat import ChatController
from app.control.models import BUILT_IN_NAME, ModelController
from app.window.transcript.model_offer import ModelOffer
from app.worker.requests import LoadModel


class ChatModelController(QObject):
    """Keeps the line true; loads only when it is asked to."""

    def __init__(
        self,
        line: ModelOffer,
        chats: ChatController,
        models: ModelController,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._line, self._chats, self._models = line, chats, models
        line.load_wanted.connect(self._load)
        chats.opened.connect(self.refresh)
        chats.stored.connect(lambda _: self.refresh())
        for signal in (models.progressed, models.loaded, models.failed, models.cancelled):
            signal.connect(self.refresh)
        models.unloaded.connect(self.refresh)

    def refresh(self) -> None:
        """Say what is so now; nothing while a model is being loaded."""
        chat, line = self._chats.chat, self._line
        answer, path = chat.last_answer, chat.settings.model_path
        name = answer.model if answer else ""
        is_known = path is not None or name == BUILT_IN_NAME
        if not name or not is_known or self._is_in_use(name, path) or self._models.loading:
            line.hide()
        elif path is not None and Path(path).is_absolute() and not Path(path).exists():
            line.say_gone(name, path)
        else:
            line.offer(name)

    def _is_in_use(self, name: str, path: str | None) -> bool:
        current = self._models.in_use
        return current is not None and (current.path == path or self._models.model_name == name)

    def _load(self) -> None:
        settings = self._chats.chat.settings
        heads = settings.load.heads
        known = None if heads is None else str(heads)
        self._models.load(LoadModel(settings.model_path, known, settings.load))
        self.refresh()
