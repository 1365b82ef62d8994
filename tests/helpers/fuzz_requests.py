"""Fuzzes the server: mutated bodies to every endpoint; no bug, no hang, errors in words.

PYTHONPATH=.:tests:tests/helpers python tests/helpers/fuzz_requests.py [RUNS] [SEED]
"""

import json
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any, NamedTuple

from fuzz import spoilt_bytes, spoilt_json
from live_server import LiveServer, Reply, ask, live_server
from tool_model import CALLS, tool_folder

import mlx_engine
from mlx_engine.values.options import LoadOptions

CONTEXT = 256
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
COMPLETIONS, MESSAGES = "/v1/completions", "/v1/messages"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CALL = {"id": "a", "type": "function", "function": {"name": "w", "arguments": '{"city": "Bonn"}'}}
HELLO = {"role": "user", "content": "Hello"}
BIAS = {str(token): bias for token, bias in CALLS.items()}
COMMON: tuple[dict[str, Any], ...] = (
    {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1, "seed": 1},
    {"presence_penalty": 0.1, "frequency_penalty": 0.2, "repetition_penalty": 1.1},
    {"logit_bias": {"5": -100}, "draft": {"depth": 2, "source": "mtp", "rule": "greedy"}},
    {"regex": "a|b"}, {"grammar": 'start: "a"'}, {"max_thinking": 3},
    {"stream": True}, {"stream": True}, {"logit_bias": BIAS}, {},
)  # fmt: skip
IMPOSSIBLE: tuple[dict[str, Any], ...] = (
    {"type": "string", "minLength": 9, "maxLength": 2}, {"enum": []}, {"not": {}},
    {"type": "integer", "minimum": 5, "maximum": 1}, {"$ref": "#/nowhere"},
    {"$ref": "#"}, {"allOf": [{"type": "string"}, {"type": "null"}]},
    {"type": "array", "items": {"enum": []}, "minItems": 1}, {"pattern": "("},
    {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3000)}},
)  # fmt: skip
SOUND: dict[str, tuple[dict[str, Any], ...]] = {
    CHAT: (
        {"messages": [HELLO]},
        {"messages": [{"role": "system", "content": "Be brief."}, HELLO], "stop": ["a"], "n": 2},
        {
            "messages": [
                HELLO,
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "a", "content": "warm"},
            ],
            "tools": [{"type": "function", "function": {"name": "w", "parameters": SCHEMA}}],
            "tool_choice": "auto",
        },
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": SCHEMA, "strict": True},
            },
            "stream_options": {"include_usage": True},
        },
        {
            "messages": [HELLO],
            "reasoning_effort": "low",
            "chat_template_kwargs": {"enable_thinking": True},
            "logprobs": True,
            "top_logprobs": 2,
        },
        {"messages": [{"role": "tool", "content": "warm", "tool_call_id": "lost"}]},
    ),
    RESPONSES: (
        {"input": "Hello", "instructions": "Be brief."},
        {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
                {"type": "function_call", "call_id": "a", "name": "w", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "warm"},
            ],
            "tools": [{"type": "function", "name": "w", "parameters": SCHEMA}],
            "reasoning": {"effort": "low"},
        },
        {"input": "a", "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
        {"input": "a", "previous_response_id": "resp_none", "truncation": "disabled"},
    ),
    COMPLETIONS: (
        {"prompt": "import os", "echo": True, "logprobs": 2},
        {"prompt": ["a", "b"], "n": 2},
        {"prompt": [1, 2, 3], "stop": "a"},
        {"prompt": [[1], [2, 3]], "logprobs": 1, "max_tokens": 0, "echo": True},
    ),
    MESSAGES: (
        {"messages": [HELLO], "system": "Be brief.", "stop_sequences": ["a"]},
        {
            "messages": [
                HELLO,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": ""},
                        {"type": "tool_use", "id": "a", "name": "w", "input": {"city": "Bonn"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "a", "content": "warm"}],
                },
            ],
            "tools": [{"name": "w", "input_schema": SCHEMA}],
            "tool_choice": {"type": "auto"},
        },
        {"messages": [HELLO], "thinking": {"type": "enabled", "budget_tokens": 9}},
        {
            "messages": [HELLO],
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
    ),
    f"{MESSAGES}/count_tokens": ({"messages": [HELLO], "system": [{"type": "text", "text": "a"}]},),
    "/tokenize": ({"content": "import os", "add_special": True},),
    "/detokenize": ({"tokens": [1, 2, 3]},),
    "/apply-template": ({"messages": [HELLO]},),
}
LIMIT = {RESPONSES: "max_output_tokens"}


class Drawn(NamedTuple):
    """A request."""

    path: str
    body: bytes
    headers: dict[str, str]


