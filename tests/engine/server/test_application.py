"""What all endpoints have in common: keys, hosts, limits, clients that go away, bad bodies."""

import asyncio
import gzip
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from fuzz_requests import CONTEXT, drawn_request, fault_of
from jsonschema import Draft202012Validator
from live_server import ask, live_server
from scripted_engine import Answer, ScriptedEngine
from tool_model import tool_folder

import mlx_engine
from mlx_engine.server.desk import EngineConnection
from mlx_engine.server.run import ServerOptions, listening_socket
from mlx_engine.values.conversation import TextPiece
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import LoadOptions

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
CHAT = "/v1/chat/completions"
WIDE = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3000)}}


@pytest.fixture(scope="module")
def scripted():
    with live_server(ScriptedEngine) as server:
        yield server


def test_a_key_is_asked_for_but_by_health():
    with live_server(ScriptedEngine, key="secret") as server:
        assert ask(server, "/health").json == {"status": "ok"}
        for path, body in (("/v1/models", None), (CHAT, HELLO), ("/metrics", None)):
            assert ask(server, path, body).status == 401
            assert ask(server, path, body, {"Authorization": "Bearer sécret"}).status == 401
            assert ask(server, path, body, {"Authorization": "Bearer secret"}).status == 200
            assert ask(server, path, body, {"X-Api-Key": "secret"}).status == 200
        refused = ask(server, "/v1/messages", {})
        assert (refused.status, refused.json["type"]) == (401, "error")


def test_a_name_that_points_here_from_outside_is_refused(scripted):
    assert ask(scripted, "/v1/models", headers={"Host": "evil.example"}).status == 400
    assert ask(scripted, "/v1/models", headers={"Host": "localhost:1"}).status == 200
    shown = ask(scripted, "/v1/models", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in shown.headers


def test_too_long_bodies_are_refused_whether_told_of_or_not(scripted):
    refused = ask(scripted, CHAT, b'{"a": "' + b"a" * (33 * 2**20) + b'"}')
    assert refused.status == 413
    assert "32 MiB" in refused.json["error"]["message"]
    assert ask(scripted, CHAT, HELLO).status == 200


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_a_body_that_stays_half_is_given_up(path):
    head, body = _post(path, {**HELLO, "max_tokens": 5}).split(b"\r\n\r\n")
    engine = ScriptedEngine([Answer("a b c d e f", pause_s=0.2)])
    with (
        live_server(lambda: engine, body_s=0.3) as server,
        socket.create_connection(_place(server), timeout=60) as client,
    ):
        client.sendall(head + b"\r\n\r\n" + body[:20])
        data = b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()
        assert data.startswith("HTTP/1.1 408")
        told = json.loads(data.partition("\r\n\r\n")[2])
        assert told["error"]["message"].startswith("The rest of the body did not come")
        assert (told.get("type") == "error") is (path == "/v1/messages")
        slow = ask(server, path, {**HELLO, "max_tokens": 5})
        assert (slow.status, "a b c d e f" in slow.text) == (200, True), "answers may take longer"


def test_more_requests_than_may_wait_get_429():
    engine = ScriptedEngine([Answer("slow " * 400, pause_s=0.02)])
    with live_server(lambda: engine, parallel=1, waiting=0) as server:
        with socket.create_connection(_place(server)) as first:
            first.sendall(_post(CHAT, {**HELLO, "stream": True}))
            assert first.recv(4096).startswith(b"HTTP/1.1 200")
            refused = ask(server, CHAT, HELLO)
            assert (refused.status, refused.headers["retry-after"]) == (429, "5")
            assert refused.json["error"]["type"] == "rate_limit_error"
        _wait_for(lambda: server.desk.thread.running_answers == 0)
        assert ask(server, CHAT, HELLO).status == 200


def test_of_fifty_requests_at_once_those_that_may_wait_are_answered():
    with live_server(ScriptedEngine, parallel=2, waiting=10) as server:
        at_once = threading.Barrier(50)

        def send(_):
            at_once.wait()
            return ask(server, CHAT, HELLO)

        refused = threading.Event()
        server.desk.thread.call(lambda _: refused.wait(60))
        with ThreadPoolExecutor(50) as pool:
            sent = [pool.submit(send, number) for number in range(50)]
            _wait_for(lambda: sum(reply.done() for reply in sent) == 38)
            refused.set()
            replies = [reply.result() for reply in sent]
        statuses = [reply.status for reply in replies]
        assert (statuses.count(200), statuses.count(429)) == (12, 38)
        assert all(r.headers["retry-after"] == "5" for r in replies if r.status == 429)
        assert ask(server, CHAT, HELLO).status == 200


def test_a_slow_reader_holds_nobody_up_and_gets_the_whole_answer():
    engine = ScriptedEngine([Answer("a bit of text " * 4000), Answer("Hello")])
    with live_server(lambda: engine) as server, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(_place(server))
        slow.sendall(_post(CHAT, {**HELLO, "stream": True}, "Connection: close\r\n"))
        _wait_for(lambda: engine.sessions and not server.desk.thread.running_answers)
        assert ask(server, CHAT, HELLO).json["choices"][0]["message"]["content"] == "Hello"
        data = b"".join(iter(lambda: slow.recv(1 << 20), b"")).decode()
    events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith("data: {")]
    pieces = [e["choices"][0]["delta"].get("content", "") for e in events]
    assert "".join(pieces) == "a bit of text " * 4000
    assert "data: [DONE]" in data


