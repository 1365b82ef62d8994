"""Every object of the app, made in the order in which they need each other."""

from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from app.control.answers import Answers
from app.control.card import CardController
from app.control.chat import ChatController
from app.control.chat_list import ChatListController
from app.control.chat_model import ChatModelController
from app.control.chat_on_show import ChatOnShow
from app.control.commands import CommandController
from app.control.compare import CompareController
from app.control.composer import ComposerController
from app.control.downloads import Downloads
from app.control.drops import DropController
from app.control.files import FileController
from app.control.kept_settings import KeptSettings
from app.control.library import LibraryController, all_places
from app.control.live_figures import LiveFigures
from app.control.look import LookController
from app.control.models import ModelController
from app.control.reply_router import router
from app.control.session import SessionController
from app.control.settings import SettingsController
from app.control.stop import StopController
from app.library.download import Hub
from app.library.machine import this_machine
from app.library.model_card import read_card
from app.start.folders import Folders
from app.start.mistakes import Mistakes
from app.store.messages import AnswerFigures, answer_figures
from app.store.session_store import SessionStore, open_passing_store, open_store
from app.values.chat_settings import ChatSettings, for_model
from app.values.errors import StoreError
from app.window.widgets import make_widgets
from app.worker.contract import ModelSource
from app.worker.engine_worker import EngineModels, EngineWorker


class Parts(QObject):
    """The objects, not connected yet; `App` does that."""

    def __init__(
        self,
        application: QApplication,
        folders: Folders,
        source: ModelSource | None = None,
        hub: Hub | None = None,
    ) -> None:
        """source: where models come from, None for the real engine; hub: None for the real one."""
        super().__init__()
        machine = this_machine()
        self.mistakes = Mistakes(folders.logs / "headstart.log", self)
        self.settings = KeptSettings(folders.settings_file, self)
        self.look = LookController(application, self.settings, self)
        self.store = _open_chats(folders.chats_file)
        self.widgets = make_widgets(self.look.theme, self.look.sizes)
        models = source or EngineModels(folders.kernels_file)
        self.worker = EngineWorker(machine.usable_bytes, models, self)
        widgets, request = self.widgets, self.worker.request
        self.answers = Answers(self.store, request, parent=self)
        self.models = ModelController(request, self)
        self.compare = CompareController(
            widgets.compare, self.models, request, lambda: self.chats.chat.settings, self
        )
        self.route = router(self.answers, self.compare, self.models, self.mistakes)
        self.chats = ChatController(
            ChatOnShow(self.store, self.settings.value.new_chat),
            self.answers,
            self.models,
            widgets.transcript,
            request,
            self,
        )
        self.chat_model = ChatModelController(
            widgets.transcript.offer, self.chats, self.models, self
        )
        self.listed = ChatListController(self.store, widgets.sidebar, parent=self)
        self.figures = LiveFigures(
            widgets.strip, widgets.drafting, lambda chat: past_answers(self.store, chat), self
        )
        self.session = SessionController(
            widgets.session, self.chats, self.models, self.figures, self.settings, machine, self
        )
        self.preferences = SettingsController(widgets.settings, self.settings, self.look, self)
        self.files = FileController(
            self.store, widgets.window, self.mistakes.log_file, self.new_settings, self
        )
        self.composer = ComposerController(
            widgets.composer,
            self.chats,
            self.answers,
            self.models,
            self.files.attach,
            widgets.transcript.edit_last_prompt,
            self,
        )
        self.drops = DropController(widgets.overlay, self.models, self)
        self.cards = CardController(
            widgets.card, widgets.layer, self.models, machine, read_card, self
        )
        self.library = LibraryController(
            widgets.library,
            widgets.start,
            Downloads(hub or Hub(folders.hub_models), self),
            self.settings,
            all_places(folders.hub_models, Path.home()),
            machine,
            self,
        )
        self.stops = StopController(self.chats, self.compare, self.models, self)
        self.commands = CommandController(
            widgets,
            self.chats,
            self.listed,
            self.look,
            self.files,
            self.stops,
            self.settings,
            self.begin_chat,
            self,
        )

    def new_settings(self) -> ChatSettings:
        """What a new chat starts with, now."""
        return for_model(self.settings.value.new_chat, self.models.description)

    def begin_chat(self) -> None:
        """Show a new chat, ready to be typed into."""
        self.chats.begin(self.new_settings())
        self.widgets.window.show_page("chat")
        self.widgets.composer.setFocus()


def past_answers(store: SessionStore, chat_id: int) -> tuple[AnswerFigures, ...]:
    """Figures of a chat's answers so far; none where the store has trouble, which others tell."""
    try:
        return answer_figures(store.database, chat_id)
    except StoreError:
        return ()


def _open_chats(file: Path) -> SessionStore:
    """The user's chats; ones that are gone at the end when theirs cannot be opened."""
    try:
        return open_store(file)
    except StoreError as error:
        return open_passing_store(f"{error} Until then chats are lost when you quit.")
