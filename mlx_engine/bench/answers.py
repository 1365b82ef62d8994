"""Runs answers round by round, with the clocks that a comparison needs."""

from collections.abc import Sequence
from time import perf_counter, process_time
from typing import NamedTuple

from mlx_engine.bench.subject import PLAIN, Subject
from mlx_engine.decoding.answer import Answer, raw_answer
from mlx_engine.decoding.parts import Settings
from mlx_engine.drafting.depth.choice import Learned
from mlx_engine.values.events import RoundFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

SEED = 1
GREEDY = SamplingOptions(temperature=0, seed=SEED)


class PlainRun(NamedTuple):
    """Tokens; seconds to the first of them and from there to the last; the latter's CPU seconds."""

    tokens: tuple[int, ...]
    first_s: float
    decode_s: float
    decode_cpu_s: float


def open_answer(
    subject: Subject,
    prompt: Sequence[int],
    tokens: int,
    sampling: SamplingOptions,
    draft: DraftOptions,
    *,
    ignore_eos: bool,
) -> Answer:
    """An answer of at most `tokens` tokens that has not begun, as of `Engine.generate`."""
    parts = subject.parts
    settings = Settings(sampling, draft, GenerationOptions(tokens, ignore_eos=ignore_eos))
    return raw_answer(parts, settings, prompt, learned(subject))


def learned(subject: Subject) -> Learned:
    """What is known of drafting before the first round."""
    return Learned(lambda: subject.pass_costs, subject.parts.drafting.small_share)


def plain_run(subject: Subject, prompt: Sequence[int], tokens: int) -> PlainRun:
    """Greedy plain decoding past every end of text."""
    started = first = perf_counter()
    first_cpu = process_time()
    answer = open_answer(subject, prompt, tokens, GREEDY, PLAIN, ignore_eos=True)
    rounds = 0
    for event in answer.events():
        if isinstance(event, RoundFinished):
            rounds += 1
            if rounds == 1:
                first, first_cpu = perf_counter(), process_time()
    ended = perf_counter()
    return PlainRun(
        tuple(answer.tokens), first - started, ended - first, process_time() - first_cpu
    )
