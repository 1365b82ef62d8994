"""The arms of a bench: the engine with each draft setting, mlx-lm, and llama.cpp's server."""

import json
import os
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path
from socket import create_server
from tempfile import TemporaryFile
from time import perf_counter, process_time, sleep
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import mlx.core as mx

from metal_kernels.stock import computes_on_gpu
from mlx_engine.bench.report import (
    LLAMA,
    MLX_LM,
    OFF,
    PEERS,
    AnswerFigures,
    BenchPlan,
    arm_words,
    parse_arm,
)
from mlx_engine.engine import Engine
from mlx_engine.self_check.doctor import this_machine
from mlx_engine.text.chat_template import tokenize_chat
from mlx_engine.values.conversation import Message, RoundFinished
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import (
    DraftOptions,
    DraftSourceName,
    GenerationOptions,
    SamplingOptions,
)
from mlx_engine.values.stats import RoundStats
from mlx_engine.values.words import token_words

PEER_ERRORS = (OSError, ValueError, KeyError)
"""Errors of another program that cannot open or run a model."""

LLAMA_DEPTH = 3
START_S, ANSWER_S = 600.0, 3600.0
"""Seconds that a server may take to load a model, and to answer."""

LOG_TAIL = 300
"""Characters from the end of a server's log that are shown when it does not start."""

MOST_CHARACTERS = 8
"""Of a token of code, on average."""

ABOUT_CODE = "Write the class or the function that this code should have next, with its docstring."

MEMORY_SHARE = 0.8
"""Share of the memory that all copies of a model may take together."""


class BenchQuestion(NamedTuple):
    """A question of a bench: the kind of text asked for, the question, and the prompt's tokens."""

    kind: str
    text: str
    tokens: list[int]


def questions(engine: Engine) -> list[BenchQuestion]:
    """Read the bench's nine questions from prompts.toml, as tokens of a chat with the model."""
    parts, found = engine.parts, (files(__package__) / "prompts.toml").read_text(encoding="utf-8")
    made = []
    for kind in tomllib.loads(found)["kind"]:
        text = kind["prompt"].strip()
        chat = tokenize_chat(parts.template, parts.tokenizer, [Message("user", text)])
        made.append(BenchQuestion(kind["name"], text, list(chat.tokens)))
    return made


def long_questions(engine: Engine, contexts: Sequence[int]) -> list[BenchQuestion]:
    """Make a question about code for each length in tokens, a few tokens short of it.

    The code is that of Python's own library, which every machine has.
    """
    parts, modules = engine.parts, sorted(Path(os.__file__).parent.glob("*.py"))
    code = (module.read_text(encoding="utf-8", errors="replace") for module in modules)
    text = "".join(islice(chain.from_iterable(code), MOST_CHARACTERS * max(contexts)))
    tokens, made = parts.tokenizer.encode(text), []
    for context in contexts:
        room = context
        while True:  # the pieces of a cut text may be other tokens
            asked = f"{parts.tokenizer.decode(tokens[: max(0, room)])}\n\n{ABOUT_CODE}"
            chat = tokenize_chat(parts.template, parts.tokenizer, [Message("user", asked)])
            if len(chat.tokens) <= context or room <= 0:
                break
            room -= len(chat.tokens) - context
        made.append(BenchQuestion(f"{token_words(context)} tokens", asked, list(chat.tokens)))
    return made


class AnswerClock:
    """Stopwatch of one answer; starts when it is made, and stands still after the last pass."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._emitted, self._passed, self._cpu = list[int](), list[float](), list[float]()

    def count_pass(self, emitted: int) -> None:
        """Count a pass that yielded so many tokens; the figures of speed begin after the first."""
        self._emitted.append(emitted)
        self._passed.append(perf_counter())
        self._cpu.append(process_time())

    def answer_figures(
        self, prompt_tokens: int, tokens: Sequence[int], rounds: Sequence[RoundStats] = ()
    ) -> AnswerFigures:
        """Return the answer's figures; at least one pass must have been counted."""
        return AnswerFigures(
            prompt_tokens=prompt_tokens,
            tokens=tuple(tokens),
            generated=sum(self._emitted),
            drafted=sum(stats.drafted for stats in rounds),
            accepted=sum(stats.accepted for stats in rounds),
            passes=len(self._emitted),
            first_s=self._passed[0] - self._started,
            wall_s=self._passed[-1] - self._started,
            later=sum(self._emitted[1:]),
            later_s=self._passed[-1] - self._passed[0],
            cpu_s=self._cpu[-1] - self._cpu[0],
            rounds=tuple(rounds),
        )


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the settings or programs that a bench compares by their answers to the same prompts.

    answer: takes a question and the most tokens to generate; a peer, another program, generates
    exactly so many.
    """

    name: str
    answer: Callable[[BenchQuestion, int], AnswerFigures]
    is_peer: bool = False


class DraftSetting(NamedTuple):
    """Draft options of the engine to be measured, and their name in the bench's tables."""

    name: str
    draft: DraftOptions


