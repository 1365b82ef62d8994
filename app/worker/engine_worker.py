"""The window's requests on the engine's thread, and that thread as a Qt object."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal, Slot

from app.worker.answering import WindowAnswer
from app.worker.model_in_use import ModelInUse, ModelSource
from app.worker.replies import (
    CostsMeasured,
    LoadCancelled,
    MemoryHeld,
    Reply,
    TokensCounted,
    WorkerFailed,
    problem_of,
)
from app.worker.requests import (
    Ask,
    CancelLoad,
    ChangeSettings,
    CloseChat,
    CountTokens,
    LoadModel,
    MeasureCosts,
    Request,
    StopAnswer,
    UnloadModel,
)
from mlx_engine.service.engine_thread import EngineThread, QueuedAnswer
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import Picture

if TYPE_CHECKING:
    from mlx_engine import Engine

SHUTDOWN_S = 2.0
BRIEF = 200_000
"""Characters that are counted during answers, in a few hundredths of a second."""


def _length(contents: tuple[str | Picture, ...]) -> int:
    """Characters of these contents: a picture, which is counted by its size, has none."""
    return sum(len(content) for content in contents if isinstance(content, str))


def _tokens(engine: "Engine", content: str | Picture) -> int | None:
    """Count the tokens of a text or picture, None for a picture that the model does not see."""
    if isinstance(content, str):
        return len(engine.tokenize(content))
    try:
        return engine.picture_tokens(content)
    except BadPicture:
        return None


class WindowDesk:
    """Does the window's requests on a thread that guests may share with it.

    reply: called on that thread. memory_bytes, gpu_bytes: as for ModelInUse.
    """

    def __init__(
        self,
        source: ModelSource,
        reply: Callable[[Reply], None],
        memory_bytes: int,
        gpu_bytes: int = 0,
    ) -> None:
        self.thread = EngineThread(
            after_each_step=self._tell_changes,
            report_error=lambda error: reply(WorkerFailed(problem_of(error))),
        )
        self._model = ModelInUse(source, self.thread, reply, memory_bytes, gpu_bytes)
        self._reply = reply
        self._answers: dict[WindowAnswer, QueuedAnswer] = {}
        self._loads: list[QueuedAnswer] = []
        self._told = 0

    def request(self, request: Request) -> None:
        """Queue a request; returns at once, from any thread."""
        self.thread.run_soon(lambda: self._do(request))

    def _do(self, request: Request) -> None:
        match request:
            case Ask():
                self._ask(request)
            case StopAnswer(chat_id):
                self._stop(chat_id)
            case CloseChat(chat_id):
                self._model.close_chat(chat_id)
                self._stop(chat_id)
            case ChangeSettings():
                self._change(request)
            case LoadModel():
                self._load(request)
            case CancelLoad():
                for load in self._loads:
                    load.stop()
                self._model.cancel()
            case UnloadModel():
                self.thread.queue_engine_change(self._model.close)
            case MeasureCosts() if self._loads:
                self._loads[-1].done.add_done_callback(lambda _: self._measure_when_idle())
            case MeasureCosts():
                self._measure_when_idle()
            case CountTokens(contents) if self.thread.is_answering and _length(contents) > BRIEF:
                self.thread.when_idle(lambda: self._count(contents))
            case CountTokens(contents):
                self._count(contents)

    def _ask(self, question: Ask) -> None:
        answer = WindowAnswer(question, self._model, self._reply, self._chats_answering)
        self._answers[answer] = asked = self.thread.answer(
            lambda _: answer.begin(),
            answer.hear,
            question.chat_id,
            runs_alone=question.alone,
        )

        def end(done: Future[None]) -> None:
            del self._answers[answer]
            answer.end(done.exception())

        asked.done.add_done_callback(end)

    def _chats_answering(self) -> set[str]:
        return {answer.chat_id for answer in self._answers}

    def _stop(self, chat_id: str) -> None:
        for answer, asked in self._answers.items():
            if answer.chat_id == chat_id:
                answer.stop(asked)

    def _change(self, wanted: ChangeSettings) -> None:
        for answer in self._answers:
            if answer.chat_id == wanted.chat_id:
                answer.settings = wanted.settings
        if self._model.chats is not None:
            self._model.chats.change(wanted.chat_id, wanted.settings)

    def _load(self, request: LoadModel) -> None:
        load = self.thread.queue_engine_change(lambda: self._model.load(request))
        self._loads.append(load)

        def end(_: Future[None]) -> None:
            self._loads.remove(load)
            if not load.has_begun:
                self._reply(LoadCancelled(request.path))

        load.done.add_done_callback(end)

    def _count(self, contents: tuple[str | Picture, ...]) -> bool:
        engine = self.thread.engine
        if engine is not None:
            counts = tuple(_tokens(engine, content) for content in contents)
            self._reply(TokensCounted(contents, counts))
        return True

    def _measure_when_idle(self) -> None:
        self.thread.when_idle(partial(self._measure, self.thread.engine))

    def _measure(self, engine: "Engine | None") -> bool:
        """Measure costs until done or something waits; skip a model that was replaced."""
        if engine is None or engine is not self.thread.engine:
            return True
        costs = engine.measure_costs(self.thread.has_other_work)
        if costs is not None:
            self._reply(CostsMeasured(costs.verify_ms, costs.draft_ms))
        return costs is not None

    def _tell_changes(self) -> None:
        """Reply with the model's description and the memory in use where they changed."""
        self._model.tell_changes()
        if self._model.nbytes != self._told:
            self._told = self._model.nbytes
            self._reply(MemoryHeld(self._told))


class EngineWorker(QThread):
    """The engine's thread, alive as long as the program; MLX is imported and used on it alone.

    engine_thread: the loop, for others who ask. Signal `replied`: a value of app.worker.replies,
    delivered on the receiver's thread.
    """

    replied = Signal(object)

    def __init__(
        self,
        memory_bytes: int,
        source: ModelSource | None = None,
        parent: QObject | None = None,
        gpu_bytes: int = 0,
    ) -> None:
        """memory_bytes, gpu_bytes: of this machine, as for ModelInUse."""
        super().__init__(parent)
        self.setObjectName("engine")
        self._source = source or ModelSource()
        self._desk = WindowDesk(self._source, self.replied.emit, memory_bytes, gpu_bytes)
        self.engine_thread = self._desk.thread

    @Slot(object)
    def request(self, request: Request) -> None:
        """Queue a request; returns at once, from any thread."""
        self._desk.request(request)

    def shutdown(self, timeout_s: float = SHUTDOWN_S) -> bool:
        """End the running work and the thread, and wait for it.

        False if the thread did not end in time; then end the process, since Qt aborts when a
        running thread is destroyed.
        """
        self._desk.thread.close()
        return self.wait(int(1000 * timeout_s))

    def run(self) -> None:
        """Serve until `shutdown`."""
        self._desk.thread.run()
