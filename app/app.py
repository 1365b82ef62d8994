"""The app object: makes all parts, connects them, starts them, and shuts them down."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.control.actions import Actions
from app.control.drops import DropController
from app.control.files import FileController
from app.control.notices import NotificationController, SystemNotice, TroubleController
from app.control.rest import (
    ChatModelController,
    LastChat,
    RestController,
)
from app.library.machine import this_machine
from app.library.model_card import make_card, read_card
from app.start.crash_log import CrashLog
from app.start.folders import Folders
from app.start.threads import Collector, keep_clipboard
from app.state.answers import Answers
from app.state.attached_files import AttachedFiles
from app.state.card import OfferedModel
from app.state.chat import ChatState
from app.state.chat_list import ChatListState
from app.state.compare import Comparison
from app.state.downloads import Downloads
from app.state.drafting import DraftingFigures
from app.state.drafts import Drafts
from app.state.hub import HubState
from app.state.known_models import KnownModels
from app.state.models import ModelState
from app.state.running_answer import RunningAnswer
from app.state.server import ServerState
from app.state.settings import KeptSettings
from app.state.titles import Titles
from app.state.tools import Tools
from app.store.session_store import open_some_store
from app.values.errors import StoreError
from app.values.models import DownloadFigures, ModelCard
from app.window.controls.labels import announce
from app.window.language import speak, tr
from app.window.pictures import png_by_system
from app.window.style_sheet import LookController
from app.window.widgets import Widgets
from app.worker.engine_worker import EngineWorker
from app.worker.model_in_use import ModelSource
from app.worker.replies import (
    AnswerEvents,
    AnswerFailed,
    AnswerWithdrawn,
    CostsMeasured,
    DraftOutputInUse,
    OldestDropped,
    Reply,
    WorkerFailed,
)
from mlx_engine import PromptFolder
from mlx_engine.hub.client import Hub
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import UNQUANTISED

UNSEEN_MS = 1000
"""Milliseconds after which the engine's thread starts even if the window was never painted."""
LEAVE_S = 0.5
"""Seconds for the engine's thread to end, after the window is gone."""


