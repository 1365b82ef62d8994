"""A model names a chat after its first answer, and never one that its user has named."""

from dataclasses import replace
from pathlib import Path

import pytest
from chat_states import StatedChat
from scripted_models import described

from app.state import titles as titles_of
from app.state.chat_list import ChatListState
from app.state.compare import Comparison
from app.state.settings import KeptSettings
from app.state.titles import CHAT_ID, FEWEST_PARAMETERS, Titles, title_in
from app.store.session_store import open_store
from app.worker.replies import AnswerEvents, ModelLoaded
from app.worker.requests import Ask, CloseChat, StopAnswer
from mlx_engine.values.conversation import FinishReason, GenerationFinished
from mlx_engine.values.stats import GenerationStats

LARGE = replace(described("Large", 10**9), parameters=FEWEST_PARAMETERS)


class Named(StatedChat):
    """A chat whose titles a large model may write, at once."""

    def __init__(self, place: Path) -> None:
        super().__init__(open_store(place / "chats.db"))
        self.models.take(ModelLoaded(None, LARGE))
        self.settings = KeptSettings(place / "settings.json")
        self.chats = ChatListState(self.store, self.chat, self.settings)
        request = self.requests.append
        self.comparison = Comparison(self.chat, self.models, request)
        state = (self.store, self.chats, self.answers, self.comparison, self.models, self.settings)
        self.titles = Titles(*state, request)

    @property
    def asked_for_title(self) -> list[Ask]:
        return [ask for ask in self.asked if ask.chat_id == CHAT_ID]

    def write(self, text: str, reason: FinishReason = "end") -> None:
        ended = GenerationFinished(reason, GenerationStats(generated_tokens=1), text, "")
        ask = self.asked_for_title[-1]
        assert self.titles.take(AnswerEvents(CHAT_ID, ask.message_id, (ended,), "Large"))


@pytest.fixture
def named(qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr(titles_of, "IDLE_MS", 0)
    made = Named(tmp_path)
    yield made
    made.settings.close()
    made.close()


def ask(named: Named, qtbot, question: str = "Why is the sky blue, and not green?") -> None:
    named.chat.send(question)
    named.answer(qtbot, "Because of scattering.", "Large")


def test_the_first_answer_brings_a_title(named, qtbot):
    ask(named, qtbot)
    qtbot.waitUntil(lambda: len(named.asked_for_title) == 1)
    (wanted,) = named.asked_for_title
    (message,) = wanted.messages
    assert "Why is the sky blue" in message.text and "scattering" in message.text
    settings = wanted.settings
    assert settings.sampling.temperature == 0 and settings.thinking is False
    assert settings.generation.max_tokens == 12
    named.write("“Blue Sky”\n")
    assert named.chat.title == "Blue Sky"
    assert named.requests[-1] == CloseChat(CHAT_ID)
    ask(named, qtbot, "And at night?")
    qtbot.wait(50)
    assert len(named.asked_for_title) == 1, "the first answer alone"


def test_a_model_that_is_ejected_writes_no_title(named, qtbot):
    ask(named, qtbot)
    qtbot.waitUntil(lambda: len(named.asked_for_title) == 1)
    named.models.rest("Ejected.")
    assert StopAnswer(CHAT_ID) in named.requests


def test_a_title_of_the_user_stays(named, qtbot):
    ask(named, qtbot)
    qtbot.waitUntil(lambda: len(named.asked_for_title) == 1)
    named.chats.rename(named.chat.chat_id, "Mine")
    named.write("Blue Sky")
    assert named.chat.title == "Mine"
    named.chats.begin()
    named.chat.send("Another")
    named.chats.rename(named.chat.chat_id, "Mine too")
    named.answer(qtbot, "Yes.", "Large")
    qtbot.wait(50)
    assert len(named.asked_for_title) == 1 and named.chat.title == "Mine too"


@pytest.mark.parametrize("why", ["small", "off"])
def test_no_title_is_asked_for(named, qtbot, why):
    if why == "small":
        small = replace(LARGE, parameters=FEWEST_PARAMETERS - 1)
        named.models.take(ModelLoaded(None, small))
    else:
        named.settings.change(replace(named.settings.value, write_titles=False))
    ask(named, qtbot)
    qtbot.wait(50)
    assert named.asked_for_title == [] and named.chat.title.startswith("Why is the sky")


def test_a_question_goes_first(named, qtbot):
    ask(named, qtbot)
    qtbot.waitUntil(lambda: len(named.asked_for_title) == 1)
    first = named.chat.chat_id
    named.chats.begin()
    named.chat.send("Something else")
    assert named.requests[-1] == StopAnswer(CHAT_ID)
    named.write("Half a", "stopped")
    assert named.store.chats.get(first).title.startswith("Why is the sky")
    named.answer(qtbot, "Yes.", "Large")
    for count, title in ((2, "Other Things"), (3, "Blue Sky")):
        qtbot.waitUntil(lambda count=count: len(named.asked_for_title) == count)
        named.write(f"{title} and bey", "max-tokens")
    assert named.chat.title == "Other Things and"
    assert named.store.chats.get(first).title == "Blue Sky and"


@pytest.mark.parametrize(
    ("answer", "is_cut", "title"),
    [
        ("Blue Sky", False, "Blue Sky"),
        ("\n\n**Blue Sky**\nBecause", True, "Blue Sky"),
        ("Title: Blue Sky.", False, "Blue Sky"),
        ("„Der blaue Himmel“", False, "Der blaue Himmel"),
        ("Why the sky is blue and not gre", True, "Why the sky is blue and not"),
        ("Wiederholungen", True, ""),
        ("空はなぜ青い", False, "空はなぜ青い"),
        ("  \n ", False, ""),
    ],
)
def test_what_is_a_title(answer, is_cut, title):
    assert title_in(answer, is_cut) == title
