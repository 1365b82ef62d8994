"""The one loaded model with the sessions on it: replaced by another, or kept when that fails."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.values.chat_settings import ChatSettings
from app.values.models import BUILT_IN_NAME
from app.worker.replies import (
    LoadCancelled,
    LoadFailed,
    LoadProgress,
    ModelChanged,
    ModelLoaded,
    ModelUnloaded,
    Pace,
    Reply,
    WorkerFailed,
    problem_of,
)
from app.worker.requests import LoadModel
from mlx_engine.service.engine_thread import INTERPRETER_EXITS, EngineThread
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
    """Loads models through the engine. kernel_verdict: file of the kernels' self-check.
    prompt_files: folder of saved prompts; its size limit is asked for at every load.
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
        """Describe a model by its headers; a model of the hub is downloaded first. Raises as
        `load`.
        """
        import mlx_engine

        heads, vision = request.options.heads, request.options.vision
        return mlx_engine.inspect(
            request.path, heads=heads, vision=vision, on_download=on_download, stop=stop
        )

    def load(
        self, request: LoadModel, on_progress: Progress, on_download: Progress, stop: Stop
    ) -> "Engine":
        """Load a model, bound to the calling thread. on_progress, on_download: get bytes done and
        in total, of the file and from the hub. Raises EngineError, and LoadStopped when stop() is
        true, which is asked several times a second.
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
        """Delete the saved prompts of a chat, except for parts that other chats share."""
        if self._prompt_files is not None:
            import mlx_engine

            mlx_engine.PromptFolder(self._prompt_files).forget_chat(chat_id)


MOST_CHATS = 16
"""Sessions kept; the cache of an older one is freed."""


class KeptChats:
    """Sessions by chat id, on one engine that limits what they hold together.

    cache: bits of stored keys and values, where the model can have fewer than 16. forget_files:
    deletes the saved prompts of a chat. is_built_in: the model is shown under the built-in name.
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
        """The model's description, under the name that the window shows."""
        told = self._engine.description
        return replace(told, name=BUILT_IN_NAME) if self._is_built_in else told

    @property
    def model_name(self) -> str:
        """Name of the model that answers."""
        return self.description.name

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the kept chats, oldest use first."""
        return tuple(self._sessions)

    def open(
        self, chat_id: str, settings: ChatSettings, answering: Collection[str] = ()
    ) -> "Session":
        """Return the chat's session with these settings, and mark it as the newest; chats that are
        answering are kept, whatever their number.
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
        """Change the settings of a kept chat; drafting and sampling of a running answer follow at
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
        """Return the model's description if it changed since the last call, else None."""
        if self._engine.description == self._told:
            return None
        self._told = self._engine.description
        return self.description

    def forget(self, chat_id: str) -> None:
        """Free the chat's cache, if it has one."""
        session = self._sessions.pop(chat_id, None)
        if session is not None:
            session.forget()

    def close(self, chat_id: str) -> None:
        """Free the cache of a deleted chat, and delete its saved prompts."""
        self.forget(chat_id)
        self._forget_files(chat_id)

    def forget_all(self, but: Collection[str] = ()) -> None:
        """Free every cache except those of these chats; memory ran out."""
        self._sessions = {one: its for one, its in self._sessions.items() if one in but}
        self._engine.forget_conversations()

    @property
    def nbytes(self) -> int:
        """Bytes of the caches of all chats."""
        return self._engine.conversations_nbytes


class ModelInUse:
    """Loads the engine that a thread serves, with the sessions on it; lives on that thread.

    memory_bytes: memory for models and caches; gpu_bytes: what a GPU may hold of it, 0 for none.
    The old model stays until the new one is loaded if both fit, with their draft models; else it is
    closed first, once the new one's headers are sound, and ModelUnloaded says so.
    """

    def __init__(
        self,
        source: ModelSource,
        thread: EngineThread,
        reply: Callable[[Reply], None],
        memory_bytes: int,
        gpu_bytes: int = 0,
    ) -> None:
        self._source, self._thread, self._reply = source, thread, reply
        self._memory, self._gpu = memory_bytes, gpu_bytes
        self.chats: KeptChats | None = None
        self._drafter = 0
        self._is_cancelled = False

    def load(self, request: LoadModel) -> None:
        """Load a model; replies ModelLoaded, LoadFailed or LoadCancelled."""
        self._is_cancelled = False
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
            forget, is_built_in = self._source.forget_files, request.path is None
            chats = KeptChats(engine, request.cache, forget, is_built_in=is_built_in)
            loaded = ModelLoaded(request.path, chats.description)
            self._use(engine, chats, request.cache)
        except LoadStopped:
            self._reply(LoadCancelled(request.path))
        except INTERPRETER_EXITS:
            raise
        except BaseException as error:
            self._reply(LoadFailed(request.path, problem_of(error)))
        else:
            self._drafter = drafter
            self._reply(loaded)

    def cancel(self) -> None:
        """End the running load."""
        self._is_cancelled = True

    @property
    def nbytes(self) -> int:
        """Bytes of the model, its draft model and the caches of all chats."""
        if self._thread.engine is None or self.chats is None:
            return 0
        return self._thread.engine.description.nbytes + self._drafter + self.chats.nbytes

    def tell_changes(self) -> None:
        """Reply with the model's description if it changed."""
        changed = None if self.chats is None else self.chats.new_description()
        if changed is not None:
            self._reply(ModelChanged(changed))

    def close_chat(self, chat_id: str) -> None:
        """Free the cache of a deleted chat, and delete its saved prompts of any model."""
        if self.chats is not None:
            self.chats.close(chat_id)
        else:
            self._source.forget_files(chat_id)

    def close(self) -> None:
        """Close the model and all sessions. An error is replied; the model is not used any more."""
        self._use(None, None)

    def _use(
        self,
        engine: "Engine | None",
        chats: KeptChats | None,
        cache: CacheOptions = UNQUANTISED,
    ) -> None:
        """Replace the model. Raises only before the old one is let go."""
        try:
            self._thread.use_engine(engine, cache)
        except Exception as error:
            if self._thread.engine is not engine:
                raise
            self._reply(WorkerFailed(problem_of(error)))
        self.chats = chats

    def _look_at(self, request: LoadModel, on_download: Progress) -> ModelDescription:
        """Describe a model by its headers, with the bytes it takes on this machine."""
        told = self._source.inspect(request, on_download, self._is_unwanted)
        return told.with_machine(has_metal=self._gpu > 0)

    def _drafter_nbytes(self, request: LoadModel, on_download: Progress) -> int:
        """Bytes of the draft model's weights, 0 if its headers do not tell."""
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
        """Raise DoesNotFit while the old model is still in use."""
        options = request.options
        asked, cache = options.context_length, request.cache
        fit = new.memory_fit(self._memory, cache, requested_context=asked, gpu_bytes=self._gpu)
        new.check_fits(fit, loads_anyway=options.anyway)

    def _make_room(self, new: ModelDescription, needed: int) -> None:
        """Free caches first, then the old model: the new one cannot use its caches."""
        engine = self._thread.engine
        if engine is None or self.chats is None:
            return
        old = engine.description
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
        """Whether the running load was cancelled; does first what can't wait for its end."""
        self._thread.run_posted_functions()
        return self._is_cancelled or self._thread.is_closing
