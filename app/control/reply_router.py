"""Hands each reply of the engine's thread to who waits for it."""

from collections.abc import Callable

from app.control.answers import Answers
from app.control.compare import CompareController
from app.control.models import ModelController
from app.start.mistakes import Mistakes
from app.worker.replies import (
    AnswerEvents,
    AnswerFailed,
    AnswerWithdrawn,
    Reply,
    WorkerFailed,
)


def router(
    answers: Answers,
    compare: CompareController,
    models: ModelController,
    mistakes: Mistakes,
) -> Callable[[Reply], None]:
    """For EngineWorker.replied; mistakes of the engine's thread are logged as well."""

    def route(reply: Reply) -> None:
        match reply:
            case AnswerEvents() | AnswerFailed() | AnswerWithdrawn():
                if not compare.take(reply):
                    answers.take(reply)
            case WorkerFailed():
                mistakes.report(reply.problem.words, reply.problem.details)
            case _:
                models.take(reply)

    return route