class App(QObject):
    """All parts of the program, made in the order in which they need each other."""

    def __init__(
        self,
        application: QApplication,
        folders: Folders,
        source: ModelSource | None = None,
        hub: Hub | None = None,
    ) -> None:
        """source, hub: where models come from, None for the engine and the hub."""
        super().__init__()
        self._collector = Collector(self)
        self._is_closed = False
        self._machine = machine = this_machine()
        self.crash_log = CrashLog(folders.logs, self)
        self.settings = settings = KeptSettings(folders.settings_file, self)
        speak(application, settings.value.language)
        self.store = store = open_some_store(folders.chats_file)
        self.look = look = LookController(application, settings, self)
        self.widgets = widgets = Widgets()
        source = source or ModelSource(
            folders.kernels_file, folders.prompts, lambda: settings.value.prompt_files_gb * 10**9
        )
        self.worker = EngineWorker(machine.usable_bytes, source, self, machine.gpu_bytes)
        request = self.worker.request
        self.tools = tools = Tools(lambda: settings.value.tool_servers, parent=self)
        self.answers = answers = Answers(store, request, parent=self, tools=tools)
        self.models = models = ModelState(request, settings, self, lambda: bool(answers.chat_ids))
        self.drafts = drafts = Drafts(store, self)
        self.chat = chat = ChatState(
            store, answers, models, drafts, request, settings.value.new_chat, self
        )
        page = widgets.transcript
        self.compare = compare = Comparison(chat, models, request, self)
        self.chats = chats = ChatListState(store, chat, settings, parent=self)
        page.watch(chat, chats, drafts)
        self.titles = Titles(store, chats, answers, compare, models, settings, request, self)
        self.server = server = ServerState(self.worker.engine_thread, settings, self)
        self.rest = rest = RestController(
            models, answers, compare, settings, server, widgets.notice, self
        )
        self.troubles = TroubleController(
            widgets.notice, widgets.window, self.crash_log, chat, answers, self
        )
        self.figures = DraftingFigures(chat, answers, models, store.messages, self)
        prompts = PromptFolder(folders.prompts)
        widgets.settings.watch(settings, server, lambda: prompts.nbytes, prompts.forget_all, tools)
        NotificationController(
            SystemNotice(widgets.window), answers, settings, self._title_of, self._come_back, self
        )
        ChatModelController(page.offer, chat, models, self)
        self.attached = attached = AttachedFiles(chat, models, drafts, png_by_system, self)
        widgets.composer.watch(chat, models, attached, settings, page.edit_last_prompt)
        self.last_chat = LastChat(chat, page.reader.turns, settings, folders.being_shown_file, self)
        self.offered = offered = OfferedModel(models, settings, machine, read_card, self)
        self.downloads = downloads = Downloads(hub or Hub(folders.hub_models), settings, self)
        self.known = known = KnownModels(models, downloads, settings, machine, self)
        self.hub = HubState(downloads, machine, self)
        self.files = files = FileController(
            widgets, store, chat, chats, self.troubles, self.crash_log.log_file, settings, self
        )
        self.drops = drops = DropController(
            widgets, models, offered, known, self.hub, attached, files, settings, self
        )
        self.actions = Actions(
            widgets, chat, chats, models, offered, rest, compare, look, files, drops, settings, self
        )
        self._end_catching = self.crash_log.catch_all()
        self._connect_models()
        self._connect_chats()
        self._connect_look()
        for state in (chats, settings, answers, drafts, tools):
            state.failed.connect(self.troubles.tell)
            state.mended.connect(widgets.notice.withdraw)
        chat.mended.connect(widgets.notice.withdraw)
        self.troubles.tell_of_the_start((*store.notices, *settings.notes))

    # from the first window to the last save

    def start(self, paths: Sequence[str] = ()) -> None:
        """Show the window, then load the model in `paths`, else the last one."""
        value, window = self.settings.value, self.widgets.window
        window.sidebar_width = value.sidebar_width
        window.restore(value.window_state)
        self.chats.refresh()
        titles = {chat.id: chat.title for chat in self.store.chats.listed()}
        self._take_old_texts()
        self._take_old_load_options()
        if words := self.last_chat.restore(value, titles):
            self.widgets.notice.say(words, until=self.chat.opened)
        window.painted.connect(self._begin_work)
        QTimer.singleShot(UNSEEN_MS, self, self._begin_work)
        window.show()
        self.widgets.composer.setFocus()
        if paths:
            self.drops.begin_with(paths, self._load_last)
        else:
            self._load_last()

    def _take_old_texts(self) -> None:
        """Move unsent texts from the settings, where an older Headstart left them, to the store."""
        value = self.settings.value
        if value.unsent or value.rewritten:
            self.drafts.add_texts(value.unsent, value.rewritten)
            if self.drafts.save():
                self.settings.change(replace(value, unsent={}, rewritten={}))

    def _take_old_load_options(self) -> None:
        """Move load options from the chats, where an older Headstart left them, to the models."""
        with suppress(StoreError):
            found = self.store.chats.take_load_options()
            value = self.settings.value
            self.settings.change(replace(value, models={**found, **value.models}))

    def _begin_work(self) -> None:
        """Start the engine after the first painting, which importing MLX would delay."""
        if not self._is_closed:
            self.worker.start()
            self.server.begin()
            self.known.refresh()
            self.store.copy_daily()

    def open(self, paths: Sequence[str]) -> None:
        """Open files and links from outside as if they were dropped, and raise the window."""
        window = self.widgets.window
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.raise_()
        window.activateWindow()
        if paths:
            self.drops.take(paths)

    def close(self) -> None:
        """Store everything, and end the engine's thread."""
        if self._is_closed:
            return
        self._is_closed = True
        window, width = self.widgets.window.state(), self.widgets.window.sidebar_width
        self.widgets.window.hide()
        lost = self.answers.keep_all()
        self.rest.awake.hold(False)
        self.last_chat.keep()
        self.last_chat.close()
        self.drafts.edits.update(lost)
        left = self.drafts.close()
        value = replace(self.settings.value, window_state=window, sidebar_width=width)
        self.settings.change(replace(value, unsent=left.chats, rewritten=left.messages))
        self.settings.close()
        self.known.close()
        self.hub.close()
        self.downloads.close()
        self.files.close()
        self.chats.close()
        self.widgets.transcript.reader.turns.stop()
        self.server.close()
        self.worker.shutdown(LEAVE_S)
        self.tools.close()
        self.store.close()
        self._end_catching()
        keep_clipboard()
        self._collector.close()

    def _load_last(self) -> None:
        self.rest.load_last()

    # models

    def _connect_models(self) -> None:
        models, offered, settings = self.models, self.offered, self.settings
        on_disk = self.known, models, offered, self.downloads, self.hub
        self.widgets.card.watch(offered, settings)
        self.widgets.library.watch(*on_disk, settings)
        self.widgets.start.watch(*on_disk, self.chat.send)
        for view in (self.widgets.strip, self.widgets.drafting):
            view.watch(self.figures)
        self.widgets.strip.watch_server(self.server)
        self.widgets.compare.watch(self.compare)
        self.widgets.session.watch(self.chat, models, self.figures, self.settings, self._card_of)
        self.widgets.session.tools.watch(self.chat, self.settings, self.tools)
        self.widgets.session.tools.set_up.clicked.connect(self._show_tool_servers)
        self.widgets.session.options.clicked.connect(self._offer_again)
        self.worker.replied.connect(self.route)
        models.switched.connect(self._collector.settle)
        models.noticed.connect(lambda words: self.widgets.notice.say(words, until=models.switched))
        self.widgets.notice.taken.connect(self.offered.offer)
        self.offered.changed.connect(self._show_card)
        self.widgets.card.load.clicked.connect(lambda: self.widgets.window.show_page("chat"))
        self.downloads.completed.connect(self._tell_of_download)
        self.hub.wanted.connect(lambda: self.widgets.window.show_page("library"))

    def route(self, reply: Reply) -> None:
        """Pass a reply of the engine's thread to the state that waits for it; log its bugs.

        Replies after the end are dropped.
        """
        if self._is_closed:
            return
        match reply:
            case AnswerEvents() | AnswerFailed() | AnswerWithdrawn():
                if not (self.compare.take(reply) or self.titles.take(reply)):
                    self.answers.take(reply)
            case OldestDropped():
                self.chat.keep_dropped(reply)
            case CostsMeasured() | DraftOutputInUse():
                self.figures.take(reply)
            case WorkerFailed(problem) if problem.kind == "known":
                self.troubles.tell(problem.words, until=self.models.switched)
            case WorkerFailed(problem):
                self.crash_log.report(problem.words, problem.details)
            case _:
                self.models.take(reply)

    def _card_of(self, model: ModelDescription) -> ModelCard:
        in_use = self.models.in_use
        return make_card(model, self._machine, in_use.cache if in_use else UNQUANTISED)

    def _offer_again(self) -> None:
        """Open the card of the model in use, to change its load options."""
        if self.models.current is not None:
            self.offered.offer(self.models.current.path)

    def _show_tool_servers(self) -> None:
        self.widgets.window.show_page("settings")
        self.widgets.settings.show_pane("tools")

    def _tell_of_download(self, figures: DownloadFigures) -> None:
        words = tr("{name} is downloaded.", name=figures.name)
        self.widgets.notice.offer(words, figures.path)

    def _show_card(self) -> None:
        """Show the card of the offered model; a load's progress is shown in the chat."""
        if self.offered.phase != "closed":
            self.widgets.layer.open()
        else:
            self.widgets.layer.hide()

    # chats

    def _connect_chats(self) -> None:
        chat, answers, window = self.chat, self.answers, self.widgets.window
        widgets, reader = self.widgets, self.widgets.transcript.reader
        downloads = self.downloads
        widgets.sidebar.watch(self.chats, chat, answers, downloads, self.files.export)
        commands = (self.actions[name] for name in ("eject", "library"))
        widgets.head.watch(chat, self.chats, self.models, self.known, *commands)
        reader.selection.quote_wanted.connect(widgets.composer.quote)
        self.models.changed.connect(self._show_model)
        self.figures.changed.connect(self._show_context)
        for page in (reader, widgets.compare.reader):
            page.link_clicked.connect(self.files.open_link)
        window.closing.connect(self.close)
        window.dragged.connect(self.drops.hover)
        window.drag_left.connect(self.drops.leave)
        window.dropped.connect(self.drops.take)
        chat.opened.connect(lambda _: window.show_page("chat"))
        chat.changed.connect(self._show_chat)
        answers.ended.connect(self._end_answer)

    def _title_of(self, chat_id: int) -> str:
        return self.store.chats.get(chat_id).title or tr("New chat")

    def _come_back(self, chat_id: int) -> None:
        self.open(())
        self.chat.open(chat_id)

    def _show_chat(self) -> None:
        self.widgets.chat_page.show_start(not self.chat.turns)
        title = self.chat.title or tr("New chat")
        self.widgets.window.setWindowTitle(f"{title} – Headstart")

    def _show_context(self) -> None:
        model, ring = self.figures.model, self.widgets.composer.ring
        ring.show_context(self.figures.context_used or 0, (model and model.context_length) or 0)

    def _show_model(self) -> None:
        model = self.models.description
        self.widgets.transcript.show_model(model.name if model else "")
        if self.models.in_use is not None:
            self.widgets.notice.withdraw_offer(self.models.in_use.path)

    def _end_answer(self, answer: RunningAnswer) -> None:
        if answer.chat_id == self.chat.chat_id:
            transcript, words = self.widgets.transcript, answer.answer.text
            ended = words or tr("The answer has ended.")
            transcript.reader.turns.do(lambda: announce(transcript, ended))
            if answer.was_complete:
                complete = tr("The answer is complete. Answer Again gives another one.")
                self.widgets.notice.mention(complete)

    # the look

    def _connect_look(self) -> None:
        self.settings.changed.connect(self.tools.refresh)
        self.settings.changed.connect(self._apply_look_switches)
        self._apply_look_switches()

    def _apply_look_switches(self) -> None:
        value = self.settings.value
        self.widgets.transcript.set_drafted_shown(value.show_drafted)
        self.widgets.transcript.set_text_width(value.text_width)