def test_what_a_slow_reader_has_not_read_is_joined_to_one_piece():
    engine = ScriptedEngine([Answer("a bit of text " * 40)])

    async def pieces(desk: EngineConnection) -> list[str]:
        texts = []
        async for event in desk.events(lambda engine: engine.session().send("Hello")):
            while desk.thread.running_answers:
                await asyncio.sleep(0.01)
            texts += [event.text] if isinstance(event, TextPiece) else []
        return texts

    with live_server(lambda: engine) as server:
        texts = asyncio.run(pieces(server.desk))
    assert "".join(texts) == "a bit of text " * 40
    assert len(texts) <= 2, "the one read at once, and the rest"
    assert engine.sessions[0].stats.passes > 20


def test_a_stream_without_news_says_that_it_is_alive(monkeypatch):
    """Three times while the engine's thread is held, which goes on behind the third."""
    monkeypatch.setattr("mlx_engine.server.desk.QUIET_S", 0.01)
    engine, chat, goes_on = ScriptedEngine([Answer("a b c")] * 2), "", threading.Event()
    with live_server(lambda: engine) as server:
        server.desk.thread.call(lambda _: goes_on.wait(60))
        with socket.create_connection(_place(server), timeout=60) as client:
            client.sendall(_post(CHAT, {**HELLO, "stream": True}, "Connection: close\r\n"))
            while received := client.recv(1 << 16).decode():
                chat += received
                if chat.count(": still reading") >= 3:
                    goes_on.set()
        whole = ask(server, CHAT, HELLO)
    assert chat.count(": still reading") >= 3
    assert "data: [DONE]" in chat
    assert whole.json["choices"][0]["message"]["content"] == "a b c"


