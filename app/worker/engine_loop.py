"""The engine's thread from first request to Shutdown; knows no Qt, so a process could run it."""

from collections.abc import Callable

from app.worker.answering import Answering
from app.worker.contract import ModelSource
from app.worker.inbox import Inbox
from app.worker.interruptions import Interruptions
from app.worker.model_in_use import ModelInUse
from app.worker.problems import no_model, problem_of
from app.worker.replies import AnswerFailed, CostsMeasured, Reply, TokensCounted, WorkerFailed
from app.worker.requests import (
    Ask,
    CancelLoad,
    ChangeSettings,
    CloseChat,
    ContinueAnswer,
    CountTokens,
    LoadModel,
    MeasureCosts,
    Question,
    Request,
    Shutdown,
    StopAnswer,
)


def serve(
    inbox: Inbox, reply: Callable[[Reply], None], source: ModelSource, memory_bytes: int
) -> None:
    """Do what the inbox says until Shutdown, and close the engine.

    memory_bytes: what models and their caches may use on this machine. reply is called on this
    thread. No request ends the loop but Shutdown.
    """
    interruptions = Interruptions(inbox, reply)
    model = ModelInUse(source, interruptions, reply, memory_bytes)
    desk = _Desk(model, Answering(interruptions, reply), reply)
    while not isinstance(request := inbox.next(), Shutdown):
        try:
            desk.do(request)
        except Exception as error:
            reply(WorkerFailed(problem_of(error)))
    model.close()


class _Desk:
    """Hands each request to who does it."""

    def __init__(
        self, model: ModelInUse, answering: Answering, reply: Callable[[Reply], None]
    ) -> None:
        self._model = model
        self._answering = answering
        self._reply = reply

    def do(self, request: Request) -> None:
        match request:
            case LoadModel():
                self._model.load(request)
            case Ask() | ContinueAnswer():
                self._answer(request)
            case CloseChat():
                self._model.forget(request.chat_id)
            case ChangeSettings():
                if self._model.chats is not None:
                    self._model.chats.change(request.chat_id, request.settings)
            case MeasureCosts():
                self._measure()
            case CountTokens():
                self._count(request.texts)
            case StopAnswer() | CancelLoad() | Shutdown():
                pass  # what they end is over

    def _answer(self, question: Question) -> None:
        if self._model.chats is None:
            self._reply(AnswerFailed(question.chat_id, question.message_id, no_model()))
        else:
            self._answering.answer(question, self._model.chats)

    def _count(self, texts: tuple[str, ...]) -> None:
        if self._model.engine is not None:
            counts = tuple(len(self._model.engine.tokenize(text)) for text in texts)
            self._reply(TokensCounted(texts, counts))

    def _measure(self) -> None:
        if self._model.engine is not None:
            costs = self._model.engine.pass_costs
            self._reply(CostsMeasured(costs.verify_ms, costs.draft_ms))
