"""The arms of a bench: the engine with each draft setting, mlx-lm, and llama.cpp's server."""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from socket import create_server
from tempfile import TemporaryFile
from time import perf_counter, sleep
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import mlx.core as mx

from metal_kernels.stock import computes_on_gpu
from mlx_engine.bench.report import LLAMA, MLX_LM, OFF, PEERS, Plan, arm_words, parse_arm
from mlx_engine.bench.runs import Clock, Run, answer_settings, timed_answer
from mlx_engine.engine import Engine
from mlx_engine.self_check.doctor import this_machine
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions, DraftSourceName, SamplingOptions

PEER_ERRORS = (OSError, ValueError, KeyError)
"""Errors of another program that cannot open or run a model."""

LLAMA_DEPTH = 3
START_S = 600.0
"""Seconds a server may take to load a model."""

ANSWER_S = 3600.0
LOG_TAIL = 300
"""Characters from the end of a server's log that are shown when it does not start."""


class MlxLm:
    """A model loaded by mlx-lm, to compare the engine with.

    as_float32: cast all floating parameters. MLX's CPU backend is slow in 16 bits, and the engine
    computes in float32 there too.
    """

    def __init__(self, folder: Path, sampling: SamplingOptions, *, as_float32: bool) -> None:
        import mlx_lm
        from mlx_lm.sample_utils import make_logits_processors, make_sampler

        loaded: Any = mlx_lm.load(str(folder))
        self._model, self._tokenizer = loaded[0], loaded[1]
        self._tokenizer.eos_token_ids = set()
        if as_float32:
            self._model.set_dtype(mx.float32)
            mx.eval(self._model.parameters())
        self._seed = sampling.seed or 0
        self._sampler = make_sampler(
            sampling.temperature,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            top_k=sampling.top_k,
        )
        is_neutral = sampling.repetition_penalty == 1
        self._processors = make_logits_processors(
            dict(sampling.logit_bias),
            None if is_neutral else sampling.repetition_penalty,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
        )
        self.name = f"mlx-lm {version('mlx-lm')}{', float32' if as_float32 else ''}"

    def answer(self, prompt: Sequence[int], tokens: int) -> Run:
        """Generate exactly `tokens` tokens in mlx-lm, ignoring end-of-text tokens."""
        import mlx_lm

        mx.random.seed(self._seed)
        got: list[int] = []
        clock = Clock()
        for answer in mlx_lm.stream_generate(
            self._model,
            self._tokenizer,
            list(prompt),
            max_tokens=tokens,
            sampler=self._sampler,
            logits_processors=self._processors,
        ):
            if not got:
                clock.first()
            got.append(int(answer.token))
        return clock.run(got, [1] * len(got))


class LlamaServer:
    """Client of a llama.cpp server that runs a GGUF, to compare the engine with.

    Options and fields as in llama.cpp/tools/server/README.md.
    """

    def __init__(self, port: int, sampling: SamplingOptions, words: str) -> None:
        """Connect to a running server on this machine. words: added to its name in tables."""
        self._at = f"http://127.0.0.1:{port}"
        self._sampling = {
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
        }
        build = _request_json(f"{self._at}/props").get("build_info", "")
        self.name = " ".join(filter(None, ("llama.cpp", str(build).partition("-")[0], words)))

    def answer(self, prompt: Sequence[int], tokens: int) -> Run:
        """Generate exactly `tokens` tokens in llama.cpp, past end-of-text tokens, no prompt cached.

        The server's clock starts after the first token. A pass yields one token and the accepted
        drafts.
        """
        started = perf_counter()
        reply = _request_json(
            f"{self._at}/completion",
            {
                **self._sampling,
                "prompt": list(prompt),
                "n_predict": tokens,
                "ignore_eos": True,
                "cache_prompt": False,
                "return_tokens": True,
            },
        )
        wall_s = perf_counter() - started
        timings, got = reply["timings"], tuple(reply["tokens"])
        if not got:
            raise ValueError("it answered nothing")
        accepted = timings.get("draft_n_accepted", 0)
        return Run(
            tokens=got,
            generated=len(got),
            drafted=timings.get("draft_n", 0),
            accepted=accepted,
            passes=len(got) - accepted,
            first_s=timings["prompt_ms"] / 1000,
            wall_s=wall_s,
            later=len(got) - 1,
            later_s=timings["predicted_ms"] / 1000,
        )