def draft_settings(engine: Engine, plan: BenchPlan) -> Iterator[DraftSetting | Reason]:
    """List draft settings to measure: off, then the plan's, or a Reason why one cannot draft."""
    source: DraftSourceName = "mtp" if engine.parts.drafting.small is None else "model"
    for name in dict.fromkeys((OFF, *plan.arms)):
        if name not in PEERS:
            draft = parse_arm(name, source)
            why_not = engine.session(draft=draft).why_not_drafting if name != OFF else None
            yield why_not or DraftSetting(arm_words(name), draft)


def draft_arm(engine: Engine, plan: BenchPlan, setting: DraftSetting) -> Arm:
    """Make the bench's arm that answers with the engine and these draft options."""

    def answer(question: BenchQuestion, tokens: int) -> AnswerFigures:
        limits = GenerationOptions(tokens, ignore_eos=plan.ignore_eos)
        session = engine.session(sampling=plan.sampling, draft=setting.draft, generation=limits)
        engine.parts.prompts.drop_idle_chats()  # so that a question asked again is read again
        clock, rounds = AnswerClock(), list[RoundStats]()
        for event in session.send(question.text):
            if isinstance(event, RoundFinished):
                clock.count_pass(event.stats.emitted)
                rounds.append(event.stats)
        return clock.answer_figures(len(question.tokens), session.tokens, rounds)

    return Arm(setting.name, answer)


def mlx_lm_arm(folder: Path, sampling: SamplingOptions) -> Arm:
    """Load a model with mlx-lm; its arm ignores end-of-text tokens.

    On the CPU it computes in float32, as the engine does: MLX is slow in 16 bits there.
    """
    import mlx_lm
    from mlx_lm.sample_utils import make_logits_processors, make_sampler

    loaded: Any = mlx_lm.load(str(folder))
    model, tokenizer = loaded[0], loaded[1]
    tokenizer.eos_token_ids = set()
    if as_float32 := not computes_on_gpu():
        model.set_dtype(mx.float32)
        mx.eval(model.parameters())
    sampler = make_sampler(
        sampling.temperature, top_p=sampling.top_p, min_p=sampling.min_p, top_k=sampling.top_k
    )
    processors = make_logits_processors(
        dict(sampling.logit_bias),
        sampling.repetition_penalty if sampling.repetition_penalty != 1 else None,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
    )

    def answer(question: BenchQuestion, tokens: int) -> AnswerFigures:
        mx.random.seed(sampling.seed or 0)
        got, clock = list[int](), AnswerClock()
        for piece in mlx_lm.stream_generate(
            model,
            tokenizer,
            question.tokens,
            max_tokens=tokens,
            sampler=sampler,
            logits_processors=processors,
        ):
            clock.count_pass(1)
            got.append(int(piece.token))
        return clock.answer_figures(len(question.tokens), got)

    name = f"mlx-lm {version('mlx-lm')}{', float32' if as_float32 else ''}"
    return Arm(name, answer, is_peer=True)


@contextmanager
def llama_arm(
    server_program: Path,
    model: Path,
    context: int,
    sampling: SamplingOptions,
    *,
    uses_mtp_drafts: bool,
    heads: Path | None = None,
) -> Iterator[Arm]:
    """Run a GGUF in llama.cpp's server until the context ends; its arm ignores end-of-text tokens.

    Options and fields as in llama.cpp/tools/server/README.md. uses_mtp_drafts: draft with MTP
    heads. heads: a GGUF with the heads, where the model's own file has none. Raises OSError when
    the server does not start.
    """
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        str(server_program),
        "--model",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    command += ["--ctx-size", str(context), "--parallel", "1"]
    if uses_mtp_drafts:
        command += ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(LLAMA_DEPTH)]
        command += ["--spec-draft-model", str(heads)] if heads else []
    at = f"http://127.0.0.1:{port}"
    with TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            _wait_until_ready(process, f"{at}/health", log)
            build = str(_request_json(f"{at}/props").get("build_info", "")).partition("-")[0]
            name = f"llama.cpp {build}{f' draft-mtp {LLAMA_DEPTH}' if uses_mtp_drafts else ''}"
            yield Arm(name, partial(_generate_with_llama_server, at, sampling), is_peer=True)
        finally:
            process.kill()
            process.wait()


