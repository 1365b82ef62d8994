"""Tells of one answer what is in effect, whenever that changes under it."""

from collections.abc import Callable

from app.worker.contract import ChatSession
from app.worker.kept_chats import KeptChats
from app.worker.replies import DraftOutputInUse, ModelChanged, Reply
from mlx_engine.values.options import DraftOutput


class Effects:
    """MTP heads are tried when they are first read, and an output head is chosen by measuring:
    both happen inside an answer.
    """

    def __init__(
        self, chat_id: str, session: ChatSession, chats: KeptChats, reply: Callable[[Reply], None]
    ) -> None:
        self._chat_id, self._session, self._chats, self._reply = chat_id, session, chats, reply
        self._output: DraftOutput | None = None

    def tell(self) -> None:
        """Reply what has changed since the last time; call it as often as is liked."""
        description = self._chats.new_description()
        if description is not None:
            self._reply(ModelChanged(description))
        output = self._session.draft_output
        if output != self._output:
            self._output = output
            self._reply(DraftOutputInUse(self._chat_id, output))
