"""`headstart serve` as a process: SIGTERM lets answers end, and saved prompts outlive it."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
LONG = "Tell me what os.path.join does. " * 20
BODY = {"messages": [{"role": "user", "content": LONG}], "temperature": 0, "stream": True}


@contextmanager
def serving(*flags: str) -> Iterator[tuple[subprocess.Popen[str], HTTPConnection]]:
    """The process, and a connection with it; it has ended at the end."""
    command = [sys.executable, "-m", "mlx_engine", "serve", "--port", "0", *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://(\S+)", process.stdout.readline())
        assert found is not None
        connection = HTTPConnection(found[1], timeout=60)
        try:
            yield process, connection
        finally:
            connection.close()
            process.terminate()


def events(connection: HTTPConnection, letters: int) -> Iterator[dict[str, Any]]:
    """Chunks of a streamed answer of so many letters."""
    body = BODY | {"regex": f"[a-z]{{{letters}}}", "stream_options": {"include_usage": True}}
    kind = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), kind)
    for line in connection.getresponse():
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def test_an_answer_ends_after_sigterm_and_its_prompt_is_known_after_a_restart(tmp_path):
    flags = ("--prompt-files", str(tmp_path))
    cached = []
    for letters in (80, 2):
        with serving(*flags) as (process, connection):
            answer = events(connection, letters)
            chunks = [next(answer), next(answer)]
            process.send_signal(signal.SIGTERM)
            chunks += answer
            assert process.wait(30) == 0
        *told, last = chunks
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in told)
        assert len(text) == letters
        cached.append(last["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached[0] == 0 and cached[1] > 100