def drawn_request(random: Random) -> Drawn:
    """Draw a request: a sound body of an endpoint, spoilt more often than not."""
    path = random.choice(list(SOUND))
    body: dict[str, Any] = {**random.choice(SOUND[path])}
    if path.startswith("/v1/"):
        body |= {LIMIT.get(path, "max_tokens"): 4} | body | random.choice(COMMON)
    odd = random.random()
    if odd < 0.04:
        body |= random.choice(_large(path))
    elif odd < 0.1:
        body |= _bound(path, random.choice(IMPOSSIBLE))
    elif odd < 0.13:
        body |= {"model": random.choice(("gpt-4", "", "\ud800", "x" * 9999))}
    elif odd < 0.2:
        body = spoilt_json(body, random)
    elif odd < 0.9:
        for name in random.sample(list(body), random.randint(1, min(2, len(body)))):
            body[name] = spoilt_json(body[name], random)
    data = json.dumps(body).encode()
    if random.random() < 0.1:
        data = spoilt_bytes(data, random)
    kinds = ("application/json",) * 30 + ("text/plain", "", "application/x-www-form-urlencoded")
    return Drawn(path, data, {"Content-Type": random.choice(kinds)})


def _large(path: str) -> list[dict[str, Any]]:
    """Return fields with too much in them."""
    long, deep = "word " * 400_000, _nested(400)
    text: dict[str, str] = {CHAT: "messages", RESPONSES: "input", COMPLETIONS: "prompt"}
    name = text.get(path, "messages" if "/v1/" in path or "template" in path else "content")
    small = {"role": "user", "content": "a" * 1500}
    given: list[Any] = [[{"role": "user", "content": long}], [small] * 40, [HELLO] * 3000, []]
    if name in ("prompt", "content", "input"):
        given += [long, "a b " * 600]
    return [{name: value} for value in given] + [
        {"tokens": [1] * 10**6}, {"chat_template_kwargs": {"a": deep}}, {"stop": ["a"] * 9999},
        _bound(path, {"properties": deep}), {"logit_bias": {str(n): 1 for n in range(9999)}},
        {"tools": [{"type": "function", "function": {"name": "a", "parameters": deep}}]},
    ]  # fmt: skip


def _nested(depth: int) -> dict[str, Any]:
    return {"a": _nested(depth - 1)} if depth else {}


def _bound(path: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the field that binds an answer to a schema."""
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    flat = {"format": {"type": "json_schema", "schema": schema}}
    fields = {RESPONSES: "text", MESSAGES: "output_config"}
    return {fields[path]: flat} if path in fields else {"response_format": form}


def fault_of(path: str, reply: Reply) -> str | None:
    """Return what is wrong with a reply, whatever was asked; None where nothing is."""
    if reply.status == 200:
        return _fault_of_answer(path, reply)
    if not 400 <= reply.status < 500:
        return f"status {reply.status}"
    try:
        body = reply.json
        words = body["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return "no shape"
    of_anthropic = path.startswith(MESSAGES)
    names = {"type", "message"} if of_anthropic else {"type", "message", "code", "param"}
    if set(body["error"]) != names or (body.get("type") == "error") is not of_anthropic:
        return "another shape"
    is_sentence = isinstance(words, str) and 10 < len(words) < 700 and words[-1] in ".…"
    return None if is_sentence else "no sentence"


def _fault_of_answer(path: str, reply: Reply) -> str | None:
    if "event-stream" not in reply.headers["content-type"]:
        return None if isinstance(reply.json, dict) else "no object"
    ends = {MESSAGES: ("message_stop", '"error"'), RESPONSES: ("response.",)}
    last = reply.text.rstrip().split("\n\n")[-1]
    return None if any(end in last for end in ends.get(path, ("[DONE]",))) else "no last event"


def main(runs: int, seed: int) -> None:
    """Send `runs` requests, eight at once, and print what is wrong and how long it took."""
    found: dict[str, list[str]] = {}
    statuses, words = Counter[int](), Counter[str]()
    slowest: list[tuple[float, str]] = []

    def send(server: LiveServer, number: int) -> None:
        drawn, began = drawn_request(Random(f"{seed}.{number}")), perf_counter()
        try:
            reply = ask(server, *drawn)
            fault = fault_of(drawn.path, reply)
        except Exception as error:
            reply, fault = Reply(0, {}, ""), repr(error)
        slowest.append((perf_counter() - began, f"{number} {drawn.path} {drawn.body[:200]!r}"))
        statuses[reply.status] += 1
        if reply.status >= 400:
            words[reply.text[:160]] += 1
        if fault:
            place = f"{number} {drawn.path} {drawn.body[:300]!r}\n      {reply.text[:500]}"
            found.setdefault(fault, []).append(place)

    with tempfile.TemporaryDirectory() as folder:
        made = tool_folder(Path(folder) / "m")
        options = LoadOptions(context_length=CONTEXT)
        with live_server(lambda: mlx_engine.load(made, options=options)) as server:
            threads, began = threading.active_count(), perf_counter()
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda number: send(server, number), range(runs)))
            took = perf_counter() - began
            alive = ask(server, CHAT, {"messages": [HELLO], "max_tokens": 2}).status
            print(f"{runs} requests in {took:.0f} s, {dict(statuses)}; the next one: {alive}")
            print(f"{threading.active_count()} threads, {threads} before;", end=" ")
            print(f"{server.desk.thread.running_answers} running")
    for text, count in words.most_common(40):
        print(f"{count:5} {text}")
    for seconds, place in sorted(slowest)[-5:]:
        print(f"{seconds:.1f} s {place}")
    for fault, places in found.items():
        print(f"{fault}: {len(places)}", *places[:4], sep="\n  ")


if __name__ == "__main__":
    main(*map(int, [*sys.argv[1:], *("5000", "0")[len(sys.argv) - 1 :]]))
