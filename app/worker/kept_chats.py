"""Sessions of recent chats, dropped by least recent use when their caches grow too large."""

from app.values.chat_settings import ChatSettings
from app.worker.contract import ChatEngine, ChatSession
from mlx_engine.values.model_description import ModelDescription

MOST_CHATS = 16


class KeptChats:
    """chat id -> session of one engine. A chat that was dropped is read again when it goes on.

    budget_bytes: what the caches of all chats may hold together; the newest chat is always kept.
    """

    def __init__(self, engine: ChatEngine, budget_bytes: int) -> None:
        self._engine = engine
        self._budget = budget_bytes
        self._sessions: dict[str, ChatSession] = {}  # oldest use first
        self._thinking: dict[str, bool | None] = {}
        self._told = engine.description

    @property
    def ids(self) -> tuple[str, ...]:
        """The chats that are kept, oldest use first."""
        return tuple(self._sessions)

    def open(self, chat_id: str, settings: ChatSettings) -> ChatSession:
        """The chat's session, with these settings, as the newest."""
        session = self._sessions.pop(chat_id, None)
        if session is None or self._thinking[chat_id] != settings.thinking:
            session = self._engine.session(thinking=settings.thinking)
        self._sessions[chat_id] = session
        self._thinking[chat_id] = settings.thinking
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
        session.sampling = settings.sampling
        session.draft = settings.draft
        session.generation = settings.generation

    def new_description(self) -> ModelDescription | None:
        """The model's description if it is another than when this was last asked."""
        if self._engine.description is self._told:
            return None
        self._told = self._engine.description
        return self._told

    def forget(self, chat_id: str) -> None:
        """Free the chat's cache, if it has one."""
        self._sessions.pop(chat_id, None)
        self._thinking.pop(chat_id, None)

    def trim(self) -> None:
        """Drop the oldest chats until the rest is within the budget."""
        while len(self._sessions) > 1 and (
            len(self._sessions) > MOST_CHATS or self._held() > self._budget
        ):
            self.forget(next(iter(self._sessions)))

    def _held(self) -> int:
        return sum(self._cache_bytes(session) for session in self._sessions.values())

    def _cache_bytes(self, session: ChatSession) -> int:
        model, stats = self._engine.description, session.stats
        tokens = stats.prompt_tokens + stats.generated_tokens
        return model.state_bytes + tokens * model.cache_bytes_per_token if tokens else 0
