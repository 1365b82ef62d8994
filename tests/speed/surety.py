"""What drafts that end by the surety of their own tokens could win over `auto`, at the most.

    PYTHONPATH=.:tests:tests/helpers python tests/speed/surety.py [--model FOLDER]

The number of rows of the target's pass has to be known when the pass is written, so surety that
ends a draft has to be read before: once, when all tokens are drafted, or after each token. Either
way the device waits for a reading and, behind the last one, for the pass to be written, which else
happens while it works. On a CPU a pass of 64 layers takes 6 ms to write (idle_time.py); `ms` is
what one such wait costs.

The rule that ends a draft is the best there is: it knows each token's chance from the surety's own
calibration, what rows and head passes cost, and the speed that the text reaches in the end. Texts
are drawn with chances whose logarithms of odds vary with the token, of which surety tells all
(sharp), most or half, or recorded from a model (the built-in one without --model), at every
position of its texts.

Found over `auto`, for four Macs, five kinds of text with three of surety each, and the built-in
model at two temperatures, median and range: read once +1.4 % (-1 to 7) where a wait costs nothing,
-0.1 % (-6 to 5) at 0.5 ms, -3.9 % (-19 to 0.5) at 2 ms; after each token +3.4 % (-1 to 13), -2.1 %
(-12 to 5), -12.7 % (-37 to 0). So `auto` does not read surety, and min_probability is the user's
setting.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple
from unittest.mock import patch

import mlx.core as mx
import numpy as np
from draft_simulator import CODE, MACHINES, PROSE, Machine, Text, auto, fixed
from numpy.typing import NDArray

import mlx_engine
from mlx_engine.decoding.round import Round
from mlx_engine.sampling.sampler import DraftPicks
from mlx_engine.values.options import MAX_DEPTH, DraftOptions, SamplingOptions

TOKENS, BINS, SPREAD = 1500, 20, 3.0
TEXTS = {
    "prose": PROSE,
    "middling": [0.8 * 0.9**depth for depth in range(MAX_DEPTH)],
    "steady": [0.75] * MAX_DEPTH,
    "code": CODE,
    "easy": [0.94] * MAX_DEPTH,
}
NOISES = {"sharp": 0.0, "usual": 0.6, "dull": 1.2}
MACS = ("27B M5 Max", "27B M4 Pro, ours", "35B-A3B M5 Max", "4B M5 Max")
PROMPTS = ("def fibonacci(n):", "What does os.path.join do?", "Raises ValueError if", "class A:")


class Sure(NamedTuple):
    """runs: drafted tokens that would be accepted at each position; chances: of each drafted token
    by position and depth, as its surety tells them.
    """

    runs: NDArray[np.int64]
    chances: NDArray[np.float64]


def calibrated(runs: NDArray[np.int64], surety: NDArray[np.float64]) -> Sure:
    """Chances are the acceptance of tokens about as sure, where those before them were accepted."""
    chances = np.zeros(surety.shape)
    for depth in range(MAX_DEPTH):
        reached = runs >= depth
        edges = np.quantile(surety[reached, depth], np.linspace(0, 1, BINS + 1)[1:-1])
        bins = np.digitize(surety[:, depth], edges)
        for number in range(BINS):
            alike = bins == number
            tried = alike & reached
            chances[alike, depth] = (runs[tried] > depth).mean() if tried.any() else 0.0
    return Sure(runs, chances)


def drawn(by: list[float], noise: float, seed: int = 0) -> Sure:
    """A text with mean chances by depth; odds are the token's own more than the depth's."""
    draw = np.random.default_rng(seed)
    token = draw.standard_normal(TOKENS + MAX_DEPTH)
    ahead = np.arange(TOKENS)[:, None] + np.arange(MAX_DEPTH)
    odds = SPREAD * (0.7**0.5 * token[ahead] + 0.3**0.5 * draw.standard_normal(ahead.shape))
    levels = np.linspace(-12, 12, 481)
    means = (1 / (1 + np.exp(-(levels[:, None] + odds.reshape(-1)[:4000])))).mean(axis=1)
    odds += np.interp(by, means, levels)
    accepted = draw.random(TOKENS + MAX_DEPTH)[ahead] < 1 / (1 + np.exp(-odds))
    surety = odds + noise * SPREAD * draw.standard_normal(odds.shape)
    return calibrated(np.cumprod(accepted, axis=1).sum(axis=1), surety)


def recorded(model: str | None, temperature: float) -> Sure:
    """Each position of a model's texts drafts MAX_DEPTH tokens, and goes on by one."""
    rounds: list[tuple[int, list[float]]] = []
    probabilities: list[float] = []
    read = Round.await_outcome

    def whole(picks: DraftPicks) -> mx.array:
        probabilities[:] = mx.concatenate(picks._probabilities).tolist()
        return picks._prefix

    def one(round_: Round) -> tuple[int, ...]:
        tokens = read(round_)
        if round_.depth == MAX_DEPTH:
            rounds.append((len(tokens) - 1, [*probabilities]))
        return tokens[:1]

    with (
        mlx_engine.load(model) as engine,
        patch.object(DraftPicks, "tokens", whole),
        patch.object(Round, "read", one),
    ):
        for seed, prompt in enumerate(PROMPTS):
            sampling = SamplingOptions(temperature=temperature, seed=seed)
            draft = DraftOptions(depth=MAX_DEPTH, min_probability=1e-30)
            engine.generate(prompt, max_tokens=256, ignore_eos=True, draft=draft, sampling=sampling)
    runs, surety = zip(*rounds, strict=True)
    return calibrated(np.array(runs), np.array(surety))


