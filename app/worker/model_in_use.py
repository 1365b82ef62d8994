"""The one loaded model with the sessions on it: replaced by another, or kept when that fails."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.values.chat_settings import ChatSettings
from app.values.models import BUILT_IN_NAME
from app.worker.inbox import Inbox, interruptions
from app.worker.replies import (
    INTERPRETER_EXITS,
    LoadCancelled,
    LoadFailed,
    LoadProgress,
    ModelLoaded,
    ModelUnloaded,
    Pace,
    Reply,
    WorkerFailed,
    problem_of,
)
from app.worker.requests import CancelLoad, CloseChat, LoadModel
from mlx_engine.values.errors import EngineError, LoadStopped
from mlx_engine.values.memory_plan import SHORT_CONTEXT
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import UNQUANTISED, CacheOptions
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    from mlx_engine import Engine, Session

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


class ModelSource:
    """Where models come from: the engine. kernel_verdict: what is remembered of the Metal kernels
    here. prompt_files: a folder for what chats have read; its bytes are asked for at every load.
    """

    def __init__(
        self,
        kernel_verdict: Path | None = None,
        prompt_files: Path | None = None,
        prompt_files_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._kernel_verdict = kernel_verdict
        self._prompt_files = prompt_files
        self._prompt_files_bytes = prompt_files_bytes

    def inspect(self, request: LoadModel, on_download: Progress, stop: Stop) -> ModelDescription:
        """From headers alone, quickly; one of the hub is fetched first. The rest as in `load`."""
        import mlx_engine

        return mlx_engine.inspect(
            request.path, heads=request.options.heads, on_download=on_download, stop=stop
        )

    def load(
        self, request: LoadModel, on_progress: Progress, on_download: Progress, stop: Stop
    ) -> "Engine":
        """All of it, bound to the calling thread; on_progress gets bytes done and in all,
        on_download those that come from the hub. Raises EngineError, LoadStopped when stop(), asked
        several times a second, says so.
        """
        import mlx_engine

        return mlx_engine.load(
            request.path,
            options=replace(
                request.options,
                prompt_files=self._prompt_files,
                prompt_files_bytes=self._prompt_files_bytes(),
            ),
            on_progress=on_progress,
            on_download=on_download,
            stop=stop,
            kernel_verdict=self._kernel_verdict,
        )

    def forget_files(self, chat_id: str) -> None:
        """Of what models have read of a chat, but for beginnings that others have read, too."""
        if self._prompt_files is not None:
            import mlx_engine

            mlx_engine.PromptFolder(self._prompt_files).forget(chat_id)


MOST_CHATS = 16
"""Sessions kept; of an older one what it has read is let go, too."""


class KeptChats:
    """chat id -> session of one engine, which bounds what all of them hold.

    cache: bits of stored keys and values, where the model can have fewer than 16. forget_files:
    of a chat, by its id. model_name: as the window names it.
    """

    def __init__(
        self,
        engine: "Engine",
        cache: CacheOptions = UNQUANTISED,
        forget_files: Callable[[str], None] = lambda chat_id: None,  # noqa: ARG005
        *,
        is_built_in: bool = False,
    ) -> None:
        self._engine = engine
        self._is_built_in = is_built_in
        self._cache = cache
        self._forget_files = forget_files
        self._sessions: dict[str, Session] = {}  # oldest use first
        self._told = engine.description

    @property
    def description(self) -> ModelDescription:
        """Of the engine's model, under the name that the window has for it."""
        told = self._engine.description
        return replace(told, name=BUILT_IN_NAME) if self._is_built_in else told

    @property
    def model_name(self) -> str:
        """The name of the model that answers."""
        return self.description.name

    @property
    def ids(self) -> tuple[str, ...]:
        """The chats that are kept, oldest use first."""
        return tuple(self._sessions)

    def open(
        self, chat_id: str, settings: ChatSettings, answering: Collection[str] = ()
    ) -> "Session":
        """The chat's session, with these settings, as the newest; chats that are being answered are
        kept, whatever their number.
        """
        session = self._sessions.pop(chat_id, None)
        if session is None:
            session = self._engine.session(name=chat_id)
            if self._engine.description.packed_cache is None:
                session.cache = self._cache
        idle = [one for one in self._sessions if one not in answering]
        self._sessions[chat_id] = session
        for one in idle[: max(0, len(self._sessions) - MOST_CHATS)]:
            self.forget(one)
        self.change(chat_id, settings)
        return session

    def change(self, chat_id: str, settings: ChatSettings) -> None:
        """New settings, if the chat is kept; a running answer's drafting and sampling follow at
        its next round.
        """
        session = self._sessions.get(chat_id)
        if session is None:
            return
        system = settings.system.strip() or None
        if session.system != system:
            session.system = system
        if session.template_arguments != settings.given_to_template:
            session.template_arguments = settings.given_to_template
        session.sampling = settings.sampling.over(self._engine.description.sampling)
        session.draft = settings.draft
        session.generation = settings.generation

    def new_description(self) -> ModelDescription | None:
        """The model's description if it is another than when this was last asked."""
        if self._engine.description is self._told:
            return None
        self._told = self._engine.description
        return self.description

    def forget(self, chat_id: str) -> None:
        """Free the chat's cache, if it has one."""
        session = self._sessions.pop(chat_id, None)
        if session is not None:
            session.forget()

    def close(self, chat_id: str) -> None:
        """The chat is gone: its cache, and the files of what it has read."""
        self.forget(chat_id)
        self._forget_files(chat_id)

    def forget_all(self, but: Collection[str] = ()) -> None:
        """Free every cache but those of these chats, which are being answered: memory ran out."""
        self._sessions = {one: its for one, its in self._sessions.items() if one in but}
        self._engine.forget_conversations()

    @property
    def nbytes(self) -> int:
        """What the caches of all chats hold."""
        return self._engine.conversations_nbytes


