"""The engine's thread, from the first request to Shutdown, and as a Qt object."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal, Slot

from app.worker.answering import Answering
from app.worker.inbox import Inbox
from app.worker.model_in_use import ModelInUse, ModelSource
from app.worker.replies import (
    INTERPRETER_EXITS,
    AnswerFailed,
    CostsMeasured,
    MemoryHeld,
    ModelChanged,
    Problem,
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
    Shutdown,
    StopAnswer,
    UnloadModel,
)
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    from mlx_engine import Engine


NO_MODEL = Problem("known", "NoModel", Words("No model is loaded: open one, then ask again."))
SHUTDOWN_S = 2.0


def serve(
    inbox: Inbox,
    reply: Callable[[Reply], None],
    source: ModelSource,
    memory_bytes: int,
    gpu_bytes: int = 0,
) -> None:
    """Handle requests until Shutdown, then close the engine.

    memory_bytes, gpu_bytes: as for ModelInUse. reply is called on this thread. No error ends the
    loop.
    """
    model = ModelInUse(source, inbox, reply, memory_bytes, gpu_bytes)
    desk = _Desk(model, inbox, reply)
    while not isinstance(request := inbox.next(), Shutdown):
        try:
            desk.do(request)
            desk.answer()
            desk.tell_memory()
            desk.go_on_measuring()
        except INTERPRETER_EXITS:
            raise
        except BaseException as error:
            reply(WorkerFailed(problem_of(error)))
    model.close()


class _Desk:
    """Dispatches requests, and measures costs while there is nothing else to do."""

    def __init__(self, model: ModelInUse, inbox: Inbox, reply: Callable[[Reply], None]) -> None:
        self._model = model
        self._inbox = inbox
        self._answering = Answering(inbox, reply, self._count)
        self._reply = reply
        self._measured: Engine | None = None
        self._told = 0

    def do(self, request: Request) -> None:
        match request:
            case LoadModel():
                self._model.load(request)
            case UnloadModel():
                self._model.close()
            case Ask():
                self._begin(request)
            case CloseChat():
                self._model.close_chat(request.chat_id)
            case ChangeSettings():
                if self._model.chats is not None:
                    self._model.chats.change(request.chat_id, request.settings)
            case MeasureCosts():
                self._measured = self._model.engine
            case CountTokens():
                self._count(request.texts)
            case StopAnswer() | CancelLoad() | Shutdown():
                pass  # what they end is over

    def _begin(self, question: Ask) -> None:
        if self._model.chats is None:
            self._reply(AnswerFailed(question.chat_id, question.message_id, NO_MODEL))
        else:
            self._answering.begin(question, self._model.chats)

    def answer(self) -> None:
        """Run all answers to their end, also those that are asked for meanwhile."""
        while self._answering.is_busy and self._model.chats is not None:
            self._answering.take_turns(self._model.chats)
            self.tell_memory()

    def _count(self, texts: tuple[str, ...]) -> None:
        if self._model.engine is not None:
            counts = tuple(len(self._model.engine.tokenize(text)) for text in texts)
            self._reply(TokensCounted(texts, counts))

    def tell_memory(self) -> None:
        """Reply with the memory in use if it changed."""
        if self._model.nbytes != self._told:
            self._told = self._model.nbytes
            self._reply(MemoryHeld(self._told))

    def go_on_measuring(self) -> None:
        """Measure costs until done or a request waits; skip a model that was replaced."""
        engine, self._measured = self._measured, None
        if engine is None or engine is not self._model.engine:
            return
        costs = engine.measure_costs(lambda: not self._inbox.is_empty())
        changed = self._model.chats.new_description() if self._model.chats else None
        if changed is not None:
            self._reply(ModelChanged(changed))
        if costs is None:
            self._measured = engine
        else:
            self._reply(CostsMeasured(costs.verify_ms, costs.draft_ms))


class EngineWorker(QThread):
    """The engine's thread, alive as long as the program; MLX is imported and used on it alone.

    Signal `replied`: a value of app.worker.replies, delivered on the receiver's thread.
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
        self._memory, self._gpu = memory_bytes, gpu_bytes
        self._source = source or ModelSource()
        self._inbox = Inbox()

    @Slot(object)
    def request(self, request: Request) -> None:
        """Queue a request; returns at once, from any thread."""
        self._inbox.put(request)

    def shutdown(self, timeout_s: float = SHUTDOWN_S) -> bool:
        """End the running work and the thread, and wait for it.

        False if the thread did not end in time; then end the process, since Qt aborts when a
        running thread is destroyed.
        """
        self._inbox.put(Shutdown())
        return self.wait(int(1000 * timeout_s))

    def run(self) -> None:
        """Serve until Shutdown."""
        serve(self._inbox, self.replied.emit, self._source, self._memory, self._gpu)
