"""Models on offer: the card of one that was dropped or chosen, and the one a chat had before."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.library.machine import Machine
from app.start.threads import Beside
from app.state.chat import ChatState
from app.state.models import ModelState, model_name
from app.state.settings import KeptSettings
from app.values.app_settings import ModelSettings, settings_of, with_settings_of
from app.values.models import BUILT_IN_NAME, ModelCard
from app.window.controls.notice_bar import NoticeBar
from app.window.language import tr
from app.window.layers import CardLayer
from app.window.models.model_card_view import LOOKING, WAITING, ModelCardView
from app.worker.replies import LoadFailed, LoadProgress

ReadCard = Callable[[str | Path | None, Machine, ModelSettings], ModelCard | str]
PATIENCE_MS = 120
"""How long headers may take before the card says that they are being read."""


class CardController(QObject):
    """Shows one card at a time; headers are read beside the window, for disks may be slow. Signal
    `loaded`: the model of the card is in use.
    """

    loaded = Signal()

    def __init__(
        self,
        card: ModelCardView,
        layer: CardLayer,
        models: ModelState,
        settings: KeptSettings,
        machine: Machine,
        read_card: ReadCard,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._card, self._layer = card, layer
        self._models, self._machine, self._read_card = models, machine, read_card
        self._settings = settings
        self._tried: ModelSettings | None = None
        self._path: str | None = None
        self._problem = ""
        self._disk = Beside(self)
        self._slow = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._slow.timeout.connect(self._show_looking)
        card.load_fields.changed.connect(self._look)
        card.load_wanted.connect(self._load)
        card.cancel_wanted.connect(self._cancel)
        card.closed.connect(self._close)
        models.progressed.connect(self._progress)
        models.loaded.connect(lambda _: self._end_load())
        models.failed.connect(self._fail)
        models.cancelled.connect(self._offer_again)

    def offer(self, path: str | None, problem: str = "") -> None:
        """Show what a model is, ready to be loaded; None is the built-in one. problem: what is
        wrong with it, whatever its headers say.
        """
        self._begin(path, settings_of(self._settings.value, path), problem)

    def offer_heads(self, heads: str, path: str | None) -> None:
        """Show a model as it would be with these heads."""
        own = settings_of(self._settings.value, path)
        self._begin(path, replace(own, load=replace(own.load, heads=Path(heads))))

    def _begin(self, path: str | None, own: ModelSettings, problem: str = "") -> None:
        self._path, self._problem = path, problem
        self._card.load_fields.show_settings(own)
        self._slow.start()
        self._look()

    def _look(self) -> None:
        """What the model is as it would be loaded now."""
        path, own = self._path, self._card.load_fields.settings
        own = replace(own, load=self._models.as_wanted(path, own).options)
        self._disk.run(lambda: self._read_card(path, self._machine, own), self._show)

    def _show_looking(self) -> None:
        self._card.show_looking(model_name(self._path))
        self._layer.open()

    def _show(self, card: ModelCard | str) -> None:
        self._slow.stop()
        if isinstance(card, str):
            self._card.show_offered(_nothing_known(self._path))
            self._card.show_unreadable(self._problem or card)
        else:
            name = card.name if self._path else model_name(None)
            self._card.show_offered(replace(card, name=name))
            if self._problem:
                self._card.show_failed(self._problem)
        self._layer.open()

    def _close(self) -> None:
        """Away with the card, also with one that is only now being read."""
        self._disk.forget()
        self._slow.stop()
        self._layer.hide()

    def _end_load(self) -> None:
        """The way it was loaded works and is remembered. What was loaded at the start leaves the
        card of something else alone.
        """
        in_use, tried, self._tried = self._models.in_use, self._tried, None
        if in_use is not None and in_use.path == self._path:
            if tried is not None:
                value = self._settings.value
                self._settings.change(with_settings_of(value, self._path, tried))
                self.loaded.emit()
            self._close()

    def _load(self) -> None:
        self._disk.forget()  # the card shows the load from now on
        own, anyway = self._card.load_fields.settings, self._card.is_too_large
        self._tried = replace(own, load=replace(own.load, anyway=anyway or own.load.anyway))
        self._models.load_path(self._path, own=self._tried)

    def _cancel(self) -> None:
        self._card.show_cancelling()
        self._models.cancel()

    def _progress(self, progress: LoadProgress) -> None:
        if self._shows(progress.path):
            before = WAITING if progress.waits else LOOKING
            self._card.show_loading(progress.done, progress.total, before)

    def _fail(self, failed: LoadFailed) -> None:
        """A load that nobody watched opens the card too: its words say what to do."""
        if self._shows(failed.path):
            self._card.show_failed(failed.problem.words)
        else:
            self.offer(failed.path, failed.problem.words)

    def _offer_again(self) -> None:
        if self._layer.isVisible():
            self._look()

    def _shows(self, path: str | None) -> bool:
        return self._layer.isVisible() and self._path == path


def _nothing_known(path: str | None) -> ModelCard:
    """The card of something that cannot be read."""
    return ModelCard(model_name(path), "", "", "", "", tr("It cannot be loaded as it is."), False)


class ChatModelController(QObject):
    """Keeps the line true; loads only when it is asked to."""

    def __init__(
        self,
        line: NoticeBar,
        chat: ChatState,
        models: ModelState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._line, self._chat, self._models = line, chat, models
        line.taken.connect(lambda _: self._load())
        chat.changed.connect(self.refresh)
        models.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Say what is so now; nothing while a model is being loaded."""
        chat, line = self._chat, self._line
        answer, path = chat.last_answer, chat.settings.model_path
        name = answer.model if answer else ""
        is_known = path is not None or name == BUILT_IN_NAME
        if not name or not is_known or self._is_in_use(name, path) or self._models.loading:
            line.hide()
        elif path is not None and Path(path).is_absolute() and not Path(path).exists():
            gone = tr(
                "This chat was answered by {name}, which is no longer at {path}. Any other model "
                "can go on with it.",
                name=name,
                path=path,
            )
            line.say(gone)
        else:
            line.offer(
                tr("This chat was answered by {name}.", name=name),
                path or "",
                tr("Load {name}", name=name),
            )

    def _is_in_use(self, name: str, path: str | None) -> bool:
        resting = self._models.resting
        current = self._models.in_use or (resting.request if resting else None)
        return current is not None and (current.path == path or self._models.model_name == name)

    def _load(self) -> None:
        settings = self._chat.settings
        self._models.load_path(settings.model_path, settings.load)
        self.refresh()
