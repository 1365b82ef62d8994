"""Plain decoding and prompt reading against mlx-lm, in turn on one machine."""

from collections.abc import Callable, Sequence
from pathlib import Path

import mlx.core as mx

from mlx_engine.bench.agreement import common_beginning
from mlx_engine.bench.answers import PlainRun, plain_run
from mlx_engine.bench.contest import contest, in_turn
from mlx_engine.bench.mlx_lm_peer import MlxLm
from mlx_engine.bench.plan import Plan
from mlx_engine.bench.prompts import chat_prompts, long_prompt
from mlx_engine.bench.report import PeerComparison
from mlx_engine.bench.subject import Subject

Run = Callable[[Sequence[int], int], PlainRun]

TRIAL_TOKENS = 4
FEWEST_TOKENS = 8


def compare_with_peers(subject: Subject, plan: Plan) -> tuple[PeerComparison, ...]:
    """One peer after the other, so that at most one of them is in memory."""
    kinds = (False,) if mx.metal.is_available() else (True, False)
    found = []
    for as_float32 in kinds:
        peer = MlxLm(Path(subject.description.path), as_float32=as_float32)
        found.append(compare(subject, peer.name, peer.run, plan))
        del peer
        mx.clear_cache()
    return tuple(found)


def compare(subject: Subject, name: str, theirs: Run, plan: Plan) -> PeerComparison:
    """Decode after a short prompt, then read a long one; a very slow peer gets less of both."""

    def ours(prompt: Sequence[int], tokens: int) -> PlainRun:
        return plain_run(subject, prompt, tokens)

    short = chat_prompts(subject, 1)[0]
    trial = [run(short, TRIAL_TOKENS) for run in (ours, theirs)]  # warms up both
    token_s = max(run.decode_s for run in trial) / (TRIAL_TOKENS - 1)
    tokens = max(FEWEST_TOKENS, min(plan.plain_tokens, int(plan.run_s / token_s)))
    prompt_s = max(run.first_s for run in trial) / len(short)
    prompt = long_prompt(subject, max(len(short), min(plan.prompt, int(plan.run_s / prompt_s))))
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
