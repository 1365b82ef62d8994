"""A long answer that ends unseen is told; any other is not."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from scripted_engine import Answer
from windows import Driven, running, scripted

from app.app import App
from app.control.notices import LONG_S, MOST, NotificationController, SystemNotice
from mlx_engine.values.errors import OutOfMemory


class Told:
    """In place of the system. open_it: what a click does."""

    def __init__(self) -> None:
        self.words: list[tuple[str, str]] = []

    def show(self, title: str, words: str, open_it: Callable[[], object]) -> None:
        self.words.append((title, words))
        self.open_it = open_it


class Elsewhere:
    """A driven app whose user is elsewhere, and where the clock goes on by `step` at every look."""

    def __init__(self, driven: Driven) -> None:
        self.driven, self.told = driven, Told()
        self.now, self.step, self.is_elsewhere = 0.0, LONG_S, True
        app: App = driven.app
        self.controller = NotificationController(
            self.told,
            app.answers,
            app.settings,
            app._title_of,
            app._come_back,
            clock=self._clock,
            is_elsewhere=lambda: self.is_elsewhere,
        )

    def _clock(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def elsewhere(qapp, qtbot, tmp_path):
    answers = (
        Answer("**Forty-two**, as " + "ever " * 60),
        Answer("Half", error=OutOfMemory("Full.")),
    )
    with running(qapp, qtbot, tmp_path, scripted(*answers)) as driven:
        yield Elsewhere(driven)


@pytest.mark.qt_log_ignore("does not support raise")
def test_a_long_answer_is_told_and_a_click_opens_its_chat(elsewhere):
    driven = elsewhere.driven
    driven.ask("What is it?")
    chat_id = driven.app.chat.chat_id
    ((title, words),) = elsewhere.told.words
    assert title == "What is it?"
    assert words.startswith("Forty-two, as ever ever") and len(words) == MOST
    driven.app.chats.begin()
    driven.widgets.window.show_page("settings")
    elsewhere.told.open_it()
    assert driven.app.chat.chat_id == chat_id
    assert driven.widgets.window.page == "chat"
    driven.ask("And now?")
    assert elsewhere.told.words[1][1] == "Full."


def test_what_nobody_needs_to_be_told_of_is_not(elsewhere):
    driven, settings = elsewhere.driven, elsewhere.driven.app.settings
    elsewhere.step = 0.1
    driven.ask("Is it short?")
    elsewhere.step, elsewhere.is_elsewhere = LONG_S, False
    driven.ask("Is it seen?")
    elsewhere.is_elsewhere = True
    settings.change(replace(settings.value, notify=False))
    driven.ask("Is it unwanted?")
    assert elsewhere.told.words == []
    settings.change(replace(settings.value, notify=True))
    driven.ask("Is it wanted?")
    assert len(elsewhere.told.words) == 1


def test_where_the_system_shows_no_words_the_window_alone_asks_for_attention(
    qapp, qtbot, monkeypatch
):
    window, asked = QWidget(), []
    qtbot.addWidget(window)
    monkeypatch.setattr(QApplication, "alert", lambda *given: asked.append(given[0]))
    SystemNotice(window).show("What is it?", "Forty-two", lambda: None)
    assert asked == [window]
