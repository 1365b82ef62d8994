"""Which model is in use and which one is being loaded; speaks to the engine's thread."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.values.app_settings import ModelSettings
from app.values.models import BUILT_IN_NAME
from app.worker.replies import (
    LoadCancelled,
    LoadFailed,
    LoadProgress,
    ModelChanged,
    ModelLoaded,
    ModelUnloaded,
    Reply,
)
from app.worker.requests import (
    CancelLoad,
    CountTokens,
    LoadModel,
    MeasureCosts,
    Request,
    UnloadModel,
)
from mlx_engine.hub.weight_files import folder_name
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import UNQUANTISED, LoadOptions


class Resting(NamedTuple):
    """A model that is not in memory, which the next question loads. why: in words."""

    request: LoadModel
    name: str
    why: str


LOADING = (LoadProgress, ModelLoaded, LoadFailed, LoadCancelled)


class ModelState(QObject):
    """One model is in use at a time; `in_use` is how it was asked for, `resting` what waits for a
    question.

    Signals:
        changed: another model is in use or being loaded, or a load got on or ended.
        loaded: the ModelDescription now in use.
        described: more is known of the model in use; the reasons that are new.
        progressed: LoadProgress of the load that runs.
        failed: LoadFailed; the model in use is as before.
        cancelled: the load was given up.
        unloaded: there is no model any more; words why, "" where that was asked for.
    """

    changed = Signal()
    loaded = Signal(object)
    described = Signal(object)
    progressed = Signal(object)
    failed = Signal(object)
    cancelled = Signal()
    unloaded = Signal(object)

    def __init__(
        self,
        request: Callable[[Request], None],
        own: Callable[[str | None], ModelSettings] = lambda _: ModelSettings(),
        parent: QObject | None = None,
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        """own: what is remembered of the model at a path. waits: whether answers are being written,
        which a load comes after.
        """
        super().__init__(parent)
        self._request, self._own, self._waits = request, own, waits
        self._chat = LoadOptions()
        self._waiting: list[LoadModel] = []
        self.in_use: LoadModel | None = None
        self.resting: Resting | None = None
        self.description: ModelDescription | None = None

    @property
    def loading(self) -> LoadModel | None:
        """The load that runs or waits, the newest of them."""
        return self._waiting[-1] if self._waiting else None

    @property
    def model_name(self) -> str:
        """Of the model in use, "" for none."""
        return self.description.name if self.description else ""

    @property
    def can_answer(self) -> bool:
        """Whether a question would be answered, at once or after a load."""
        return bool(self.description or self.loading or self.resting)

    def rest(self, why: str) -> None:
        """Let the model in use go until the next question."""
        if self.in_use is not None and self.loading is None:
            self.resting = Resting(self.in_use, self.model_name, why)
            self.in_use, self.description = None, None
            self._request(UnloadModel())
            self._lose("")

    def forget(self, path: str) -> None:
        """The model there is no more: let it go, and load it no more."""
        if self.description is not None and self.in_use is not None:
            is_it = path in (self.in_use.path, self.description.path)
        else:
            is_it = self.resting is not None and self.resting.request.path == path
        if is_it:
            self.rest("")
            self.resting = None
            self._lose("")

    def load_later(self, path: str | None, chat: LoadOptions, why: str) -> None:
        """Load it when something is asked."""
        self._chat = chat
        self.resting = Resting(self.as_wanted(path), model_name(path), why)
        self._lose("")

    def wake(self) -> bool:
        """Load the one that rests, for a question; False where there is none to answer it."""
        if self.resting is not None and self.loading is None:
            self.load(self.resting.request)
        return self.can_answer

    def load(self, request: LoadModel) -> None:
        """Put another model in place of the one in use."""
        if self._waiting:
            self._request(CancelLoad())
        self._waiting.append(request)
        self._request(request)
        self.take(LoadProgress(request.path, 0, 0, waits=self._waits()))

    def load_path(
        self, path: str | None, chat: LoadOptions | None = None, own: ModelSettings | None = None
    ) -> None:
        """The same, as a chat wants it, None for the one before, over what is its `own`, None for
        what is remembered.
        """
        if chat is not None:
            self._chat = chat
        self.load(self.as_wanted(path, own))

    def as_wanted(self, path: str | None, own: ModelSettings | None = None) -> LoadModel:
        """How it would be loaded for the chat on show, with these settings of its own."""
        own = own or self._own(path)
        return LoadModel(path, own.under(self._chat), own.cache.over(UNQUANTISED))

    def switch_to(self, path: str | None) -> None:
        """Load this one, unless it is there already."""
        current = self.loading or self.in_use
        if current is None or current.path != path:
            self.load_path(path)

    def use_options(self, chat: LoadOptions) -> None:
        """Load the model anew if it was loaded in another way than a chat asks for."""
        self._chat = chat
        current = self.loading or self.in_use
        if current is not None and current != self.as_wanted(current.path):
            self.load(self.as_wanted(current.path))

    def count(self, texts: tuple[str, ...]) -> None:
        """Ask for the tokens of these texts."""
        if texts and self.description is not None:
            self._request(CountTokens(texts))

    def cancel(self) -> None:
        """Give the load up."""
        if self._waiting:
            self._request(CancelLoad())

    def take(self, reply: Reply) -> None:
        """What the engine's thread says about models; anything else is left alone."""
        match reply:
            case LoadProgress():
                self.progressed.emit(reply)
            case ModelLoaded():
                self._use(reply)
            case LoadFailed():
                self._done(reply.path)
                self.failed.emit(reply)
            case LoadCancelled():
                self._done(reply.path)
                if not self._waiting:
                    self.cancelled.emit()
            case ModelUnloaded():
                self.in_use, self.description = None, None
                self._lose(reply.words)
            case ModelChanged():
                self._describe(reply.description)
        if isinstance(reply, LOADING):
            self.changed.emit()

    def _lose(self, words: str) -> None:
        self.unloaded.emit(words)
        self.changed.emit()

    def _use(self, loaded: ModelLoaded) -> None:
        self.resting = None
        self.in_use = self._done(loaded.path)
        self.description = loaded.description
        self.loaded.emit(self.description)
        if self.description.mtp_heads and self.description.mtp is None:
            self._request(MeasureCosts())  # else nobody asks what a wide pass costs

    def _describe(self, description: ModelDescription) -> None:
        """What was learnt after the load; too late for a model that is gone already."""
        if self.description is None or self.description.path != description.path:
            return
        known = self.description.declined
        self.description = description
        self.described.emit(tuple(r for r in description.declined if r not in known))

    def _done(self, path: str | None) -> LoadModel:
        """The first one of this path; one that waited is withdrawn before one that ran ends."""
        for request in self._waiting:
            if request.path == path:
                self._waiting.remove(request)
                return request
        return LoadModel(path)


def model_name(path: str | None) -> str:
    """What a model is called before it was looked at."""
    return BUILT_IN_NAME if path is None else folder_name(Path(path))
