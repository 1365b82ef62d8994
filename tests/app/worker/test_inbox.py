"""Requests wait in order, and a busy reader can pick out what concerns it."""

import threading
from dataclasses import replace

import pytest
from served import ask

from app.values.chat_settings import ChatSettings
from app.worker.inbox import Inbox
from app.worker.requests import (
    CancelLoad,
    ChangeSettings,
    CloseChat,
    LoadModel,
    MeasureCosts,
    Request,
    Shutdown,
    StopAnswer,
)

A, B = ask("Why?", "a"), ask("Why?", "b")
"""Questions that are being answered."""


def filled(*requests: Request) -> Inbox:
    inbox = Inbox()
    for request in requests:
        inbox.put(request)
    return inbox


def test_first_come_first_served():
    inbox = filled(LoadModel("a"), MeasureCosts())
    assert [inbox.next(), inbox.next()] == [LoadModel("a"), MeasureCosts()]


def test_shutdown_goes_before_what_waits():
    assert filled(LoadModel("a"), Shutdown()).next() == Shutdown()


def test_sifting_leaves_the_rest_in_order():
    inbox = filled(StopAnswer("a"), LoadModel("x"), StopAnswer("b"), MeasureCosts())
    assert inbox.sift([A]).urgent == (StopAnswer("a"), StopAnswer("b"))
    assert [inbox.next(), inbox.next()] == [LoadModel("x"), MeasureCosts()]


@pytest.mark.parametrize("request_", [StopAnswer("a"), CloseChat("a")])
def test_a_stop_takes_back_what_was_asked_before_it_in_its_chat(request_):
    before, other, after = ask("Why?", "a"), ask("Why?", "b"), ask("And?", "a")
    inbox = filled(before, other, request_, after)
    sifted = inbox.sift([B])
    assert sifted.withdrawn == (before,)
    assert sifted.urgent == (request_, after)
    assert inbox.next() == other


def test_a_cancel_takes_back_loads():
    sifted = filled(LoadModel("x"), CancelLoad(), LoadModel("y")).sift(())
    assert sifted == ((LoadModel("y"),), (CancelLoad(),), (LoadModel("x"),))


def test_settings_of_a_chat_whose_question_waits_wait_too():
    mine, other = ChangeSettings("a", ChatSettings()), ChangeSettings("b", ChatSettings())
    load, asked = LoadModel("x"), ask("Why?", "b")
    inbox = filled(other, load, asked, other, mine)
    assert inbox.sift([A]) == ((load, asked, other), (other, mine), ())


def test_questions_of_other_chats_are_answered_beside_one_that_runs():
    beside, its_next, own = ask("Why?", "b"), ask("And?", "b"), ask("And?", "a")
    load, behind = LoadModel("x"), ask("So?", "c")
    sifted = filled(own, beside, its_next, load, behind).sift([A])
    assert sifted == ((own, its_next, load, behind), (beside,), ())


def test_one_to_be_answered_alone_waits_and_the_others_wait_for_it():
    alone, other = replace(ask("Why?", "b"), alone=True), ask("So?", "c")
    assert filled(alone, other).sift([A]) == ((alone, other), (), ())
    assert filled(other).sift([alone]) == ((other,), (), ())


def test_while_a_model_is_read_every_question_waits():
    asked = ask("Why?", "b")
    assert filled(asked).sift(()) == ((asked,), (), ())


def test_the_end_is_seen_without_taking_it():
    assert not filled(MeasureCosts()).is_ending()
    inbox = filled(MeasureCosts(), Shutdown())
    assert inbox.is_ending()
    assert inbox.sift([A]).urgent == ()
    assert inbox.next() == Shutdown()


def test_the_reader_waits_for_a_request():
    inbox = Inbox()
    got: list[Request] = []
    reader = threading.Thread(target=lambda: got.append(inbox.next()))
    reader.start()
    inbox.put(MeasureCosts())
    reader.join(5)
    assert got == [MeasureCosts()]
