"""What was asked of running work since it was last looked at."""

from collections.abc import Callable

from app.worker.inbox import Inbox
from app.worker.replies import AnswerWithdrawn, LoadCancelled, Reply
from app.worker.requests import LoadModel
from app.worker.urgent import Urgent


class Interruptions:
    """Looked at between two events of an answer or two slices of a load."""

    def __init__(self, inbox: Inbox, reply: Callable[[Reply], None]) -> None:
        self._inbox = inbox
        self._reply = reply

    def new(self, chat_id: str | None) -> tuple[Urgent, ...]:
        """Requests to act on now; those that they withdraw are answered here."""
        sifted = self._inbox.sift(chat_id)
        for request in sifted.withdrawn:
            if isinstance(request, LoadModel):
                self._reply(LoadCancelled(request.path))
            else:
                self._reply(AnswerWithdrawn(request.chat_id, request.message_id))
        return sifted.urgent

    def is_idle(self) -> bool:
        """Whether nothing at all waits."""
        return self._inbox.is_empty()

    def is_ending(self) -> bool:
        """Whether the whole thread is to end."""
        return self._inbox.is_ending()
