"""Plain decoding and prompt reading against mlx-lm, in turn on one machine."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple, TypeVar

import mlx.core as mx
from mlx.utils import tree_flatten

from mlx_engine.bench.drafting import common_beginning
from mlx_engine.bench.report import Contest, PeerComparison, Plan
from mlx_engine.bench.subject import PlainRun, chat_prompts, long_prompt, plain_run
from mlx_engine.engine import Engine

Run = Callable[[Sequence[int], int], PlainRun]
T = TypeVar("T")

TRIAL_TOKENS = 4
FEWEST_TOKENS = 8


def compare_with_peers(engine: Engine, plan: Plan) -> tuple[PeerComparison, ...]:
    """One peer after the other, so that at most one of them is in memory."""
    kinds = (False,) if mx.metal.is_available() else (True, False)
    found = []
    for as_float32 in kinds:
        peer = MlxLm(Path(engine.description.path), as_float32=as_float32)
        found.append(compare(engine, peer.name, peer.run, plan))
        del peer
        mx.clear_cache()
    return tuple(found)


def compare(engine: Engine, name: str, theirs: Run, plan: Plan) -> PeerComparison:
    """Decode after a short prompt, then read a long one; a very slow peer gets less of both."""

    def ours(prompt: Sequence[int], tokens: int) -> PlainRun:
        return plain_run(engine, prompt, tokens)

    short = chat_prompts(engine, 1)[0]
    trial = [run(short, TRIAL_TOKENS) for run in (ours, theirs)]  # warms up both
    token_s = max(run.decode_s for run in trial) / (TRIAL_TOKENS - 1)
    tokens = max(FEWEST_TOKENS, min(plan.plain_tokens, int(plan.run_s / token_s)))
    prompt_s = max(run.first_s for run in trial) / len(short)
    prompt = long_prompt(engine, max(len(short), min(plan.prompt, int(plan.run_s / prompt_s))))
    decoded = in_turn([lambda: ours(short, tokens), lambda: theirs(short, tokens)], plan.repeats)
    read = in_turn([lambda: ours(prompt, 1), lambda: theirs(prompt, 1)], plan.repeats)
    return PeerComparison(
        peer=name,
        repeats=plan.repeats,
        decode_tokens=tokens,
        equal_tokens=common_beginning(decoded[0][0].tokens, decoded[1][0].tokens),
        prompt_tokens=len(prompt),
        decode=contest(*([(tokens - 1) / run.decode_s for run in side] for side in decoded)),
        prompt=contest(*([len(prompt) / run.first_s for run in side] for side in read)),
        cpu_ms=contest(*([1000 * run.decode_cpu_s / (tokens - 1) for run in s] for s in decoded)),
    )


def in_turn(sides: Sequence[Callable[[], T]], repeats: int) -> list[list[T]]:
    """Results by side; every other turn goes backwards, so no side is always second."""
    results: list[list[T]] = [[] for _ in sides]
    for turn in range(repeats):
        order = range(len(sides)) if turn % 2 == 0 else range(len(sides) - 1, -1, -1)
        for side in order:
            results[side].append(sides[side]())
    return results


def contest(ours: Sequence[float], theirs: Sequence[float]) -> Contest:
    """Compare results that were measured pair by pair; a pair with nothing in it does not count."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True) if b > 0]
    return Contest(median(ours), median(theirs), median(ratios) if ratios else 0.0)


class Graph(NamedTuple):
    """Outputs not yet computed, and how long it took to write them down."""

    outputs: Sequence[mx.array]
    build_ms: float


class MlxLm:
    """A model as mlx-lm runs it.

    Parameters stay as they are in the file, or all floating ones become float32: on the CPU MLX
    computes in 16 bits slowly, so there only the latter compares programs rather than types.
    """

    def __init__(self, folder: Path, *, as_float32: bool) -> None:
        import mlx_lm

        loaded: Any = mlx_lm.load(str(folder))
        self._model, self._tokenizer = loaded[0], loaded[1]
        self._tokenizer.eos_token_ids = set()
        if as_float32:
            self._model.set_dtype(mx.float32)
            mx.eval(self._model.parameters())
        words = "float32" if as_float32 else "as is"
        self.name = f"mlx-lm {version('mlx-lm')}, {words}"

    def run(self, prompt: Sequence[int], tokens: int) -> PlainRun:
        """Greedy, past every end of text."""
        import mlx_lm

        got: list[int] = []
        started = first = perf_counter()
        first_cpu = process_time()
        for answer in mlx_lm.stream_generate(
            self._model, self._tokenizer, list(prompt), max_tokens=tokens
        ):
            if not got:
                first, first_cpu = perf_counter(), process_time()
            got.append(int(answer.token))
        ended = perf_counter()
        return PlainRun(tuple(got), first - started, ended - first, process_time() - first_cpu)

    def graph(self, prompt: Sequence[int]) -> Graph:
        """One decoding step after `prompt`, as mlx-lm takes it."""
        from mlx_lm.generate import make_prompt_cache  # type: ignore[attr-defined]

        cache = make_prompt_cache(self._model)
        self._model(mx.array([list(prompt)]), cache=cache)
        mx.eval(_arrays(cache))
        started = perf_counter()
        logits = self._model(mx.array([[prompt[-1]]]), cache=cache)[:, -1]
        normal = logits - mx.logsumexp(logits, keepdims=True)
        outputs = [mx.argmax(normal, axis=-1), normal, *_arrays(cache)]
        return Graph(outputs, 1000 * (perf_counter() - started))


def _arrays(cache: Any) -> list[mx.array]:
    leaves: Any = tree_flatten([layer.state for layer in cache])
    return [leaf for _, leaf in leaves if isinstance(leaf, mx.array)]
