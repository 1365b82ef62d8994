"""The window's switch: other programs ask the model in use, beside the chats of the window."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection, HTTPResponse
from threading import Event
from types import SimpleNamespace

import pytest
from live_server import ask
from PySide6.QtWidgets import QApplication, QCheckBox
from scripted_engine import Answer
from scripted_models import WorkerEngine, described
from seen import find, press, words_on
from windows import PATIENCE_MS, Driven, running

import mlx_engine
from app.values.app_settings import ServerSettings
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.worker.model_in_use import ModelSource
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

CHAT = "/v1/chat/completions"
SLOW = Answer("word " * 40_000, pause_s=0.005)
"""Longer than any test waits."""
SWITCH = "Let other programs on this computer use the model"


def hello(**more: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": "Hello"}], **more}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def switch(driven: Driven, is_on: bool = True, port: int | None = None, key: str = "") -> None:
    """And wait for it."""
    settings = driven.app.settings
    wanted = ServerSettings(is_on, port or free_port(), key)
    settings.change(replace(settings.value, server=wanted))
    driven.until(lambda: bool(driven.app.server.address) == is_on)


@pytest.fixture
def served(driven: Driven) -> Iterator[Driven]:
    switch(driven)
    yield driven
    switch(driven, is_on=False)


@contextmanager
def streaming(driven: Driven) -> Iterator[HTTPResponse]:
    """A streamed answer that has begun."""
    connection = HTTPConnection(driven.app.server.address.removeprefix("http://"), timeout=60)
    try:
        body = json.dumps(hello(stream=True))
        connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        while b"word" not in response.readline():
            pass
        yield response
    finally:
        connection.close()


def asked(driven: Driven, body: dict[str, object]) -> "Future[object]":
    """A request in a thread, so that the window goes on."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(ask, driven.app.server, CHAT, body)
    pool.shutdown(wait=False)
    return future


def test_it_is_switched_on_and_off_in_the_settings(driven, source):
    driven.app.settings.change(
        replace(driven.app.settings.value, server=ServerSettings(port=free_port()))
    )
    view, strip = driven.widgets.settings, driven.widgets.strip
    driven.widgets.window.show_page("settings")
    view.show_pane("server")
    box = find(view, QCheckBox, SWITCH)
    assert not box.isChecked() and not driven.app.server.address
    box.click()
    driven.until(lambda: bool(driven.app.server.address))
    address = driven.app.server.address
    press(view, "Copy the address")
    assert QApplication.clipboard().text() == address
    assert ask(SimpleNamespace(address=address), CHAT, hello()).status == 200
    driven.until(lambda: "Server: on" in words_on(strip))
    assert "Model: pocket_model" in words_on(view)
    source.engines["None"].answers.append(SLOW)
    with streaming(driven):
        driven.until(lambda: any("1 request, " in words for words in words_on(strip)))
        driven.until(lambda: driven.app.server.tokens_per_second > 0)
        box.click()
        driven.until(lambda: not driven.app.server.address and not driven.app.server._server)
    with pytest.raises(OSError):
        ask(SimpleNamespace(address=address), CHAT, hello())
    driven.until(lambda: not any("Server" in words for words in words_on(strip)))


def test_a_port_that_is_taken_is_said_at_the_switch(driven):
    view, settings = driven.widgets.settings, driven.app.settings
    driven.widgets.window.show_page("settings")
    view.show_pane("server")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings.change(replace(settings.value, server=ServerSettings(True, port)))
        words = f"Another program uses port {port}: choose another one."
        driven.until(lambda: words in words_on(view))
        assert "Server: not running" in words_on(driven.widgets.strip)
        switch(driven)
        assert words not in words_on(view)
    switch(driven, is_on=False)


def test_a_key_is_needed_where_one_is_set(driven):
    switch(driven, key="secret")
    assert ask(driven.app.server, CHAT, hello()).status == 401
    allowed = {"Authorization": "Bearer secret"}
    assert ask(driven.app.server, CHAT, hello(), allowed).status == 200
    switch(driven, is_on=False)