def played(
    machine: Machine, text: Sure, speed: float, deepest: int, wait: float, each: bool
) -> float:
    """Milliseconds of a text, at a wait after `each` token or one behind a draft of `deepest`.

    speed: tokens a millisecond, which rows and waits have to be worth.
    """
    costs, (runs, chances) = machine.rounds, text
    means = [(runs > depth).sum() / max(1, (runs >= depth).sum()) for depth in range(MAX_DEPTH)]
    ms, place = 0.0, 0
    while place < len(runs):
        reach, tokens, best, most, drafted = 1.0, 1.0, 0, 1 - speed * costs.pass_ms(1), 0
        while drafted < deepest:
            if each:
                hoped, sum_, value = reach, tokens, most
                for depth in range(drafted, deepest):
                    hoped *= means[depth]
                    sum_ += hoped
                    more = costs.drafting_ms(depth + 1) - costs.drafting_ms(drafted)
                    more += costs.pass_ms(depth + 2) + wait * (depth + 1 - drafted)
                    value = max(value, sum_ - speed * more)
                if value <= most:
                    break
            reach *= chances[place, drafted]
            tokens, drafted = tokens + reach, drafted + 1
            worth = tokens - speed * costs.pass_ms(drafted + 1)
            if worth > most:
                best, most = drafted, worth
        waits = drafted if each else min(1, deepest)
        ms += costs.drafting_ms(drafted) + wait * waits + costs.pass_ms(best + 1)
        place += min(best, runs[place]) + 1
    return ms * len(runs) / place


def fastest(machine: Machine, text: Sure, wait: float, each: bool) -> float:
    """Milliseconds at the speed that is reached, and at the best number of drafted tokens."""
    found = []
    for deepest in (MAX_DEPTH,) if each else range(MAX_DEPTH + 1):
        ms = machine.rounds.verify_ms[0] * len(text.runs)
        for _ in range(3):
            ms = played(machine, text, len(text.runs) / ms, deepest, wait, each)
        found.append(ms)
    return min(found)


def texts(model: str | None) -> Iterator[tuple[str, Sure]]:
    """Those that are drawn, then those of a model."""
    for name, by in TEXTS.items():
        for surety, noise in NOISES.items():
            yield f"{name}, {surety}", drawn(list(by), noise)
    for temperature in (0.0, 0.8):
        yield f"recorded at {temperature}", recorded(model, temperature)


def main() -> None:
    """A line for each text and machine: what is won over auto by each way to read surety."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model")
    ways = [(each, wait) for each in (False, True) for wait in (0.0, 0.5, 2.0)]
    won: dict[tuple[bool, float], list[float]] = {way: [] for way in ways}
    for title, text in texts(parser.parse_args().model):
        runs = Text(text.runs.tolist(), text.chances)
        for name in MACS:
            machine = MACHINES[name]
            now = np.mean([auto(machine, runs, seed, 1).ms for seed in (0, 1)])
            gains = {(e, w): now / fastest(machine, text, w, e) - 1 for e, w in ways}
            told = (f"{'each' if e else 'once'} {w} ms {g:+.1%}" for (e, w), g in gains.items())
            print(f"{title}, {name}: auto {fixed(machine, runs, 0).ms / now:.2f} times off;", *told)
            for way, gain in gains.items():
                won[way].append(gain)
    for (each, wait), gains_ in won.items():
        low, middle, high = np.quantile(gains_, [0, 0.5, 1])
        way = "after each token" if each else "once"
        print(f"{way}, {wait} ms: median {middle:+.1%}, {low:+.1%} to {high:+.1%}")


if __name__ == "__main__":
    main()
