"""Connects every object of the app, starts it, and brings it to a good end."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from app.control.library import BUILT_IN
from app.control.model_values import model_name
from app.library.download import Hub
from app.parts import Parts
from app.start.clipboard import keep_clipboard
from app.start.collector import Collector
from app.start.folders import Folders
from app.values.chat_settings import for_model
from app.window.crash_box import CrashBox
from app.worker.contract import ModelSource
from app.worker.replies import LoadProgress
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.reason import Reason

LEAVE_S = 2.0


class App(QObject):
    """Everything there is, from the first window to the last save.

    parts: the objects, for tests as well. source, hub: where models come from, None for
    the engine and the hub.
    """

    def __init__(
        self,
        application: QApplication,
        folders: Folders,
        source: ModelSource | None = None,
        hub: Hub | None = None,
    ) -> None:
        super().__init__()
        self._collector = Collector(self)
        self.parts = Parts(application, folders, source, hub)
        self.parts.models.loaded.connect(lambda _: self._collector.settle())
        self._end_catching = self.parts.mistakes.catch_all()
        self._is_closed = False
        self._connect_models()
        self._connect_chats()
        self._connect_drops()
        self._connect_look()
        self._connect_troubles()
        self.parts.widgets.window.closing.connect(self.close)

    def start(self, paths: Sequence[str] = ()) -> None:
        """Show the window, then load a model: one of `paths`, else the last one."""
        parts, value = self.parts, self.parts.settings.value
        window = parts.widgets.window
        window.restore(value.window_state)
        parts.listed.refresh()
        parts.chats.begin(parts.new_settings())
        if value.last_chat is not None:
            self._open_last(value.last_chat)
        window.show()
        parts.widgets.composer.setFocus()
        parts.worker.start()
        parts.library.refresh()
        self._load_first(bool(paths))
        if paths:
            self.open(paths)

    def open(self, paths: Sequence[str]) -> None:
        """Files and links from outside: in front, as if they were dropped."""
        window = self.parts.widgets.window
        window.raise_()
        window.activateWindow()
        if paths:
            self.parts.drops.take(paths)

    def close(self) -> None:
        """Keep everything, and end the engine's thread."""
        if self._is_closed:
            return
        self._is_closed = True
        parts = self.parts
        parts.answers.keep_all()
        state = parts.widgets.window.state()
        parts.settings.change(replace(parts.settings.value, window_state=state))
        parts.library.close()
        parts.worker.shutdown(LEAVE_S)
        parts.store.close()
        self._end_catching()
        keep_clipboard()
        self._collector.close()

    def _open_last(self, chat_id: int) -> None:
        listed = {chat.id for chat in self.parts.store.chats.listed()}
        if chat_id in listed:
            self.parts.chats.open(chat_id)

    def _load_first(self, has_paths: bool) -> None:
        """The model used last, the built-in one if there is none or it is gone."""
        recent = self.parts.settings.value.recent_models
        last = recent[0] if recent and recent[0] != BUILT_IN else None
        if last is not None and not Path(last).exists():
            if not has_paths:
                words = f"{last} is no longer there; the built-in model is used instead."
                self.parts.widgets.notice.say(words)
            last = None
        self.parts.models.load_path(last)

    # connections

    def _connect_models(self) -> None:
        parts, models, head = self.parts, self.parts.models, self.parts.widgets.head
        parts.worker.replied.connect(parts.route)
        models.progressed.connect(self._show_progress)
        models.loaded.connect(self._use_model)
        models.failed.connect(lambda _: head.show_model(models.description))
        models.cancelled.connect(lambda: head.show_model(models.description))
        models.described.connect(self._describe_model)
        models.unloaded.connect(self._lose_model)
        models.measured.connect(parts.figures.show_costs)
        head.cancel_wanted.connect(models.cancel)
        parts.library.chosen.connect(self._offer)
        parts.library.arrived.connect(self._offer_download)
        parts.widgets.notice.taken.connect(self._offer)
        parts.widgets.start.built_in_wanted.connect(self._use_built_in)

    def _connect_chats(self) -> None:
        parts, widgets = self.parts, self.parts.widgets
        chats, transcript = parts.chats, parts.widgets.transcript
        transcript.regenerate_wanted.connect(chats.regenerate)
        transcript.edit_wanted.connect(chats.edit)
        transcript.continue_wanted.connect(chats.continue_answer)
        transcript.branch_wanted.connect(chats.show_branch)
        transcript.stats_clicked.connect(lambda _: widgets.window.show_panel("drafting"))
        transcript.link_clicked.connect(parts.files.open_link)
        widgets.start.asked.connect(chats.send)
        chats.opened.connect(self._show_chat)
        chats.stored.connect(parts.listed.show_changed)
        parts.listed.chosen.connect(self._choose_chat)
        parts.listed.gone.connect(self._lose_chat)
        parts.files.imported.connect(self._choose_chat)
        parts.files.imported.connect(parts.listed.refresh)
        parts.answers.grown.connect(parts.figures.take)
        parts.answers.grown.connect(lambda *_: parts.session.show_now())
        parts.answers.ended.connect(lambda answer, _: parts.figures.end(answer))
        parts.answers.changed.connect(self._show_answering)

    def _connect_drops(self) -> None:
        parts, window = self.parts, self.parts.widgets.window
        window.dragged.connect(parts.drops.hover)
        window.drag_left.connect(parts.drops.leave)
        window.dropped.connect(parts.drops.take)
        parts.files.opened.connect(parts.drops.take)
        parts.drops.model_offered.connect(self._offer)
        parts.drops.heads_offered.connect(parts.cards.offer_heads)
        parts.drops.folder_offered.connect(self._add_folder)
        parts.drops.hub_model_offered.connect(self._download)
        parts.drops.attached.connect(parts.composer.attach)
        parts.drops.refused.connect(parts.widgets.notice.say)

    def _connect_look(self) -> None:
        parts, widgets = self.parts, self.parts.widgets
        parts.look.dress(
            [
                widgets.sidebar.set_theme,
                widgets.window.set_theme,
                widgets.head.set_theme,
                widgets.notice.set_theme,
                widgets.start.set_theme,
                widgets.transcript.set_style,
                widgets.composer.set_theme,
                widgets.library.set_theme,
                widgets.library_page.set_theme,
                widgets.compare_page.set_theme,
                widgets.settings.set_theme,
                widgets.settings_page.set_theme,
                widgets.compare.set_theme,
                widgets.session.set_theme,
                widgets.drafting.set_theme,
                widgets.drafting_panel.set_theme,
                widgets.strip.set_theme,
                widgets.card.set_theme,
                widgets.layer.set_theme,
                widgets.overlay.set_theme,
            ]
        )
        parts.settings.changed.connect(self._apply_look_switches)
        self._apply_look_switches()
        widgets.window.folded.connect(parts.figures.show_drafting)

    def _connect_troubles(self) -> None:
        parts, notice = self.parts, self.parts.widgets.notice
        for signal in (parts.listed.failed, parts.settings.failed, parts.files.failed):
            signal.connect(self._say_problem)
        parts.answers.not_saved.connect(self._say_problem)
        parts.chats.failed.connect(self._say_failure)
        parts.files.told.connect(notice.say)
        notice.details_wanted.connect(self._show_details)
        parts.mistakes.made.connect(self._show_mistake)
        notes = (*parts.store.notices, *parts.settings.notes)
        if notes:
            notice.say(" ".join(notes))

    # what a signal means for several parts at once

    def _use_model(self, model: ModelDescription) -> None:
        parts, chat = self.parts, self.parts.chats.chat
        parts.widgets.head.show_model(model)
        parts.figures.show_model(model)
        in_use = parts.models.in_use
        parts.library.remember(model, in_use.path if in_use else None)
        if chat.chat_id is None:
            parts.chats.change_settings(for_model(chat.settings, model))

    def _describe_model(self, news: tuple[Reason, ...]) -> None:
        """It was found out while it was used."""
        model = self.parts.models.description
        self.parts.widgets.head.show_model(model)
        self.parts.figures.describe_model(model)
        if news:
            self.parts.widgets.notice.say(" ".join(reason.words for reason in news))

    def _lose_model(self, words: str) -> None:
        self.parts.widgets.head.show_model(None)
        self.parts.figures.show_model(None)
        self.parts.widgets.notice.say(words)

    def _show_progress(self, progress: LoadProgress) -> None:
        name = model_name(progress.path)
        self.parts.widgets.head.show_loading(name, progress.done, progress.total)

    def _offer(self, path: str | None) -> None:
        self.parts.widgets.window.show_page("chat")
        self.parts.cards.offer(path)

    def _use_built_in(self) -> None:
        """Load it, unless it is there already; then type."""
        current = self.parts.models.loading or self.parts.models.in_use
        if current is None or current.path is not None:
            self.parts.models.load_path(None)
        self.parts.widgets.composer.setFocus()

    def _download(self, model: object) -> None:
        self.parts.widgets.window.show_page("library")
        self.parts.library.get(model)  # type: ignore[arg-type]

    def _offer_download(self, name: str, path: str) -> None:
        self.parts.widgets.notice.offer(f"{name} is downloaded.", path)

    def _add_folder(self, folder: str) -> None:
        self.parts.widgets.window.show_page("library")
        self.parts.library.add_folder(folder)

    def _choose_chat(self, chat_id: int, message_id: int | None = None) -> None:
        self.parts.widgets.window.show_page("chat")
        self.parts.chats.open(chat_id, message_id)

    def _lose_chat(self, chat_id: int) -> None:
        self.parts.chats.forget(chat_id)
        if self.parts.chats.chat.chat_id == chat_id:
            self.parts.begin_chat()

    def _show_chat(self) -> None:
        parts, chat = self.parts, self.parts.chats.chat
        parts.widgets.chat_page.show_start(not chat.turns)
        parts.widgets.sidebar.list.show_current(chat.chat_id)
        parts.figures.show_chat(chat.chat_id, parts.chats.last_stats, parts.chats.running)
        parts.session.show_now()
        parts.settings.change(replace(parts.settings.value, last_chat=chat.chat_id))
        title = chat.title or "New chat"
        parts.widgets.window.setWindowTitle(f"{title} – Headstart")

    def _show_answering(self) -> None:
        self.parts.widgets.sidebar.list.show_answering(self.parts.answers.chat_ids)
        self.parts.commands.refresh()
        self.parts.session.show_now()

    def _apply_look_switches(self) -> None:
        widgets, value = self.parts.widgets, self.parts.settings.value
        widgets.transcript.set_drafted_shown(value.show_drafted)
        widgets.window.set_motion(not value.reduce_motion)

    def _say_problem(self, words: str) -> None:
        self.parts.mistakes.note(words)
        self.parts.widgets.notice.say(words, is_problem=True)

    def _say_failure(self, words: str, details: str) -> None:
        if details:
            self.parts.mistakes.note(f"{words}\n{details}")
        self.parts.widgets.notice.say(words, details, is_problem=True)

    def _show_details(self, details: str) -> None:
        self._show_mistake(self.parts.widgets.notice.words(), details)

    def _show_mistake(self, words: str, details: str) -> None:
        CrashBox(words, details, self.parts.widgets.window).open()
