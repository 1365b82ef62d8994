"""A comparison comes to its end whatever happens in its middle."""

from dataclasses import replace
from typing import Any

import pytest
from chat_states import StatedChat
from model_states import StatedModels
from pytestqt.qtbot import QtBot
from scripted_engine import DESCRIPTION, Answer
from seen import button, words_on
from windows import running, scripted

from app.control.compare import CHAT_IDS, CompareController
from app.store.session_store import SessionStore, open_passing_store
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.window.compare.compare_pane import ComparePane
from app.window.compare.compare_view import CompareView, Side
from app.window.controls.choices import Segments
from app.worker.replies import AnswerEvents, AnswerFailed, LoadProgress, ModelLoaded, Problem
from app.worker.requests import Ask, CloseChat, StopAnswer
from mlx_engine.values.conversation import (
    FinishReason,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.stats import GenerationStats, RoundStats


class Comparison:
    """A controller whose engine is the test."""

    def __init__(self, qtbot: QtBot, store: SessionStore) -> None:
        self.asked: list[Any] = []
        self.now = 0.0
        self.view = CompareView()
        qtbot.addWidget(self.view)
        models = StatedModels(request=self.asked.append).models
        sampling = SamplingChoice(seed=5)
        settings = ChatSettings(draft=DraftOptions(depth=0), sampling=sampling)
        self.chat = StatedChat(store, settings).chat
        self.controller = CompareController(
            self.view, models, self.asked.append, self.chat, clock=lambda: self.now
        )
        models.take(ModelLoaded(None, replace(DESCRIPTION, mtp_heads=0)))

    def say(self, side: Side, *events: Any) -> None:
        assert self.controller.take(AnswerEvents(CHAT_IDS[side], side, events))

    def end(self, side: Side, reason: FinishReason = "end") -> None:
        speed = 20.0 if side == "on" else 30.0
        stats = GenerationStats(generated_tokens=3, drafted=1, tokens_per_second=speed, seed=5)
        self.say(side, TextPiece("three"), GenerationFinished(reason, stats, "three"))

    def pane(self, title: str) -> str:
        panes = self.view.findChildren(ComparePane)
        return next(p.accessibleDescription() for p in panes if p.accessibleName() == title)


@pytest.fixture
def comparison(qtbot):
    store = open_passing_store("")
    made = Comparison(qtbot, store)
    made.controller.run("Count.")
    yield made
    store.close()


def test_both_sides_have_the_seed_and_their_own_drafting(comparison):
    comparison.end("on")
    comparison.end("off")
    asks = [request for request in comparison.asked if isinstance(request, Ask)]
    assert [ask.settings.draft for ask in asks] == [DraftOptions(), DraftOptions(source="none")]
    assert {ask.settings.sampling.seed for ask in asks if ask.settings.sampling} == {5}
    assert not comparison.controller.is_running
    closed = {r.chat_id for r in comparison.asked if isinstance(r, CloseChat)}
    assert closed == set(CHAT_IDS.values())


def drafting_compared(comparison: Comparison) -> DraftOptions:
    """Of the first side of a run that is ended then."""
    comparison.controller.run("Count.")
    compared: DraftOptions = comparison.asked[-1].settings.draft
    comparison.end("on")
    comparison.end("off")
    return compared


def test_the_depth_that_pays_is_compared_and_a_pinned_one_where_it_is_wanted(comparison):
    comparison.end("on")
    comparison.end("off")
    depths = comparison.view.findChild(Segments)
    assert depths is not None
    own = DraftOptions("prompt-lookup", 3, 0.25)
    comparison.chat.settings = replace(comparison.chat.settings, draft=own)
    comparison.controller.begin()
    assert depths.isVisibleTo(comparison.view)
    assert drafting_compared(comparison) == replace(own, depth="auto")
    pinned = button(depths, "Pinned: 3")
    pinned.click()
    comparison.controller.begin()
    assert drafting_compared(comparison) == own, "what was chosen stays"
    said = " ".join(words_on(comparison.view))
    assert "Depth 3 is pinned: Auto drafts only as deep as pays." in said
    comparison.chat.settings = replace(comparison.chat.settings, draft=DraftOptions())
    comparison.controller.begin()
    assert not depths.isVisibleTo(comparison.view)
    assert drafting_compared(comparison) == DraftOptions()


def test_speed_is_shown_while_it_runs(comparison):
    a_round = RoundFinished(RoundStats(0, 1, 1, 1, 2, 1.0, 1.0, 1.0))
    comparison.say("on", PromptProgress(4, 4))
    assert comparison.pane("Drafting on") == "Drafting on, Reading the prompt"
    comparison.say("on", TextPiece("Why", "thinking"), TextPiece(" so"), a_round)
    comparison.now = 0.5
    comparison.say("on", TextPiece(" and"), a_round)
    assert comparison.pane("Drafting on") == "Drafting on, 4.0 tok/s, Running"


def test_a_stop_that_comes_as_the_first_side_ends(comparison):
    comparison.controller.stop()
    assert isinstance(comparison.asked[-1], StopAnswer)
    comparison.end("on")
    assert not comparison.controller.is_running
    assert comparison.pane("Drafting off") == "Drafting off, Stopped"
    comparison.controller.run("Again.")
    assert comparison.controller.is_running


def test_an_error_in_the_second_side_keeps_the_first(comparison):
    comparison.end("on")
    comparison.say("off", TextPiece("thr"))
    problem = Problem("known", "OutOfMemory", "Memory ran out: choose a smaller model.")
    comparison.controller.take(AnswerFailed(CHAT_IDS["off"], "off", problem))
    assert not comparison.controller.is_running
    assert comparison.pane("Drafting on").startswith("Drafting on, 20.0 tok/s")
    assert comparison.pane("Drafting off") == "Drafting off, Failed"


def test_each_side_runs_alone(comparison):
    """So that speeds can be compared."""
    comparison.end("on")
    assert [ask.alone for ask in comparison.asked if isinstance(ask, Ask)] == [True, True]


@pytest.mark.parametrize("end", ["stop", "failure"])
def test_what_ends_the_first_leaves_out_the_second(comparison, end):
    comparison.say("on", TextPiece("thr"))
    if end == "stop":
        comparison.controller.stop()
        assert comparison.asked[-1] == StopAnswer(CHAT_IDS["on"])
        comparison.end("on", "stopped")
    else:
        problem = Problem("known", "NumericsError", "The model produced NaN.")
        comparison.controller.take(AnswerFailed(CHAT_IDS["on"], "on", problem))
    assert not comparison.controller.is_running
    assert len([ask for ask in comparison.asked if isinstance(ask, Ask)]) == 1
    assert comparison.pane("Drafting off") == (
        "Drafting off, Stopped" if end == "stop" else "Drafting off, Failed"
    )
    comparison.controller.run("Again.")
    assert comparison.controller.is_running


def test_answers_of_chats_are_left_alone(comparison):
    assert not comparison.controller.take(AnswerEvents("7", "8", (TextPiece("x"),)))


def test_the_stop_command_ends_what_runs(qapp, qtbot, tmp_path):
    source = scripted(Answer("word " * 500, pause_s=0.01), Answer("word " * 500, pause_s=0.01))
    with running(qapp, qtbot, tmp_path, source) as driven:
        app, stop = driven.app, driven.app.actions["stop"]
        assert not stop.isEnabled()
        driven.send("Go on.")
        assert stop.isEnabled()
        driven.until(lambda: len(app.chat.turns) == 2)
        stop.trigger()
        driven.until_answered()
        assert not stop.isEnabled()
        app.compare.run("Why?")
        assert stop.isEnabled()
        stop.trigger()
        driven.until(lambda: not app.compare.is_running)
        assert not stop.isEnabled()
        app.models.load("/models/other")
        app.models.take(LoadProgress("/models/other", 0, 0))
        assert stop.isEnabled()
        stop.trigger()
        driven.until(lambda: app.models.loading is None)
        driven.until(lambda: not stop.isEnabled())
