"""Runs answers round by round, with the clocks that a comparison needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import NamedTuple

from mlx_engine.bench.subject import PLAIN, Subject
from mlx_engine.decoding.answer import Answer
from mlx_engine.decoding.draft_control import DraftControl
from mlx_engine.decoding.track import Track
from mlx_engine.decoding.unattended import unattended_answer
from mlx_engine.drafting.round_plan import Learned
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


@dataclass(frozen=True, slots=True)
class Opened:
    """An answer that has not begun, and the track it runs on."""

    answer: Answer
    track: Track


def open_answer(
    subject: Subject,
    prompt: Sequence[int],
    tokens: int,
    sampling: SamplingOptions,
    draft: DraftOptions,
    *,
    ignore_eos: bool,
) -> Opened:
    """An answer of at most `tokens` tokens, as of `Engine.generate`."""
    parts = subject.parts
    learned = Learned(lambda: subject.pass_costs, parts.drafting.small_share)
    control = DraftControl(draft, parts.drafting, learned)
    track = control.track_for_answer()
    generation = GenerationOptions(tokens, ignore_eos=ignore_eos)
    answer = unattended_answer(parts, prompt, sampling, generation, track, control)
    return Opened(answer, track)


def plain_run(subject: Subject, prompt: Sequence[int], tokens: int) -> PlainRun:
    """Greedy plain decoding past every end of text."""
    started = first = perf_counter()
    first_cpu = process_time()
    answer = open_answer(subject, prompt, tokens, GREEDY, PLAIN, ignore_eos=True).answer
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
