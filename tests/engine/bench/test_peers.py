"""llama.cpp's server as a peer: a scripted one is started, asked and ended."""

import json
import os
import sys
from pathlib import Path

import pytest

from mlx_engine.bench.arms import BenchQuestion, llama_arm
from mlx_engine.values.options import SamplingOptions

SERVER = '''#!{python}
"""Answers as llama-server does; what it is started with and asked goes into a file."""
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
asked = {{"pid": os.getpid(), "options": options, "health": 0, "bodies": []}}

class Handler(BaseHTTPRequestHandler):
    def reply(self, told, status=200):
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/props":
            return self.reply({{"build_info": "b9999-abcdef0"}})
        asked["health"] += 1
        is_ready = asked["health"] > 1
        self.reply({{"status": "ok"}}, 200 if is_ready else 503)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked["bodies"].append(body)
        with open({told!r}, "w") as file:
            json.dump(asked, file)
        if body["prompt"] == [0]:
            return self.reply({{"error": {{"message": "prompt refused"}}}}, 400)
        timings = {{"prompt_n": 3, "prompt_ms": 30.0, "predicted_n": 5, "predicted_ms": 200.0}}
        if "--spec-type" in options:
            timings |= {{"draft_n": 6, "draft_n_accepted": 3}}
        self.reply({{"content": "", "tokens": [4, 5, 6, 7, 8], "timings": timings}})

    def log_message(self, *words):
        pass

HTTPServer(("127.0.0.1", int(options["--port"])), Handler).serve_forever()
'''
SAMPLING = SamplingOptions(temperature=0.5, top_k=20, seed=3, logit_bias={7: -1.5})


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_server_is_started_asked_and_ended(tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    program = script(tmp_path / "server", SERVER.format(python=sys.executable, told=str(told)))
    model, heads = tmp_path / "model.gguf", tmp_path / "heads.gguf"
    with llama_arm(program, model, 512, SAMPLING, uses_mtp_drafts=True, heads=heads) as server:
        run = server.answer(BenchQuestion("kind", "Hm?", [1, 2, 3]), 5)
        with pytest.raises(OSError, match=r"400.*prompt refused"):
            server.answer(BenchQuestion("kind", "Hm?", [0]), 5)
    asked = json.loads(told.read_text())
    assert server.name == "llama.cpp b9999 draft-mtp 3"
    assert asked["options"] == {
        "--model": str(model),
        "--host": "127.0.0.1",
        "--port": asked["options"]["--port"],
        "--ctx-size": "512",
        "--parallel": "1",
        "--spec-type": "draft-mtp",
        "--spec-draft-n-max": "3",
        "--spec-draft-model": str(heads),
    }
    assert asked["health"] == 2  # it was waited for
    body = asked["bodies"][0]
    assert (body["prompt"], body["n_predict"], body["ignore_eos"]) == ([1, 2, 3], 5, True)
    assert (body["cache_prompt"], body["return_tokens"]) == (False, True)
    assert (body["temperature"], body["top_k"], body["seed"]) == (0.5, 20, 3)
    assert body["logit_bias"] == [[7, -1.5]]
    assert (run.tokens, run.prompt_tokens) == ((4, 5, 6, 7, 8), 3)
    assert (run.drafted, run.accepted, run.passes) == (6, 3, 2)
    assert run.first_s == 0.03
    assert run.tokens_per_second == 20.0  # four tokens behind the first in 0.2 s
    with pytest.raises(ProcessLookupError):
        os.kill(asked["pid"], 0)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = script(
        tmp_path / "server", "#!/bin/sh\necho 'unknown argument: --spec-type'\nexit 1\n"
    )
    server = llama_arm(program, tmp_path / "model.gguf", 512, SAMPLING, uses_mtp_drafts=True)
    with pytest.raises(OSError, match="did not start: unknown argument: --spec-type"), server:
        pass


def test_there_may_be_no_such_program(tmp_path: Path) -> None:
    server = llama_arm(
        tmp_path / "none", tmp_path / "model.gguf", 512, SAMPLING, uses_mtp_drafts=False
    )
    with pytest.raises(FileNotFoundError), server:
        pass