@contextmanager
def llama_server(
    program: Path,
    model: Path,
    context: int,
    sampling: SamplingOptions,
    *,
    drafts: bool,
    heads: Path | None = None,
) -> Iterator[LlamaServer]:
    """Start llama.cpp's server and end it with the context. Raises OSError when it does not start.

    drafts: draft with MTP heads (`draft-mtp`). heads: a GGUF with the heads, where the model's own
    file has none.
    """
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(program), "--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--ctx-size", str(context), "--parallel", "1"]
    if drafts:
        command += ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(LLAMA_DEPTH)]
        command += ["--spec-draft-model", str(heads)] if heads else []
    with TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            _wait_until_ready(process, f"http://127.0.0.1:{port}/health", log)
            yield LlamaServer(port, sampling, f"draft-mtp {LLAMA_DEPTH}" if drafts else "")
        finally:
            process.kill()
            process.wait()


def _wait_until_ready(process: "subprocess.Popen[bytes]", health: str, log: IO[bytes]) -> None:
    end = perf_counter() + START_S
    while process.poll() is None and perf_counter() < end:
        try:
            _request_json(health)
        except OSError:  # not listening yet, or loading (503)
            sleep(0.1)
        else:
            return
    log.seek(0)
    words = " ".join(log.read().decode(errors="replace").split())[-LOG_TAIL:]
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


MEMORY_SHARE = 0.8
"""Share of the memory that all copies of a model may take together."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the settings or programs that a bench compares by their answers to the same prompts.

    answer: takes a prompt and the most tokens to generate; a peer generates exactly so many.
    is_peer: another program.
    """

    name: str
    answer: Callable[[Sequence[int], int], Run]
    is_peer: bool = False


class DraftSetting(NamedTuple):
    """Draft options of the engine to be measured, and their name in the bench's tables."""

    name: str
    draft: DraftOptions


def draft_settings(engine: Engine, plan: Plan) -> Iterator[DraftSetting | Reason]:
    """List draft settings to measure: off, then the plan's, or a Reason why one cannot draft."""
    source: DraftSourceName = "mtp" if engine.parts.drafting.small is None else "model"
    for name in dict.fromkeys((OFF, *plan.arms)):
        if name not in PEERS:
            draft = parse_arm(name, source)
            why_not = engine.session(draft=draft).why_not_drafting if name != OFF else None
            yield why_not or DraftSetting(arm_words(name), draft)


def draft_arm(engine: Engine, plan: Plan, setting: DraftSetting) -> Arm:
    """Make the bench's arm that answers with the engine and these draft options."""

    def answer(prompt: Sequence[int], tokens: int) -> Run:
        settings = answer_settings(plan.sampling, setting.draft, tokens, ignore_eos=plan.ignore_eos)
        return timed_answer(engine, prompt, settings)

    return Arm(setting.name, answer)


def draft_arms(engine: Engine, plan: Plan) -> Iterator[Arm | Reason]:
    """Make a bench arm of the engine for each draft setting that `draft_settings` lists."""
    for setting in draft_settings(engine, plan):
        yield setting if isinstance(setting, Reason) else draft_arm(engine, plan, setting)


def peer_arms(
    engine: Engine, plan: Plan, heads: Path | None, context: int, stack: ExitStack
) -> Iterator[Arm | Reason]:
    """Open the plan's other programs, or tell why they cannot run this model; `stack` ends them.

    heads: a file of MTP heads beside the model. context: tokens of the longest conversation.
    """
    path = Path(engine.description.path)
    openings: list[tuple[str, Callable[[], MlxLm | LlamaServer]]] = []
    if MLX_LM in plan.arms:
        as_float32 = not computes_on_gpu()  # the types we compute in
        openings.append((MLX_LM, partial(MlxLm, path, plan.sampling, as_float32=as_float32)))
    if LLAMA in plan.arms and plan.llama_server is not None:
        for drafts in (False, True) if engine.parts.model.heads else (False,):
            server = llama_server(
                plan.llama_server, path, context, plan.sampling, drafts=drafts, heads=heads
            )
            openings.append((LLAMA, partial(stack.enter_context, server)))
    machine = this_machine()
    room = MEMORY_SHARE * (machine.gpu_bytes or machine.memory_bytes)
    for copies, (name, opening) in enumerate(openings, 2):
        if copies * engine.description.nbytes > room:
            words = f"Memory does not hold this model {copies} times: no {name}."
            yield Reason("peer-no-room", words)
            continue
        try:
            peer = opening()
        except PEER_ERRORS as error:
            yield peer_failure(name, error)
        else:
            yield Arm(peer.name, peer.answer, is_peer=True)


def peer_failure(name: str, error: Exception) -> Reason:
    """Make the reason why another program is left out of the bench."""
    return Reason("peer-cannot", f"{name} cannot run this model: {error}")