def _generate_with_llama_server(
    server_url: str, sampling: SamplingOptions, question: BenchQuestion, tokens: int
) -> AnswerFigures:
    """Have llama.cpp generate exactly `tokens` tokens; raises OSError and ValueError.

    The server's clock starts after the first token. A pass yields one token and the accepted
    drafts.
    """
    started = perf_counter()
    body = {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repetition_penalty,
        "repeat_last_n": -1,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "logit_bias": [list(pair) for pair in sampling.logit_bias.items()],
        "seed": sampling.seed or 0,
        "prompt": question.tokens,
        "n_predict": tokens,
        "ignore_eos": True,
        "cache_prompt": False,
        "return_tokens": True,
    }
    reply = _request_json(f"{server_url}/completion", body)
    timings, got = reply["timings"], tuple(reply["tokens"])
    if not got:
        raise ValueError("it answered nothing")
    accepted = timings.get("draft_n_accepted", 0)
    return AnswerFigures(
        prompt_tokens=len(question.tokens),
        tokens=got,
        generated=len(got),
        drafted=timings.get("draft_n", 0),
        accepted=accepted,
        passes=len(got) - accepted,
        first_s=timings["prompt_ms"] / 1000,
        wall_s=perf_counter() - started,
        later=len(got) - 1,
        later_s=timings["predicted_ms"] / 1000,
    )


def _wait_until_ready(
    process: "subprocess.Popen[bytes]", health_url: str, log_file: IO[bytes]
) -> None:
    end = perf_counter() + START_S
    while process.poll() is None and perf_counter() < end:
        try:
            _request_json(health_url)
        except OSError:  # not listening yet, or loading (503)
            sleep(0.1)
        else:
            return
    log_file.seek(0)
    words = " ".join(log_file.read().decode(errors="replace").split())[-LOG_TAIL:]
    raise OSError(f"it did not start: {words or 'it said nothing'}")


_LOCAL = build_opener(ProxyHandler({}))
"""Ignores the proxies of the environment: servers run on this machine."""


def _request_json(url: str, body: dict[str, object] | None = None) -> dict[str, Any]:
    """GET JSON from `url`, or POST `body` to it. Raises OSError and ValueError."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"})
    try:
        with _LOCAL.open(request, timeout=ANSWER_S) as answer:
            reply: dict[str, Any] = json.load(answer)
    except HTTPError as error:
        with error:
            words = error.read().decode(errors="replace")[:LOG_TAIL]
        raise OSError(f"{error}: {words}") from None
    return reply


def peer_arms(
    engine: Engine, plan: BenchPlan, heads: Path | None, context: int, exit_stack: ExitStack
) -> Iterator[Arm | Reason]:
    """Open the plan's other programs, to be ended by `exit_stack`, or say why one cannot run.

    heads: a file of MTP heads beside the model. context: tokens of the longest conversation.
    """
    path = Path(engine.description.path)
    openings: list[tuple[str, Callable[[], Arm]]] = []
    if MLX_LM in plan.arms:
        openings.append((MLX_LM, partial(mlx_lm_arm, path, plan.sampling)))
    if LLAMA in plan.arms and plan.llama_server is not None:
        for drafts in (False, True) if engine.parts.model.heads else (False,):
            server = llama_arm(
                plan.llama_server, path, context, plan.sampling, uses_mtp_drafts=drafts, heads=heads
            )
            openings.append((LLAMA, partial(exit_stack.enter_context, server)))
    machine = this_machine()
    room = MEMORY_SHARE * (machine.gpu_bytes or machine.memory_bytes)
    for copies, (name, opening) in enumerate(openings, 2):
        if copies * engine.description.nbytes > room:
            words = f"Memory does not hold this model {copies} times: no {name}."
            yield Reason("peer-no-room", words)
            continue
        try:
            yield opening()
        except PEER_ERRORS as error:
            yield peer_failure(name, error)


def peer_failure(name: str, error: Exception) -> Reason:
    """Make the reason why another program is left out of the bench."""
    return Reason("peer-cannot", f"{name} cannot run this model: {error}")