def test_requests_without_a_body_of_json(scripted):
    """HEAD, pipelined and compressed requests, told lengths, and what is not allowed."""
    assert _raw(scripted, b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n").endswith("\r\n\r\n")
    put = _raw(scripted, f"PUT {CHAT} HTTP/1.1\r\nHost: localhost\r\n".encode())
    assert "405 Method Not Allowed" in put
    assert "allow: POST" in put
    nobody = _raw(scripted, b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n")
    assert "400 Bad Request" in nobody
    assert '{"error":{"type":"invalid_request_error","message":"This server is not called' in nobody
    long = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {10**12}\r\n".encode()
    assert "413 " in _raw(scripted, long)
    packed = ask(scripted, CHAT, gzip.compress(b"{}"), {"Content-Encoding": "gzip"})
    assert (packed.status, "without Content-Encoding" in packed.text) == (415, True)
    with socket.create_connection(_place(scripted)) as client:
        two = _post(CHAT, HELLO) + _post(CHAT, HELLO, "Connection: close\r\n")
        client.sendall(two)
        data = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert data.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_goes_away_ends_its_answer(streams):
    engine = ScriptedEngine([Answer("word " * 20_000, pause_s=0.01)])
    with live_server(lambda: engine) as server:
        with socket.create_connection(_place(server)) as client:
            client.sendall(_post(CHAT, {**HELLO, "stream": streams}))
            _wait_for(lambda: server.desk.tokens > 9)
        _wait_for(lambda: server.desk.thread.running_answers == 0)
        assert len(engine.sessions[0].turns[-1].text) < 5 * 20_000
        assert ask(server, CHAT, HELLO).status == 200


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_that_outlasts_the_server_ends_with_words(path, streams, caplog):
    engine = ScriptedEngine([Answer("word " * 20_000, pause_s=0.01)])
    body = {**HELLO, "input": "Hello", "max_tokens": 9000, "stream": streams}
    with socket.socket() as client:
        with live_server(lambda: engine, grace_s=0.3) as server:
            client.connect(_place(server))
            client.sendall(_post(path, body))
            _wait_for(lambda: server.desk.tokens > 9)
        data = b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()
    assert data.startswith("HTTP/1.1 200" if streams else "HTTP/1.1 503")
    assert "The server is closing" in data
    assert not streams or data.endswith("\r\n0\r\n\r\n"), "it is whole"
    assert "Traceback" not in caplog.text


def test_a_bug_is_500_with_a_name_that_the_log_has(caplog):
    engine = ScriptedEngine([Answer("Half", error=ZeroDivisionError("by zero"))])
    with live_server(lambda: engine) as server:
        reply = ask(server, CHAT, HELLO)
        assert reply.status == 500
        message = reply.json["error"]["message"]
        assert "bug" in message
        assert message.rstrip(".").split()[-1] in caplog.text
        assert ask(server, CHAT, HELLO).status == 200


@pytest.mark.parametrize(
    ("path", "name"),
    [(CHAT, None), ("/v1/responses", "response.failed"), ("/v1/messages", "error")],
)
def test_a_bug_in_mid_stream_is_its_last_event(caplog, path, name):
    engine = ScriptedEngine([Answer("Half a word", error=ZeroDivisionError("by zero"))])
    body = {**HELLO, "input": "Hello", "max_tokens": 9, "stream": True}
    with live_server(lambda: engine) as server:
        reply = ask(server, path, body)
        assert reply.status == 200
        _wait_for(lambda: server.desk.thread.running_answers == 0)
        lines = reply.text.split("\n")
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        last = events[-1].get("response", events[-1])
        assert events[-1].get("type") == name
        message = last["error"]["message"]
        assert "bug" in message
        assert message.rstrip(".").split()[-1] in caplog.text
        assert "by zero" not in reply.text
        assert any("Half" in line for line in lines)
        assert ask(server, CHAT, HELLO).status == 200


def test_metrics_count_tokens(scripted):
    def figures():
        lines = ask(scripted, "/metrics").text.splitlines()
        return dict(line.split() for line in lines if not line.startswith("#"))

    before = figures()
    ask(scripted, CHAT, HELLO)
    after = figures()
    assert int(after["headstart_requests_total"]) == int(before["headstart_requests_total"]) + 1
    assert int(after["headstart_generated_tokens_total"]) > int(
        before["headstart_generated_tokens_total"]
    )
    _wait_for(lambda: figures()["headstart_answers_running"] == "0")


def test_small_endpoints(served):
    tokens = ask(served, "/tokenize", {"content": "import os"}).json["tokens"]
    assert tokens == served.in_process(lambda engine: engine.tokenize("import os"))
    assert ask(served, "/detokenize", {"tokens": tokens}).json == {"content": "import os"}
    assert ask(served, "/detokenize", {"tokens": [10**9]}).status == 400
    prompt = ask(served, "/apply-template", HELLO).json["prompt"]
    assert prompt == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    nothing = ask(served, "/v1/nothing")
    assert nothing.status == 404
    assert "/openapi.json" in nothing.json["error"]["message"]
    assert ask(served, CHAT).status == 405


@pytest.mark.parametrize("seed", range(3))
def test_no_body_is_a_bug(tmp_path, seed):
    """Whatever is sent, errors have the interface's shape and words, and the server goes on."""
    folder = tool_folder(tmp_path / "m")
    options = LoadOptions(context_length=CONTEXT)
    with live_server(lambda: mlx_engine.load(folder, options=options)) as server:
        for number in range(50):
            drawn = drawn_request(Random(f"suite.{seed}.{number}"))
            assert fault_of(drawn.path, ask(server, *drawn)) is None, drawn
        assert ask(server, CHAT, {**HELLO, "max_tokens": 2}).status == 200


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "words"),
    [
        (CHAT, b"{", {}, 400, "body: it is not JSON (Expecting property name"),
        (CHAT, b'{"a": "\xff"}', {}, 400, "it is not UTF-8, or nested too deeply"),
        (CHAT, HELLO, {"Content-Type": "text/plain"}, 415, "Content-Type: application/json"),
        (CHAT, [], {}, 400, "body: Input should be an object."),
        (CHAT, {"messages": [5]}, {}, 400, "messages.0: Input should be an object."),
        ("/v1/completions", {"prompt": 5}, {}, 400, "prompt: Input should be a valid string or a"),
        (
            "/v1/completions",
            {"prompt": [[5], ["a"]]},
            {},
            400,
            "prompt.1.0: Input should be a valid integer.",
        ),
        ("/detokenize", b'{"tokens": [' + b"9" * 4000 + b"]}", {}, 400, "999…"),
        (
            CHAT,
            {**HELLO, "response_format": {"type": "json_schema", "json_schema": {"schema": WIDE}}},
            {},
            400,
            "it is too large for an answer to be bound to it (Parser Error: Current row",
        ),
    ],
)
def test_an_error_says_what_is_wrong_where(served, path, body, headers, status, words):
    reply = ask(served, path, body, headers)
    assert reply.status == status
    message = reply.json["error"]["message"]
    assert words in message
    assert len(message) < 700


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b'"\\ud800"', b"\xff\xfe", b"[" * 100_000,
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"logit_bias": {"\\ud800": "a"}, "messages": [{"role": "user", "content": "a"}]}',
        b'{"seed": ' + b"9" * 5000 + b"}",
        b'{"temperature": NaN, "messages": [{"role": "user", "content": "a"}]}',
        b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "temperature": 1e999}',
    ],
)  # fmt: skip
def test_malformed_bodies_are_refused_in_words(served, body):
    reply = ask(served, CHAT, body)
    assert reply.status == 400, reply.text
    assert reply.json["error"]["message"]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "assistant", "content": "Hello"}],
        [{"role": "developer"}],
        [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}],
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/responses", "/apply-template", "/v1/messages"])
def test_a_conversation_that_asks_nothing_is_refused(served, path, messages):
    reply = ask(served, path, {"messages": messages, "input": messages, "max_tokens": 2})
    assert reply.status == 400
    if path != "/v1/messages":
        assert "nothing is asked" in reply.text


