"""The model in use and the one being loaded; sends requests to the engine's thread."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.state.settings import KeptSettings
from app.state.state import State
from app.values.app_settings import (
    BUILT_IN,
    ModelSettings,
    settings_of,
    with_recent_model,
    with_settings_of,
)
from app.values.models import BUILT_IN_NAME
from app.worker.replies import (
    LoadCancelled,
    LoadFailed,
    LoadProgress,
    MemoryHeld,
    ModelChanged,
    ModelLoaded,
    ModelUnloaded,
    Problem,
    Reply,
    TokensCounted,
)
from app.worker.requests import (
    CancelLoad,
    CountTokens,
    LoadModel,
    MeasureCosts,
    Request,
    UnloadModel,
)
from mlx_engine.hub import weight_files
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import join_words

READ_AGAIN = "prompt-file-other"
"""Code of a reason that is not told: prompt files of an earlier version are not used."""


class Resting(NamedTuple):
    """An unloaded model that the next question loads. why: a sentence for the user."""

    request: LoadModel
    name: str
    why: str


class Refused(NamedTuple):
    """A model that could not be loaded. own: settings of the attempt, None for stored ones."""

    path: str | None
    own: ModelSettings | None
    problem: Problem


class _Load(NamedTuple):
    """A running or waiting load. own: settings to store once the model is loaded."""

    request: LoadModel
    own: ModelSettings | None = None


class ModelState(State):
    """The model in use, at most one, and loads of others.

    in_use, description: the request that loaded the model in use, and its description; None for
    none. resting: the model that the next question loads. progress: of the newest load, None
    without one. memory: bytes of model, draft model and caches. token_counts: of the texts and
    pictures counted last with the model in use.

    Signals:
        changed: any of these but progress, memory and token_counts.
        progressed: one of these three.
        switched: another model, or none, is in use.
        load_failed: Refused, for a failed load; the model in use stays.
        noticed: a sentence for the user about the model in use.
    """

    progressed = Signal()
    switched = Signal()
    load_failed = Signal(object)
    noticed = Signal(object)

    def __init__(
        self,
        request: Callable[[Request], None],
        settings: KeptSettings,
        parent: QObject | None = None,
        is_answering: Callable[[], bool] = lambda: False,
    ) -> None:
        """is_answering: whether answers are being written, for which a load waits."""
        super().__init__(parent)
        self._request, self._settings, self._is_answering = request, settings, is_answering
        self._loads: list[_Load] = []
        self._wanted: LoadModel | None = None
        self.in_use: LoadModel | None = None
        self.description: ModelDescription | None = None
        self.resting: Resting | None = None
        self.progress: LoadProgress | None = None
        self.memory = 0
        self.token_counts: Mapping[str | Picture, int | None] = {}

    @property
    def may_see(self) -> bool:
        """Return whether the model in use sees pictures; True while no model is loaded."""
        return self.description is None or self.description.vision is None

    @property
    def loading(self) -> LoadModel | None:
        """The newest running or waiting load, None for none."""
        return self._loads[-1].request if self._loads else None

    @property
    def current(self) -> LoadModel | None:
        """Request of the model in use, or of the resting one."""
        return self.in_use or (self.resting.request if self.resting else None)

    @property
    def model_name(self) -> str:
        """Name of the model in use, "" for none."""
        return self.description.name if self.description else ""

    @property
    def can_answer(self) -> bool:
        """Whether a question can be answered, at once or after loading the resting model."""
        return bool(self.description or self.loading or self.resting)

    # the way into memory

    def load(self, path: str | None, own: ModelSettings | None = None) -> None:
        """Load a model to replace the one in use, unless it is in use or loading with the same
        settings.

        path: None for the built-in model. own: settings of the model, stored once it is loaded with
        them; None for the stored ones.
        """
        request = self.as_wanted(path, own)
        if request == (self._wanted or self.in_use):
            if own is not None and not self._loads:
                self._remember(request, own)
                self.changed.emit()
            return
        if self._loads:
            self._request(CancelLoad())
        self._loads.append(_Load(request, own))
        self._wanted = request
        self._request(request)
        self.progress = LoadProgress(path, 0, 0, waits=self._is_answering())
        self.changed.emit()
        self.progressed.emit()

    def as_wanted(self, path: str | None, own: ModelSettings | None = None) -> LoadModel:
        """Make the request to load a model; own: as in `load`."""
        own = own or settings_of(self._settings.value, path)
        return LoadModel(path, own.load, own.cache)

    def load_later(self, path: str | None, why: str) -> None:
        """Make a model the resting one: it is loaded when something is asked."""
        self.resting = Resting(self.as_wanted(path), model_name(path), why)
        self.changed.emit()

    def wake(self) -> bool:
        """Load the resting model for a question; False if there is no model to answer it."""
        if self.resting is not None and self.loading is None:
            self.load(self.resting.request.path)
        return self.can_answer

    def cancel(self) -> None:
        """Cancel the loads that run or wait."""
        self._wanted = None
        if self._loads:
            self._request(CancelLoad())

    # the way out

    def rest(self, why: str) -> None:
        """Unload the model until the next question."""
        if self.in_use is not None and self.loading is None:
            self.resting = Resting(self.in_use, self.model_name, why)
            self._request(UnloadModel())
            self._lose()

    def forget(self, path: str) -> None:
        """Unload the model at a path for good, after it was deleted."""
        if self.description is not None and self.in_use is not None:
            is_it = path in (self.in_use.path, self.description.path)
        else:
            is_it = self.resting is not None and self.resting.request.path == path
        if is_it:
            self.rest("")
            self.resting = None
            self.changed.emit()

    def count(self, contents: tuple[str | Picture, ...]) -> None:
        """Request the number of tokens of texts and pictures."""
        if contents and self.description is not None:
            self._request(CountTokens(contents))

    # what the engine's thread reports

    def take(self, reply: Reply) -> None:
        """Handle a reply about models; others are ignored."""
        match reply:
            case LoadProgress():
                self.progress = reply
                self.progressed.emit()
            case ModelLoaded():
                self._use(reply)
            case LoadFailed():
                ended = self._end_load(reply.path)
                self.changed.emit()
                self.load_failed.emit(Refused(reply.path, ended.own, reply.problem))
            case LoadCancelled():
                self._end_load(reply.path)
                self.changed.emit()
            case ModelUnloaded(words):
                self._lose()
                self.noticed.emit(words)
            case ModelChanged(description):
                self._describe(description)
            case MemoryHeld(nbytes):
                self.memory = nbytes
                self.progressed.emit()
            case TokensCounted(contents, counts):
                self.token_counts = dict(zip(contents, counts, strict=True))
                self.progressed.emit()

    def _use(self, loaded: ModelLoaded) -> None:
        ended = self._end_load(loaded.path)
        self.in_use, self.description, self.resting = ended.request, loaded.description, None
        self.token_counts = {}
        self._remember(ended.request, ended.own)
        self.switched.emit()
        self.changed.emit()
        if loaded.description.mtp_heads and loaded.description.mtp is None:
            self._request(MeasureCosts())  # nobody else asks for the cost of wide passes

    def _remember(self, request: LoadModel, own: ModelSettings | None) -> None:
        """Store the model in use as a recent one, with the settings of its load."""
        value = self._settings.value
        if self.description is not None:
            used = BUILT_IN if request.path is None else self.description.path
            value = with_recent_model(value, used)
        if own is not None:
            value = with_settings_of(value, request.path, own)
        self._settings.change(value)

    def _describe(self, description: ModelDescription) -> None:
        """Update the description of the model in use after its load."""
        if self.description is None or self.description.path != description.path:
            return
        known = {*self.description.declined}
        self.description = description
        self.changed.emit()
        news = [reason for reason in description.declined if reason not in known]
        if told := [reason.words for reason in news if reason.code != READ_AGAIN]:
            self.noticed.emit(join_words(told, " "))

    def _lose(self) -> None:
        self.in_use, self.description, self.memory, self.token_counts = None, None, 0, {}
        self.switched.emit()
        self.changed.emit()

    def _end_load(self, path: str | None) -> _Load:
        """Remove the oldest load of a path from the queue and return it."""
        ended = next((load for load in self._loads if load.request.path == path), None)
        if ended is None:
            return _Load(LoadModel(path))
        self._loads.remove(ended)
        if not self._loads:
            self._wanted = self.progress = None
        return ended


def model_name(path: str | None) -> str:
    """Name of a model before it was looked at."""
    return BUILT_IN_NAME if path is None else weight_files.model_name(Path(path))
