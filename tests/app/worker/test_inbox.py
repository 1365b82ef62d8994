"""Requests wait in order, and a busy reader can pick out what concerns it."""

import threading

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


def filled(*requests: Request) -> Inbox:
    inbox = Inbox()
    for request in requests:
        inbox.put(request)
    return inbox


def test_first_come_first_served() -> None:
    inbox = filled(LoadModel("a"), MeasureCosts())
    assert [inbox.next(), inbox.next()] == [LoadModel("a"), MeasureCosts()]


def test_shutdown_goes_before_what_waits() -> None:
    assert filled(LoadModel("a"), Shutdown()).next() == Shutdown()


def test_sifting_leaves_the_rest_in_order() -> None:
    inbox = filled(StopAnswer("a"), LoadModel("x"), StopAnswer("b"), MeasureCosts())
    assert inbox.sift("a").urgent == (StopAnswer("a"), StopAnswer("b"))
    assert [inbox.next(), inbox.next()] == [LoadModel("x"), MeasureCosts()]


@pytest.mark.parametrize("request_", [StopAnswer("a"), CloseChat("a")])
def test_a_stop_takes_back_what_was_asked_before_it_in_its_chat(request_: Request) -> None:
    before, other, after = ask("Why?", "a"), ask("Why?", "b"), ask("And?", "a")
    inbox = filled(before, other, request_, after)
    sifted = inbox.sift("b")
    assert sifted.withdrawn == (before,)
    assert sifted.urgent == (request_,)
    assert [inbox.next(), inbox.next()] == [other, after]


def test_a_cancel_takes_back_loads() -> None:
    sifted = filled(LoadModel("x"), CancelLoad(), LoadModel("y")).sift(None)
    assert sifted == ((LoadModel("y"),), (CancelLoad(),), (LoadModel("x"),))


def test_only_settings_of_the_chat_that_runs_are_urgent() -> None:
    mine, other = ChangeSettings("a", ChatSettings()), ChangeSettings("b", ChatSettings())
    assert filled(other, mine).sift("a") == ((other,), (mine,), ())


def test_the_end_is_seen_without_taking_it() -> None:
    assert not filled(MeasureCosts()).is_ending()
    inbox = filled(MeasureCosts(), Shutdown())
    assert inbox.is_ending()
    assert inbox.sift("a").urgent == ()
    assert inbox.next() == Shutdown()


def test_the_reader_waits_for_a_request() -> None:
    inbox = Inbox()
    got: list[Request] = []
    reader = threading.Thread(target=lambda: got.append(inbox.next()))
    reader.start()
    inbox.put(MeasureCosts())
    reader.join(5)
    assert got == [MeasureCosts()]