class ModelInUse:
    """Owns the engine and the sessions on it; lives on the engine's thread.

    memory_bytes: what models and caches may use here; gpu_bytes: what a GPU may hold of it, 0 for
    none. The model in use stays until its successor is loaded when both fit, with their draft
    models; else it goes first, after the successor's headers were found sound, and ModelUnloaded
    says so.
    """

    def __init__(
        self,
        source: ModelSource,
        inbox: Inbox,
        reply: Callable[[Reply], None],
        memory_bytes: int,
        gpu_bytes: int = 0,
    ) -> None:
        self._source = source
        self._inbox = inbox
        self._reply = reply
        self._memory, self._gpu = memory_bytes, gpu_bytes
        self.engine: Engine | None = None
        self.chats: KeptChats | None = None
        self._drafter = 0

    @property
    def description(self) -> ModelDescription | None:
        """Of the model in use."""
        return None if self.engine is None else self.engine.description

    def load(self, request: LoadModel) -> None:
        """Load, and reply ModelLoaded, LoadFailed or LoadCancelled."""
        try:
            self._reply(LoadProgress(request.path, 0, 0))
            read, fetched = (partial(self._tell, request.path, Pace(), f) for f in (False, True))
            description = self._look_at(request, fetched)
            if self._is_unwanted():
                raise LoadStopped("{path}: loading was stopped.", path=request.path)
            drafter = self._drafter_nbytes(request, fetched)
            self._check_fits(description, request)
            needed = description.memory_needed(SHORT_CONTEXT, request.cache, gpu_bytes=self._gpu)
            self._make_room(description, needed + drafter)
            bounded = replace(request.options, memory_bytes=self._memory)
            wanted = replace(request, options=bounded)
            engine = self._source.load(wanted, read, fetched, self._is_unwanted)
            engine.give_way(lambda: not self._inbox.is_empty())
            forget, is_built_in = self._source.forget_files, request.path is None
            chats = KeptChats(engine, request.cache, forget, is_built_in=is_built_in)
            loaded = ModelLoaded(request.path, chats.description)
        except LoadStopped:
            self._reply(LoadCancelled(request.path))
        except INTERPRETER_EXITS:
            raise
        except BaseException as error:
            self._reply(LoadFailed(request.path, problem_of(error)))
        else:
            self.close()
            self.engine, self.chats, self._drafter = engine, chats, drafter
            self._reply(loaded)

    @property
    def nbytes(self) -> int:
        """What it holds in memory, with its draft model and the caches of all chats."""
        if self.engine is None or self.chats is None:
            return 0
        return self.engine.description.nbytes + self._drafter + self.chats.nbytes

    def close_chat(self, chat_id: str) -> None:
        """It is gone: with what is kept of it in memory, and in files of any model."""
        if self.chats is not None:
            self.chats.close(chat_id)
        else:
            self._source.forget_files(chat_id)

    def close(self) -> None:
        """Let the model and all sessions go. What is wrong with that is replied, and holds up
        nothing: the model is not used any more.
        """
        self.chats = None
        engine, self.engine = self.engine, None
        try:
            if engine is not None:
                engine.close()
        except Exception as error:
            self._reply(WorkerFailed(problem_of(error)))

    def _look_at(self, request: LoadModel, on_download: Progress) -> ModelDescription:
        """What its headers tell, with the bytes of this machine."""
        told = self._source.inspect(request, on_download, self._is_unwanted)
        return told.on(metal=self._gpu > 0)

    def _drafter_nbytes(self, request: LoadModel, on_download: Progress) -> int:
        """Weights of the draft model that comes with it, 0 for one that headers do not tell of."""
        drafter = request.options.draft_model
        if drafter is None:
            return 0
        try:
            return self._look_at(LoadModel(str(drafter)), on_download).nbytes
        except LoadStopped:
            raise
        except EngineError:
            return 0

    def _check_fits(self, new: ModelDescription, request: LoadModel) -> None:
        """Raises DoesNotFit, while the model in use still is."""
        if not request.options.anyway:
            asked, cache = request.options.context_length, request.cache
            fit = new.memory_fit(self._memory, cache, asked=asked, gpu_bytes=self._gpu)
            new.check_fits(fit)

    def _make_room(self, new: ModelDescription, needed: int) -> None:
        """Caches go before the model does: its successor cannot use them."""
        old = self.description
        if old is None or self.chats is None:
            return
        free = self._memory - old.nbytes - self._drafter
        if needed + self.chats.nbytes > free:
            self.chats.forget_all()
        if needed <= free:
            return
        self.close()
        words = Words(
            "{old} was closed first: it and {new} do not fit into memory together.",
            old=old.name,
            new=new.name,
        )
        self._reply(ModelUnloaded(words))

    def _tell(self, path: str | None, pace: Pace, fetches: bool, done: int, total: int) -> None:
        if pace.is_due() or done >= total:
            self._reply(LoadProgress(path, done, total, fetches))

    def _is_unwanted(self) -> bool:
        """Whether the load that runs was cancelled; what else cannot wait is done here."""
        urgent = interruptions(self._inbox, (), self._reply)
        for closed in (r for r in urgent if isinstance(r, CloseChat)):
            self.close_chat(closed.chat_id)
        cancelled = any(isinstance(r, CancelLoad) for r in urgent)
        return cancelled or self._inbox.is_ending()