def test_without_a_model_requests_are_refused_in_words(served):
    served.app.models.rest("")
    served.until(lambda: not served.app.server.model)
    refused = ask(served.app.server, CHAT, hello())
    assert (refused.status, refused.json["error"]["code"]) == (503, "NoModel")
    assert refused.json["error"]["message"] == "No model is loaded: open one, then ask again."
    assert ask(served.app.server, "/v1/models").json["data"] == []
    assert ask(served.app.server, "/health").status == 200


def test_another_model_ends_requests_with_words_and_answers_the_next(served, source):
    source.engines["None"].answers.append(SLOW)
    source.engines["new"] = WorkerEngine([], described("New", 10**6))
    with streaming(served) as response:
        served.app.models.load("new")
        served.until(lambda: served.app.models.model_name == "New")
        assert "was changed or unloaded" in response.read().decode()
    assert ask(served.app.server, CHAT, hello(model="New")).status == 200
    gone = ask(served.app.server, CHAT, hello(model="pocket_model"))
    assert gone.status == 404 and "'New' is" in gone.json["error"]["message"]


def test_a_request_while_a_model_loads_is_answered_by_it(served, source):
    source.engines["new"] = WorkerEngine([], described("New", 10**6))
    source.pause_s, source.slices = 0.05, 20
    served.app.models.load("new")
    served.until(lambda: (p := served.app.models.progress) is not None and p.done > 0)
    unnamed, named = asked(served, hello()), asked(served, hello(model="pocket_model"))
    served.until(lambda: unnamed.done() and named.done())
    assert served.app.models.model_name == "New"
    assert unnamed.result().json["choices"][0]["message"]["content"] == "You said: Hello"
    assert len(source.engines["new"].sessions) == 1
    assert named.result().status == 404, "it was meant for the model that is gone"


def test_the_window_closes_while_a_request_runs(alone, source):
    switch(alone)
    source.engines["None"].answers.append(SLOW)
    with streaming(alone) as response:
        alone.widgets.window.close()
        assert alone.app.worker.wait(PATIENCE_MS)
        assert b"switched off" in response.read()


QUESTIONS = ("What is Headstart?", "What does os.path.join do?")
LENGTH = 48


def test_two_chats_and_a_request_share_passes_and_say_what_they_say_alone(qapp, qtbot, tmp_path):
    limits = GenerationOptions(max_tokens=LENGTH, ignore_eos=True)
    mine = ChatSettings(
        sampling=SamplingChoice(temperature=0.0), draft=DraftOptions(depth=1), generation=limits
    )
    sampling, to_end = SamplingOptions(temperature=0.0), GenerationOptions(max_tokens=LENGTH)
    with mlx_engine.load() as engine:
        alone = list[str]()
        for question, ends in ((QUESTIONS[0], limits), (QUESTIONS[1], limits), ("Hello", to_end)):
            session = engine.session(None, sampling, DraftOptions(depth=1), ends)
            *_, last = session.send(question)
            alone.append(last.text)
    with running(qapp, qtbot, tmp_path, ModelSource()) as driven:
        app = driven.app
        switch(driven)
        app.settings.change(replace(app.settings.value, new_chat=mine, write_titles=False))
        thread, all_asked = app.worker.engine_thread, Event()
        thread.call(lambda _: all_asked.wait(60))
        body = hello(temperature=0, max_tokens=LENGTH, draft={"depth": 1})
        request = asked(driven, body)
        driven.until(lambda: thread.running_answers == 1)
        for question in QUESTIONS:
            app.chats.begin()
            app.chat.change_settings(mine)
            driven.send(question)
        assert len(app.answers.chat_ids) == 2
        all_asked.set()
        driven.until(lambda: request.done() and not app.answers.chat_ids)
        chats = [chat.id for chat in app.store.chats.listed()]
        texts = [app.store.messages.all_of(chat)[-1].text for chat in chats]
        assert sorted(texts) == sorted(alone[:2])
        assert request.result().json["choices"][0]["message"]["content"] == alone[2]
        shared = thread.call(lambda engine: engine.parts.batch.shared).result()
        assert shared > LENGTH / 2, "rounds that joined the pass of another answer"
