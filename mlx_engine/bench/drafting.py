"""Whether drafted text equals plain text, and then its speed by depth and temperature."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

from mlx_engine.bench.report import Agreement, DraftArm, DraftingReport, Plan
from mlx_engine.bench.subject import PLAIN, SEED, chat_prompts, open_answer, pinned
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import DraftOptions, SamplingOptions
from mlx_engine.values.stats import RoundStats, count_by_depth

TEMPERATURES = (0.0, 0.8)
DEPTHS = (1, 3)
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
