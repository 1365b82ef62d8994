"""A chat whose engine is the test."""

from typing import Any

from model_states import StatedModels
from scripted_models import described

from app.state.answers import Answers
from app.state.chat import ChatState
from app.state.drafts import Drafts
from app.state.tools import Tools
from app.store.session_store import SessionStore
from app.values.chat_settings import ChatSettings
from app.worker.replies import AnswerEvents, ModelLoaded
from app.worker.requests import Ask, Request
from mlx_engine.values.conversation import Event, GenerationFinished, TextPiece
from mlx_engine.values.stats import GenerationStats

BUILT_IN = described("Pocket", 7_000_000)


class StatedChat:
    """A chat with all it needs, and what it asked of the engine. told: what failed."""

    def __init__(
        self,
        store: SessionStore,
        settings: ChatSettings | None = None,
        tools: Tools | None = None,
    ) -> None:
        self.store = store
        self.requests: list[Request] = []
        self.told: list[str] = []
        self.models = StatedModels(request=self.requests.append).models
        self.models.take(ModelLoaded(None, BUILT_IN))
        self.answers = Answers(store, self.requests.append, tools=tools)
        self.drafts = Drafts(store)
        self.chat = ChatState(
            store,
            self.answers,
            self.models,
            self.drafts,
            self.requests.append,
            settings or ChatSettings(),
        )
        self.chat.failed.connect(self.told.append)

    @property
    def asked(self) -> list[Ask]:
        return [request for request in self.requests if isinstance(request, Ask)]

    def say(self, *events: Event, model: str = "Pocket") -> None:
        """The engine answers the last question."""
        ask = self.asked[-1]
        self.answers.take(AnswerEvents(ask.chat_id, ask.message_id, events, model))

    def answer(self, qtbot: Any, text: str, model: str = "Pocket") -> None:
        """To the end."""
        ended = GenerationFinished("end", GenerationStats(generated_tokens=1), text, "")
        self.say(TextPiece(text), ended, model=model)
        qtbot.waitUntil(lambda: not self.answers.chat_ids)

    @property
    def texts(self) -> list[str]:
        return [turn.message.text for turn in self.chat.turns]

    def close(self) -> None:
        """And the store."""
        self.drafts.close()
        self.store.close()
