"""The one loaded model: replaced by another, or kept when the other cannot be loaded."""

from collections.abc import Callable
from functools import partial

from app.worker.contract import ChatEngine, ModelSource
from app.worker.interruptions import Interruptions
from app.worker.kept_chats import KeptChats
from app.worker.pace import Pace
from app.worker.problems import problem_of
from app.worker.replies import (
    LoadCancelled,
    LoadFailed,
    LoadProgress,
    ModelLoaded,
    ModelUnloaded,
    Reply,
)
from app.worker.requests import CancelLoad, CloseChat, LoadModel
from mlx_engine.values.errors import LoadStopped
from mlx_engine.values.model_description import ModelDescription

SHORT_CONTEXT = 4096


class ModelInUse:
    """Owns the engine and the sessions on it; lives on the engine's thread.

    memory_bytes: what models and caches may use here. The model in use stays until its successor
    is loaded when both fit; else it goes first, after the successor's headers were found sound,
    and ModelUnloaded says so.
    """

    def __init__(
        self,
        source: ModelSource,
        interruptions: Interruptions,
        reply: Callable[[Reply], None],
        memory_bytes: int,
    ) -> None:
        self._source = source
        self._interruptions = interruptions
        self._reply = reply
        self._memory = memory_bytes
        self.engine: ChatEngine | None = None
        self.chats: KeptChats | None = None

    @property
    def description(self) -> ModelDescription | None:
        """Of the model in use."""
        return None if self.engine is None else self.engine.description

    def load(self, request: LoadModel) -> None:
        """Load, and reply ModelLoaded, LoadFailed or LoadCancelled."""
        try:
            self._reply(LoadProgress(request.path, 0, 0))
            description = self._source.inspect(request)
            if self._is_unwanted():
                raise LoadStopped(f"{request.path}: loading was stopped.")
            self._make_room(description)
            progress = partial(self._tell, request.path, Pace())
            engine = self._source.load(request, progress, self._is_unwanted)
        except LoadStopped:
            self._reply(LoadCancelled(request.path))
        except Exception as error:
            self._reply(LoadFailed(request.path, problem_of(error)))
        else:
            self.close()
            self.engine = engine
            left = max(0, self._memory - engine.description.nbytes)
            self.chats = KeptChats(engine, left // 2)
            self._reply(ModelLoaded(request.path, engine.description))

    def forget(self, chat_id: str) -> None:
        """Free the cache of a chat, if it has one."""
        if self.chats is not None:
            self.chats.forget(chat_id)

    def close(self) -> None:
        """Let the model and all sessions go."""
        self.chats = None
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.close()

    def _make_room(self, new: ModelDescription) -> None:
        old = self.description
        if old is None or old.nbytes + new.memory_needed(SHORT_CONTEXT) <= self._memory:
            return
        self.close()
        words = f"{old.name} was closed first: it and {new.name} do not fit into memory together."
        self._reply(ModelUnloaded(words))

    def _tell(self, path: str | None, pace: Pace, done: int, total: int) -> None:
        if pace.is_due() or done >= total:
            self._reply(LoadProgress(path, done, total))

    def _is_unwanted(self) -> bool:
        """Whether the load that runs was cancelled; what else cannot wait is done here."""
        urgent = self._interruptions.new(None)
        for closed in (r for r in urgent if isinstance(r, CloseChat)):
            self.forget(closed.chat_id)
        cancelled = any(isinstance(r, CancelLoad) for r in urgent)
        return cancelled or self._interruptions.is_ending()
