"""Drafted against plain text, then its speed by depth, and how far rules come to the bound.

The bound is that of rejection sampling, along the target's own text.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.bench.report import AcceptanceReport, Agreement, DraftArm, DraftingReport, Plan
from mlx_engine.bench.subject import PLAIN, SEED, chat_prompts, open_answer, pinned
from mlx_engine.engine import Engine
from mlx_engine.sampling.logit_filters import filter_tempered, temper
from mlx_engine.sampling.position_noise import gumbel_noise
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions, DraftRule, SamplingOptions
from mlx_engine.values.stats import RoundStats, count_by_depth

TEMPERATURES = (0.0, 0.8)
DEPTHS = (1, 3)
SAMPLED = TEMPERATURES[1]
PLAYED_DEPTH = 3
ROWS = 32
"""Positions looked at together; a large vocabulary makes rows of a megabyte."""

ARMS = {"0": pinned(0), "1": pinned(1), "2": pinned(2), "3": pinned(3), "auto": DraftOptions()}


def check_agreement(engine: Engine, prompts: Sequence[Sequence[int]], tokens: int) -> Agreement:
    """Compare texts of `tokens` tokens at every temperature and depth."""
    texts = compared = 0
    for prompt in prompts:
        for temperature in TEMPERATURES:
            sampling = SamplingOptions(temperature=temperature, seed=SEED)
            plain = engine.generate(prompt, tokens, sampling, PLAIN, ignore_eos=True).tokens
            for depth in DEPTHS:
                draft = pinned(depth)
                drafted = engine.generate(prompt, tokens, sampling, draft, ignore_eos=True).tokens
                texts += 1
                compared += len(plain)
                if drafted != plain:
                    at = common_beginning(plain, drafted)
                    words = f"token {at} differs at temperature {temperature:g}, depth {depth}"
                    return Agreement(texts, compared, words)
    return Agreement(texts, compared, None)


def common_beginning(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two texts share before they part."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))


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


def measure_drafting(engine: Engine, plan: Plan) -> DraftingReport:
    """Every prompt at every depth before the next prompt, so that all depths share the weather."""
    costs = engine.pass_costs
    prompts = chat_prompts(engine, plan.draft_prompts)
    arms: list[DraftArm] = []
    for temperature in TEMPERATURES:
        sampling = SamplingOptions(temperature=temperature, seed=SEED)
        played = {name: Played([], 0.0, 0) for name in ARMS}
        for number, prompt in enumerate(prompts):
            for name in list(ARMS)[:: 1 if number % 2 == 0 else -1]:
                played[name] += play(engine, prompt, plan.draft_tokens, sampling, ARMS[name])
        plain = speed(played["0"].rounds)
        arms += [arm_of(temperature, name, found, plain) for name, found in played.items()]
    return DraftingReport(len(prompts), tuple(arms), costs.verify_ms, costs.draft_ms)


def play(
    engine: Engine,
    prompt: Sequence[int],
    tokens: int,
    sampling: SamplingOptions,
    draft: DraftOptions,
) -> Played:
    """One answer, which may end by itself."""
    answer = open_answer(engine, prompt, tokens, sampling, draft, ignore_eos=False)
    rounds: list[RoundStats] = []
    started = process_time()
    for event in answer.events():
        if isinstance(event, RoundFinished):
            rounds.append(event.stats)
            if len(rounds) == 1:
                started = process_time()
    return Played(rounds, process_time() - started, sum(r.emitted for r in rounds[1:]))


def speed(rounds: Sequence[RoundStats]) -> float:
    """Tokens per second, 0 when nothing was played."""
    milliseconds = sum(r.total_ms for r in rounds)
    return 1000 * sum(r.emitted for r in rounds) / milliseconds if milliseconds else 0.0


def arm_of(temperature: float, name: str, played: Played, plain_per_second: float) -> DraftArm:
    """The figures of one depth; plain_per_second: those of depth 0 in the same run."""
    rounds = played.rounds
    passes = len(rounds)
    tokens, per_second = sum(r.emitted for r in rounds), speed(rounds)
    drafted = count_by_depth(r.drafted for r in rounds)
    accepted = count_by_depth(r.accepted for r in rounds)
    whys = Counter(r.why for r in rounds if r.why is not None)
    return DraftArm(
        temperature=temperature,
        depth=name,
        tokens=tokens,
        passes=passes,
        tokens_per_pass=tokens / passes,
        acceptance=shares(accepted, drafted),
        tokens_per_second=per_second,
        ratio=per_second / plain_per_second if plain_per_second else 0.0,
        cpu_ms=1000 * played.cpu_s / max(played.cpu_tokens, 1),
        draft_ms=sum(r.draft_ms for r in rounds) / passes,
        verify_ms=sum(r.verify_ms for r in rounds) / passes,
        host_ms=sum(r.accept_ms + r.host_ms for r in rounds) / passes,
        depths=dict(sorted(Counter(r.drafted for r in rounds).items())),
        why=whys.most_common(1)[0][0] if whys else None,
    )


def shares(accepted: Sequence[int], drafted: Sequence[int]) -> tuple[float, ...]:
    """accepted[d] / drafted[d]; `accepted` may be shorter."""
    padded = [*accepted, *([0] * (len(drafted) - len(accepted)))]
    return tuple(a / d for a, d in zip(padded, drafted, strict=True))


class Chances(NamedTuple):
    """Sums over positions (see AcceptanceReport)."""

    positions: int = 0
    bound: float = 0.0
    shared_noise: float = 0.0
    greedy: float = 0.0
    independent: float = 0.0


def _sum(found: Iterable[Chances]) -> Chances:
    return Chances(*(sum(parts) for parts in zip(*found, strict=True)))


def measure_acceptance(engine: Engine, plan: Plan) -> AcceptanceReport:
    """First drafts by teacher forcing, chains by playing."""
    prompts = chat_prompts(engine, plan.acceptance_prompts)
    sampling = SamplingOptions(temperature=SAMPLED, seed=SEED)
    texts = [engine.generate(one, plan.draft_tokens, sampling, PLAIN).tokens for one in prompts]
    total = _sum(
        first_draft_chances(engine, prompt, text, plan.acceptance_draws)
        for prompt, text in zip(prompts, texts, strict=True)
    )
    many = max(total.positions, 1)
    return AcceptanceReport(
        temperature=SAMPLED,
        positions=total.positions,
        draws=plan.acceptance_draws,
        bound=total.bound / many,
        shared_noise=total.shared_noise / many,
        greedy=total.greedy / many,
        independent=total.independent / many,
        played_shared_noise=_played(engine, prompts, plan, sampling, "shared-noise"),
        played_greedy=_played(engine, prompts, plan, sampling, "greedy"),
    )


def first_draft_chances(
    engine: Engine, prompt: Sequence[int], text: Sequence[int], draws: int
) -> Chances:
    """For every token of `text` after the first: target row t + 1 against head row t."""
    tokens = [*prompt, *text]
    if len(text) < 2:
        return Chances()
    first = len(prompt) - 1  # the head's row for text[1], from the prompt's last state and text[0]
    target = mx.array(engine.logits(tokens)[first + 1 : -1])
    head = mx.array(engine.draft_logits(tokens)[0][first:-1])
    positions = range(first + 2, first + 2 + target.shape[0])
    return _sum(
        chances(target[some], head[some], positions[some], draws)
        for some in (slice(start, start + ROWS) for start in range(0, target.shape[0], ROWS))
    )


def chances(target: mx.array, head: mx.array, positions: Sequence[int], draws: int) -> Chances:
    """Sums over rows of logits [R, V]; `positions` name the noise of each row."""
    wanted, guessed = (filter_tempered(temper(logits, SAMPLED)) for logits in (target, head))
    p, q = (mx.softmax(logits, axis=-1) for logits in (wanted, guessed))
    likeliest = mx.argmax(head, axis=-1, keepdims=True)
    same = mx.array(0.0)
    for seed in range(draws):
        noise = gumbel_noise(seed, positions, target.shape[1])
        picks = (mx.argmax(logits + noise, axis=-1) for logits in (wanted, guessed))
        same = same + mx.sum(next(picks) == next(picks)) / draws
        mx.eval(same)
    return Chances(
        positions=len(positions),
        bound=float(mx.sum(mx.minimum(p, q))),
        shared_noise=float(same),
        greedy=float(mx.sum(mx.take_along_axis(p, likeliest, axis=-1))),
        independent=float(mx.sum(p * q)),
    )


def _played(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    plan: Plan,
    sampling: SamplingOptions,
    rule: DraftRule,
) -> tuple[float, ...]:
    draft = DraftOptions(depth=PLAYED_DEPTH, rule=rule)
    played = Played([], 0.0, 0)
    for prompt in prompts:
        played += play(engine, prompt, plan.draft_tokens, sampling, draft)
    return arm_of(SAMPLED, str(PLAYED_DEPTH), played, 0.0).acceptance
