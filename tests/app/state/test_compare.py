"""A comparison comes to its end whatever happens in its middle."""

from dataclasses import replace

import pytest
from compare_states import StatedComparison
from scripted_engine import Answer
from windows import running, scripted

from app.state.compare import CHAT_IDS
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.worker.replies import AnswerEvents, LoadProgress
from app.worker.requests import Ask, CloseChat, StopAnswer
from mlx_engine.values.conversation import PromptProgress, RoundFinished, TextPiece
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.stats import RoundStats


@pytest.fixture
def stated(qapp):
    made = StatedComparison(
        ChatSettings(draft=DraftOptions(depth=0), sampling=SamplingChoice(seed=5))
    )
    made.comparison.run("Count.")
    yield made
    made.store.close()


def asks(stated: StatedComparison) -> list[Ask]:
    return [request for request in stated.requests if isinstance(request, Ask)]


def test_both_sides_have_the_seed_and_their_own_drafting(stated):
    stated.end("on")
    stated.end("off")
    assert [ask.settings.draft for ask in asks(stated)] == [
        DraftOptions(),
        DraftOptions(source="none"),
    ]
    assert {ask.settings.sampling.seed for ask in asks(stated)} == {5} == {stated.comparison.seed}
    assert [ask.alone for ask in asks(stated)] == [True, True], "so that speeds can be compared"
    assert not stated.comparison.is_running and stated.comparison.ending == ""
    closed = {r.chat_id for r in stated.requests if isinstance(r, CloseChat)}
    assert closed == set(CHAT_IDS.values())


def test_the_depth_that_pays_is_compared_and_a_pinned_one_where_it_is_wanted(stated):
    stated.end("on")
    stated.end("off")
    chat, comparison = stated.stated.chat, stated.comparison

    def compared(as_pinned: bool) -> DraftOptions:
        comparison.run("Count.", as_pinned=as_pinned)
        stated.end("on")
        stated.end("off")
        draft: DraftOptions = asks(stated)[-2].settings.draft
        return draft

    own = DraftOptions("prompt-lookup", 3, 0.25)
    chat.settings = replace(chat.settings, draft=own)
    assert comparison.pinned == 3
    assert (compared(False), comparison.depth) == (replace(own, depth="auto"), None)
    assert (compared(True), comparison.depth) == (own, 3)
    chat.settings = replace(chat.settings, draft=DraftOptions())
    assert comparison.pinned is None
    assert compared(True) == DraftOptions()


def test_speed_is_known_while_it_runs(stated):
    a_round = RoundFinished(RoundStats(0, 1, 1, 1, 2, 1.0, 1.0, 1.0))
    stated.say("on", PromptProgress(4, 4))
    stated.say("on", TextPiece("Why", "thinking"), TextPiece(" so"), a_round)
    stated.now = 0.5
    stated.say("on", TextPiece(" and"), a_round)
    assert stated.comparison.answers["on"].tokens_per_second == 4.0
    assert stated.comparison.said("on") == "Why\n\n so and"
    assert stated.comparison.stats("on") is None


def test_a_stop_that_comes_as_the_first_side_ends(stated):
    comparison = stated.comparison
    comparison.stop()
    assert isinstance(stated.requests[-1], StopAnswer)
    stated.end("on")
    assert (comparison.is_running, comparison.ending) == (False, "stopped")
    comparison.run("Again.")
    assert comparison.is_running and comparison.ending == ""


def test_an_error_in_the_second_side_keeps_the_first(stated):
    stated.end("on")
    stated.say("off", TextPiece("thr"))
    stated.fail("off", "Memory ran out: choose a smaller model.")
    comparison = stated.comparison
    assert (comparison.is_running, comparison.ending) == (False, "failed")
    assert comparison.problem == "Memory ran out: choose a smaller model."
    assert comparison.stats("on") and not comparison.stats("off")


@pytest.mark.parametrize("end", ["stopped", "failed"])
def test_what_ends_the_first_leaves_out_the_second(stated, end):
    stated.say("on", TextPiece("thr"))
    if end == "stopped":
        stated.comparison.stop()
        assert stated.requests[-1] == StopAnswer(CHAT_IDS["on"])
        stated.end("on", reason="stopped")
    else:
        stated.fail("on", "The model produced NaN.")
    assert (stated.comparison.is_running, stated.comparison.ending) == (False, end)
    assert len(asks(stated)) == 1
    stated.comparison.run("Again.")
    assert stated.comparison.is_running


def test_answers_of_chats_are_left_alone(stated):
    assert not stated.comparison.take(AnswerEvents("7", "8", (TextPiece("x"),)))


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
