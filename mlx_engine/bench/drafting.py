"""Tokens per pass and speed by depth and temperature, and what `auto` makes of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple

from mlx_engine.bench.answers import SEED, open_answer
from mlx_engine.bench.contest import shares
from mlx_engine.bench.plan import Plan
from mlx_engine.bench.prompts import chat_prompts
from mlx_engine.bench.report import DraftArm, DraftingReport
from mlx_engine.bench.subject import Subject, pinned
from mlx_engine.values.events import RoundFinished
from mlx_engine.values.options import DraftOptions, SamplingOptions
from mlx_engine.values.stats import RoundStats, count_by_depth

TEMPERATURES = (0.0, 0.8)
ARMS = {"0": pinned(0), "1": pinned(1), "2": pinned(2), "3": pinned(3), "auto": DraftOptions()}


@dataclass(frozen=True, slots=True)
class Played:
    """Rounds of answers; processor seconds, and tokens, of all rounds but each answer's first."""

    rounds: list[RoundStats]
    cpu_s: float
    cpu_tokens: int

    def __add__(self, other: "Played") -> "Played":
        """Both."""
        rounds = self.rounds + other.rounds
        return Played(rounds, self.cpu_s + other.cpu_s, self.cpu_tokens + other.cpu_tokens)


def measure_drafting(subject: Subject, plan: Plan) -> DraftingReport:
    """Every prompt at every depth before the next prompt, so that all depths share the weather."""
    costs = subject.pass_costs
    prompts = chat_prompts(subject, plan.draft_prompts)
    arms: list[DraftArm] = []
    for temperature in TEMPERATURES:
        sampling = SamplingOptions(temperature=temperature, seed=SEED)
        played = {name: Played([], 0.0, 0) for name in ARMS}
        for number, prompt in enumerate(prompts):
            for name in list(ARMS)[:: 1 if number % 2 == 0 else -1]:
                played[name] += play(subject, prompt, plan.draft_tokens, sampling, ARMS[name])
        plain = sum_up(played["0"].rounds).tokens_per_second
        arms += [arm_of(temperature, name, found, plain) for name, found in played.items()]
    return DraftingReport(len(prompts), tuple(arms), costs.verify_ms, costs.draft_ms)


def play(
    subject: Subject,
    prompt: Sequence[int],
    tokens: int,
    sampling: SamplingOptions,
    draft: DraftOptions,
) -> Played:
    """One answer, which may end by itself."""
    answer = open_answer(subject, prompt, tokens, sampling, draft, ignore_eos=False)
    rounds: list[RoundStats] = []
    started = process_time()
    for event in answer.events():
        if isinstance(event, RoundFinished):
            rounds.append(event.stats)
            if len(rounds) == 1:
                started = process_time()
    return Played(rounds, process_time() - started, sum(r.emitted for r in rounds[1:]))


class Sums(NamedTuple):
    """Of many rounds."""

    tokens: int
    milliseconds: float

    @property
    def tokens_per_second(self) -> float:
        """0 when nothing was played."""
        return 1000 * self.tokens / self.milliseconds if self.milliseconds else 0.0


def sum_up(rounds: Sequence[RoundStats]) -> Sums:
    """Tokens and time."""
    spent = sum(r.total_ms for r in rounds)
    return Sums(sum(r.emitted for r in rounds), spent)


def arm_of(temperature: float, name: str, played: Played, plain_per_second: float) -> DraftArm:
    """The figures of one depth; plain_per_second: those of depth 0 in the same run."""
    rounds = played.rounds
    passes = len(rounds)
    sums = sum_up(rounds)
    drafted = count_by_depth(r.drafted for r in rounds)
    accepted = count_by_depth(r.accepted for r in rounds)
    whys = Counter(r.why for r in rounds if r.why is not None)
    return DraftArm(
        temperature=temperature,
        depth=name,
        tokens=sums.tokens,
        passes=passes,
        tokens_per_pass=sums.tokens / passes,
        acceptance=shares(accepted, drafted),
        tokens_per_second=sums.tokens_per_second,
        ratio=sums.tokens_per_second / plain_per_second if plain_per_second else 0.0,
        cpu_ms=1000 * played.cpu_s / max(played.cpu_tokens, 1),
        draft_ms=sum(r.draft_ms for r in rounds) / passes,
        verify_ms=sum(r.verify_ms for r in rounds) / passes,
        host_ms=sum(r.accept_ms + r.host_ms for r in rounds) / passes,
        depths=dict(sorted(Counter(r.drafted for r in rounds).items())),
        why=whys.most_common(1)[0][0] if whys else None,
    )