def test_the_document_describes_errors_nulls_and_what_is_refused(scripted, served):
    document = ask(scripted, "/openapi.json").json
    chat, messages = (document["paths"][path]["post"] for path in (CHAT, "/v1/messages"))
    for operation, name in ((chat, "_OpenAIError"), (messages, "_AnthropicError")):
        assert set(operation["responses"]) >= {"400", "401", "404", "413", "415", "429", "503"}
        assert "422" not in operation["responses"]
        told = operation["responses"]["429"]["content"]["application/json"]["schema"]
        assert told["$ref"].endswith(name)
        assert "text/event-stream" in operation["responses"]["200"]["content"]
    fields = document["components"]["schemas"]["ChatBody"]["properties"]
    assert {"type": "null"} in fields["max_tokens"]["anyOf"]
    assert {"type": "null"} not in fields["messages"].get("anyOf", [])
    schemas = document["components"]["schemas"]
    nobody, blank = [{"role": "assistant", "content": "a"}], [{"role": "user", "content": " "}]
    for path, name, body in (
        (CHAT, "ChatBody", {"messages": nobody}),
        ("/v1/messages", "MessagesBody", {"messages": nobody, "max_tokens": 1}),
        ("/apply-template", "TemplateBody", {"messages": nobody}),
        ("/v1/responses", "ResponseBody", {"input": " "}),
        ("/v1/responses", "ResponseBody", {"input": []}),
        ("/v1/messages", "MessagesBody", _message_fields([{"type": "document"}])),
        (CHAT, "ChatBody", _message_fields([{"type": "input_audio"}])),
        ("/detokenize", "DetokenizeBody", {"tokens": [-1]}),
    ):
        told = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
        assert ask(served, path, body).status == 400
        assert not Draft202012Validator(told).is_valid(body), body
        sound = {"tokens": [5], "input": "a", **_message_fields("a")}
        assert Draft202012Validator(told).is_valid(sound)
    assert ask(served, CHAT, {"messages": blank}).status == 400
    assert "not blank" in fields["messages"]["description"]


def test_an_address_for_others_needs_a_key_and_a_port_must_be_free():
    with pytest.raises(BadOption, match="HEADSTART_API_KEY"):
        ServerOptions(host="0.0.0.0")
    assert ServerOptions(host="0.0.0.0", key="a").hosts == ("*",)
    assert "box.local" in ServerOptions(names=["box.local"]).hosts
    with pytest.raises(BadOption, match="port=70000"):
        ServerOptions(port=70000)
    with listening_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadOption, match="it is in use"):
            listening_socket("127.0.0.1", port)
    with pytest.raises(BadOption, match=r"cannot listen at nowhere\.invalid"):
        listening_socket("nowhere.invalid", 0)


def _message_fields(content):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 1}


def _place(server):
    host, port = server.address.removeprefix("http://").split(":")
    return host, int(port)


def _raw(server, head):
    """What comes back for a head of a request alone."""
    with socket.create_connection(_place(server), timeout=60) as client:
        client.sendall(head + b"Connection: close\r\n\r\n")
        return b"".join(iter(lambda: client.recv(1 << 16), b"")).decode()


def _post(path, body, more=""):
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def _wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_no_page_of_the_server_loads_scripts_from_elsewhere(scripted):
    assert ask(scripted, "/docs").status == 404
    assert ask(scripted, "/redoc").status == 404
    assert CHAT in ask(scripted, "/openapi.json").json["paths"]
