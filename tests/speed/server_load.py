"""Load on the server: random requests of 8 clients, its speed beside the API, a growing prompt.

PYTHONPATH=.:tests:tests/helpers python tests/speed/server_load.py [REQUESTS [MODEL ...]]
"""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from time import monotonic, perf_counter, sleep
from typing import Any

from live_server import LiveServer, ask, live_server
from tool_model import CALLS, tool_folder

import mlx_engine
from mlx_engine.values.conversation import Message, TextPiece
from mlx_engine.values.options import GenerationOptions, LoadOptions, SamplingOptions

CHAT = "/v1/chat/completions"
WEATHER = {"type": "function", "function": {"name": "weather"}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORM = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}


def asked(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """Draw a request: path and body."""
    messages = [{"role": "user", "content": f"What does os.path.{rng.randrange(9**6)} do?"}]
    body: dict[str, Any] = {"stream": rng.random() < 0.5, "draft": {"depth": rng.choice([0, 2, 3])}}
    path = rng.choice([CHAT, CHAT, "/v1/messages", "/v1/completions", "/v1/responses"])
    match path:
        case "/v1/completions":
            body |= {"prompt": "def join(a):", "max_tokens": 24}
        case "/v1/responses":
            body |= {"input": "What is a path?", "max_output_tokens": 24}
        case _:
            body |= {"messages": messages, "max_tokens": 24}
    if path == CHAT:
        body |= rng.choice([{}, {"response_format": FORM}, {"tools": [WEATHER]}, {"stop": "a"}])
    return path, body


def send(server: LiveServer, seed: int) -> tuple[int, float | None]:
    """Send a drawn request, every fourth left in mid-answer; return status and seconds to text."""
    rng = random.Random(seed)
    path, body = asked(rng)
    connection = HTTPConnection(server.address.removeprefix("http://"), timeout=120)
    began = perf_counter()
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    if rng.random() < 0.25 and not body["stream"]:
        sleep(rng.random() / 5)
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        return 0, None
    reply = connection.getresponse()
    first = None
    leaves = rng.random() < 0.25
    while body["stream"] and reply.status == 200 and (line := reply.readline()):
        if first is None and any(mark in line for mark in (b'"content":', b"delta", b'"text":')):
            first = perf_counter() - began
        if leaves and first is not None:
            break
    if not body["stream"] or reply.status != 200:
        reply.read()
    connection.close()
    return reply.status, first


def rss() -> float:
    """Return this process's memory in MiB."""
    fields = Path("/proc/self/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) / 1024


def load(requests: int) -> None:
    """Print what many requests leave behind, and how long they waited; 16 MiB of prompts stay."""
    options = LoadOptions(prompt_cache_bytes=16 * 2**20)
    with live_server(lambda: mlx_engine.load(options=options)) as server:
        results = list[tuple[int, float | None]]()
        for begin, end in ((0, requests // 5), (requests // 5, requests)):
            started = monotonic()
            tokens = server.desk.counts.generated_tokens
            with ThreadPoolExecutor(8) as pool:
                results += pool.map(lambda seed: send(server, seed), range(begin, end))
            took = monotonic() - started
            limit = monotonic() + 20
            while server.desk.thread.running_answers and monotonic() < limit:
                sleep(0.05)
            speed = (server.desk.counts.generated_tokens - tokens) / took
            print(f"{end} requests: {rss():.0f} MiB, {threading.active_count()} threads,", end=" ")
            print(f"{speed:.0f} finished tokens/s, {took:.0f} s,", end=" ")
            thread = server.desk.thread
            print(f"{thread.running_answers} running, {thread.waiting_answers} waiting")
        statuses = [status for status, _ in results]
        print({status: statuses.count(status) for status in sorted(set(statuses))})
        firsts = sorted(first for _, first in results if first is not None)
        print(f"first piece: p50 {median(firsts):.3f} s, p95 {quantiles(firsts, n=20)[-1]:.3f} s")


@contextmanager
def server_process(port: int = 8711) -> Iterator[int]:
    """Run the server in a process of its own, as a client meets it; yields its process id."""
    command = [sys.executable, "-m", "app", "serve", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it listens
        try:
            yield process.pid
        finally:
            process.terminate()


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process that have not ended."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in threads) / 1e9


def beside_the_api(rounds: int = 12, length: int = 160) -> None:
    """Print speed and time to the first piece of the server and of a session, A B B A.

    Medians of the answers, and of the ratios of neighbours, which share the machine's mood.
    """
    engine = mlx_engine.load()
    never_ends = dict.fromkeys(engine.tokenize("<|endoftext|><|im_end|>"), -1000.0)
    greedy = SamplingOptions(temperature=0, logit_bias=never_ends)
    limits = GenerationOptions(length)
    measured: dict[str, list[tuple[float, float, float]]] = {"api": [], "server": []}
    bias = {str(token): value for token, value in never_ends.items()}

    def api(text: str) -> tuple[float, float]:
        began, first = perf_counter(), 0.0
        session = engine.session(sampling=greedy, generation=limits)
        session.load_messages([Message("user", text)])
        for event in session.regenerate():
            if not first and isinstance(event, TextPiece):
                first = perf_counter() - began
        return first, session.stats.generated_tokens / (perf_counter() - began)

    port = 8711
    with server_process(port) as server:
        pids = {"api": os.getpid(), "server": server}

        def served(text: str) -> tuple[float, float]:
            messages = [{"role": "user", "content": text}]
            body = {"messages": messages, "max_tokens": length, "temperature": 0.0, "stream": True}
            connection = HTTPConnection("127.0.0.1", port, timeout=120)
            began, first, last = perf_counter(), 0.0, b""
            head = {"Content-Type": "application/json"}
            connection.request("POST", CHAT, json.dumps(body | {"logit_bias": bias}), head)
            for line in connection.getresponse():
                if not first and b'"content": "' in line and b'"content": ""' not in line:
                    first = perf_counter() - began
                last = line if b"timings" in line else last
            count = json.loads(last.removeprefix(b"data: "))["timings"]["predicted_n"]
            return first, count / (perf_counter() - began)

        for turn in range(rounds + 1):
            ways = [("api", api), ("server", served)]
            for name, way in ways if turn % 2 else reversed(ways):
                before = processor_seconds(pids[name])
                first, speed = way(f"Write function number {turn} that joins paths.")
                spent = processor_seconds(pids[name]) - before
                measured[name] += [(first, speed, 1 / spent)] if turn else []
    engine.close()
    kinds = ("seconds to the first piece", "tokens/s by clock", "answers a second of processor")
    for index, kind in enumerate(kinds):
        theirs, ours = ([row[index] for row in rows] for rows in measured.values())
        ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
        print(f"{kind}: api {median(theirs):.3f}, server {median(ours):.3f},", end=" ")
        print(f"{median(ours) / median(theirs):.3f}, of neighbours {ratio:.3f}")


RECURRENT = (
    "bailing_hybrid", "falcon_h1", "granitemoehybrid", "kimi_linear", "lfm2_moe", "nemotron_h",
    "olmo_hybrid",
)  # fmt: skip


def agents(models: Sequence[Path]) -> None:
    """Print what a growing conversation of 20 requests reads, by every kind of model."""
    from tiny_published import publish

    with tempfile.TemporaryDirectory() as folder:
        pocket = tool_folder(Path(folder) / "pocket")
        agent("built-in model, tools", pocket, 450, tools=True)
        for kind in RECURRENT:
            changes = {"max_position_embeddings": 4096}
            agent(kind, publish(kind, Path(folder) / kind, changes=changes).folder, 28)
        for path in models:
            agent(path.name, path, 90)


def agent(name: str, model: Path, words: int, steps: int = 20, *, tools: bool = False) -> None:
    """Print the prompt tokens that a growing conversation reads, and after a restart.

    words: of text that a step adds. tools: with a tool, whose results are the steps.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent. " * 9}]
    more: dict[str, Any] = {"max_tokens": 8, "temperature": 0}
    if tools:
        bias = {str(token): value for token, value in CALLS.items()}
        more |= {"tools": [WEATHER], "logit_bias": bias, "max_tokens": 1}
    with tempfile.TemporaryDirectory() as folder:
        options = LoadOptions(prompt_files=Path(folder))
        for begin, end in ((0, steps), (steps, steps + 1)):
            read = written = extra = before = 0
            with live_server(lambda: mlx_engine.load(model, options=options)) as server:
                for step in range(begin, end):
                    text = f"Step {step}: " + " ".join(
                        f"path{n % 7}.join" for n in range(words // 4)
                    )
                    messages.append({"role": "user", "content": text})
                    if tools and step:
                        call = messages[-2]["tool_calls"][0]["id"]
                        messages[-1] |= {"role": "tool", "tool_call_id": call}
                    reply = ask(server, CHAT, {"messages": messages, **more}).json
                    assert "choices" in reply, reply
                    messages.append(reply["choices"][0]["message"])
                    total, written = reply["usage"]["prompt_tokens"], reply["usage"]["total_tokens"]
                    read += reply["timings"]["prompt_n"]
                    extra = max(extra, reply["timings"]["prompt_n"] - (total - before))
                    before = written
            if begin:
                print(f"  after a restart: a prompt of {total} tokens, {read} read")
            else:
                print(f"{name}: a prompt of {total} tokens in the end, {read} read in all;", end="")
                print(f" at most {extra} of a request had been read before")


if __name__ == "__main__":
    load(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
    beside_the_api()
    agents([Path(text) for text in sys.argv[2:]])
