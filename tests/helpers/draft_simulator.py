"""Answers by figures alone: the real choice of depths on machines and texts that are numbers.

A text is known by its runs: for each position, how many drafted tokens in a row would be accepted
there. That does not depend on what was drafted before, since heads read true hidden states only. So
every policy can be played on the same text, and its time added up from what rounds cost.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlx_engine.drafting.contract import ROWS_AFTER_PAUSE, BatchLimits, DraftChoice, DraftOffer
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.record import ConcurrentChats, DraftRecords, PassCosts
from mlx_engine.values.options import MAX_DEPTH

TRACES = Path(__file__).with_name("acceptance_traces.json")
"""Runs recorded from the pocket model and from a trained toy, at temperatures 0 and 0.8."""

NOISE = 0.06
"""Standard deviation of the logarithm of a round's time."""

SPIKES = 0.01
"""Share of rounds that take five times as long."""

DRIFT = 0.3
"""The same of a machine that becomes slower and faster, about its usual speed."""

DRIFT_ROUNDS = 300
"""Rounds after which little is left of what it was."""

MIXED = (0.125, 0.5, 0.875)
"""Shares of a round's time that are told as that of the round before it: on a GPU queueing a round
can block until most of it has run.
"""

UNSEEN = 0.9
"""What a pass timed alone takes of the same pass in a round, where text and sampling run too."""

WINDOW = 48
"""Positions around one whose runs tell what to expect there."""


class Machine(NamedTuple):
    """rounds: what they really cost, as passes of 1 to 9 rows and of a head. host_ms: what of a
    round a pass timed alone does not show, whatever its rows; else it is a share of it.
    """

    rounds: PassCosts
    host_ms: float = 0.0


def reading_ms(machine: Machine, rows: int) -> float:
    """What the head takes longer for rows that have waited: as much as the target, in the
    proportion of their passes, but that half of a head's pass is its output head.
    """
    further = (machine.rounds.verify_ms[-1] - machine.rounds.verify_ms[0]) / MAX_DEPTH
    return (
        min(rows, ROWS_AFTER_PAUSE)
        * further
        * machine.rounds.draft_ms
        / machine.rounds.verify_ms[0]
        / 2
    )


def _machine(draft_ms: float, *verify_ms: float) -> Machine:
    """The last two passes go on as those before did, where fewer than nine are known."""
    known = list(verify_ms)
    while len(known) < MAX_DEPTH + 1:
        known.append(2 * known[-1] - known[-2])
    return Machine(PassCosts(tuple(known), draft_ms))


def _between(draft_ms: float, **known: float) -> Machine:
    """Passes of some widths (`r4=39.4`), the others on lines between them."""
    rows = [int(name[1:]) for name in known]
    verify = np.interp(np.arange(1, MAX_DEPTH + 2), rows, list(known.values()))
    return Machine(PassCosts(tuple(verify.tolist()), draft_ms))


MACHINES = {
    # measured by others on Macs (4 bits, stock MLX)
    "27B M1 Ultra": _between(3.4, r1=43.6, r2=75.7, r3=106.2, r4=135.5, r8=244, r9=275),
    "27B M5 Max": _between(2.7, r1=30.7, r4=39.4, r8=75.7, r9=85),
    "27B M5 Max, 16-bit head": _between(10.7, r1=30.7, r4=39.4, r8=75.7, r9=85),
    # of a model of MLX's kernels and ours fitted to published times, at 4,096 tokens: not measured
    "27B M1 Max, stock": _machine(3.1, 50.4, 52.7, 76.1, 99.5, 122.8, 199.5, 199.5, 199.5),
    "27B M4 Pro, ours": _machine(4.5, 70.0, 70.5, 71.4, 75.4, 87.7, 99.9, 120.4, 133.8),
    "35B-A3B M1 Max": _machine(1.1, 8.6, 10.5, 12.4, 14.9, 17.3, 19.8, 22.6, 25.0),
    "35B-A3B M5 Max": _machine(0.8, 6.5, 7.8, 9.1, 10.6, 12.2, 13.8, 15.6, 17.1),
    "9B M4 Pro": _machine(3.3, 22.4, 22.4, 22.7, 23.9, 27.7, 31.6, 37.9, 42.1),
    "4B M1 Max, stock": _machine(1.5, 10.1, 10.7, 14.7, 18.6, 22.6, 34.5, 35.1, 35.6),
    "4B M5 Max": _machine(1.0, 6.4, 6.4, 6.6, 7.4, 8.4, 9.5, 11.2, 12.3),
    "GLM-Air M1 Max": _machine(1.8, 30.4, 45.0, 58.9, 74.2, 89.1, 103.6, 119.2, 132.9),
    # toys on two CPU cores, where small operations count and not their rows
    "toy, CPU": _machine(1.5, 3.8, 5.4, 6.0, 6.6, 7.4, 8.0, 8.8, 9.4),
    "pocket model, CPU": _machine(2.0, 9.0, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5, 18.5),
    "pocket model, packed": _machine(1.3, 5.9, 8.9, 10.4, 13.3, 15.4, 17.6, 19.8, 22.2),
    "pocket model, at once": _machine(0.9, 2.9, 5.5, 6.6, 8.0, 9.7, 11.4)._replace(host_ms=0.8),
    # such as nothing can pay on
    "hopeless": _machine(2.0, *(10.0 * row for row in range(1, 10))),
}


class Text(NamedTuple):
    """runs: drafted tokens that would be accepted at each position; chances: by position and depth,
    that the d-th is accepted where those before it were, as far as anybody could know.
    """

    runs: Sequence[int]
    chances: np.ndarray


def synthetic(*phases: tuple[Sequence[float], int], seed: int = 0) -> Text:
    """Phases of (chance by depth, tokens), one after the other."""
    draw = np.random.default_rng(seed)
    chances = np.concatenate([np.tile(np.array(by, dtype=float), (n, 1)) for by, n in phases])
    stands = draw.random(chances.shape) < chances
    return Text(np.cumprod(stands, axis=1).sum(axis=1).tolist(), chances)


def recorded(runs: Sequence[int]) -> Text:
    """Chances are means over WINDOW positions around each."""
    reached = np.array([[run >= depth for depth in range(MAX_DEPTH)] for run in runs], dtype=float)
    stood = np.array([[run > depth for depth in range(MAX_DEPTH)] for run in runs], dtype=float)
    kernel = np.ones(min(WINDOW, len(runs)))
    chances = np.empty(reached.shape)
    for depth in range(MAX_DEPTH):
        tried = np.convolve(reached[:, depth], kernel, "same")
        good = np.convolve(stood[:, depth], kernel, "same")
        chances[:, depth] = good / np.maximum(tried, 1)
    return Text(list(runs), chances)


def recordings() -> dict[str, Text]:
    """Every recorded text: a digit for each position."""
    rows: dict[str, list[str]] = json.loads(TRACES.read_text(encoding="utf-8"))
    return {
        f"{name} {n}": recorded([int(digit) for digit in runs])
        for name, texts in rows.items()
        for n, runs in enumerate(texts)
    }


def _same(chance: float) -> list[float]:
    return [chance] * MAX_DEPTH


def _falling(first: float, ratio: float) -> list[float]:
    return [first * ratio**depth for depth in range(MAX_DEPTH)]


PROSE, CODE, HARD = _falling(0.55, 0.8), _falling(0.92, 0.95), _same(0.1)


def texts(tokens: int = 1200) -> dict[str, Text]:
    """Synthetic ones: steady, and such as change from prose to code and back."""
    third = tokens // 3
    return {
        "nothing is accepted": synthetic((_same(0.0), tokens)),
        "hard": synthetic((HARD, tokens)),
        "prose": synthetic((PROSE, tokens)),
        "code": synthetic((CODE, tokens)),
        "all is accepted": synthetic((_same(1.0), tokens)),
        "first only": synthetic(([0.9] + [0.1] * (MAX_DEPTH - 1), tokens)),
        "prose, code, prose": synthetic((PROSE, third), (CODE, third), (PROSE, third)),
        "hard, code, hard": synthetic((HARD, third), (CODE, third), (HARD, third)),
        "code, hard, code": synthetic((CODE, third), (HARD, third), (CODE, third)),
        "by the page": synthetic(*[(by, tokens // 8) for _ in range(4) for by in (CODE, HARD)]),
    }


class Played(NamedTuple):
    """Milliseconds of a text, and the depths that were drafted."""

    ms: float
    depths: list[int]


def fixed(machine: Machine, text: Text, depth: int) -> Played:
    """One depth throughout; 0 is drafting off."""
    return _played(machine, text, lambda _: depth)


def oracle(machine: Machine, text: Text) -> Played:
    """The depth that is best in mean at each position, by chances that nobody is told."""
    gains = np.cumsum(np.cumprod(text.chances, axis=1), axis=1) + 1
    tokens = np.concatenate([np.ones((len(text.runs), 1)), gains], axis=1)
    cost = np.array([machine.rounds.round_ms(depth) for depth in range(MAX_DEPTH + 1)])
    best = (tokens / cost).argmax(axis=1)
    return _played(machine, text, lambda place: int(best[place]))


class Outcome(NamedTuple):
    """What the policy learns from a round: its choice, tokens accepted, milliseconds."""

    choice: DraftChoice
    accepted: int
    ms: float


def planned(policy: DepthPolicy, before: DraftChoice | None) -> DraftChoice:
    """The policy's next choice, as a chat with MTP heads asks for it."""
    return policy.plan_round((DraftOffer("mtp"),), "auto", None)


def auto(
    machine: Machine,
    text: Text,
    seed: int = 0,
    ahead: int = 0,
    known: DraftRecords | None = None,
    drift: float = 0.0,
    costs: PassCosts | None = None,
    mixed: float = 0.0,
) -> Played:
    """As the engine chooses: costs measured at load, noisily and alone, then its own rounds.

    ahead: rounds that are chosen before it is known what became of a round. known: what texts
    before this one have found. drift: of the machine's speed while it answers. costs: in place of
    those measured. mixed: the share of a round's time that is told as that of the round before it,
    as where queueing a round blocks until most of it has run; with a round planned ahead.
    """
    draw = np.random.default_rng(seed)
    passes = costs or measured(machine, draw)
    policy = DepthPolicy(lambda: passes, records=known)
    policy.begin_text()
    clock, choice = noise(draw, drift), None

    unknown = list[Outcome]()
    place, waiting, spent, depths = 0, 0, 0.0, list[int]()
    while place < len(text.runs):
        choice = planned(policy, choice)
        depth = choice.depth
        accepted = min(depth, text.runs[place])
        ms = machine.rounds.round_ms(depth) + (reading_ms(machine, waiting) if depth else 0.0)
        waiting = 0 if depth else waiting + 1
        spent += ms
        unknown.append(Outcome(choice, accepted, ms * next(clock)))
        if len(unknown) > ahead:
            known_now = unknown.pop(0)
            following_ms = unknown[0].ms if unknown else known_now.ms
            told_ms = (1 - mixed) * known_now.ms + mixed * following_ms
            policy.learn_round(
                known_now.choice, known_now.choice.depth, known_now.accepted, told_ms
            )
        place += accepted + 1
        depths.append(depth)
    return Played(spent * len(text.runs) / place, depths)


def measured(machine: Machine, draw: np.random.Generator) -> PassCosts:
    """What a few repeats find: the fastest of each pass is a little more than it can be."""
    truth, share = machine.rounds, 1.0 if machine.host_ms else UNSEEN
    alone = [share * ms - machine.host_ms for ms in truth.verify_ms]
    verify = [ms * (1 + abs(draw.normal(0, 0.04))) for ms in alone]
    return PassCosts(tuple(verify), share * truth.draft_ms, (), share * truth.per_chat_ms)


def noise(draw: np.random.Generator, drift: float = 0.0) -> Iterator[float]:
    """Factors of rounds' times."""
    left, slow = np.exp(-1 / DRIFT_ROUNDS), 0.0
    while True:
        spike = 5.0 if draw.random() < SPIKES else 1.0
        yield spike * float(np.exp(slow + draw.normal(0, NOISE)))
        slow = left * slow + np.sqrt(1 - left**2) * drift * draw.standard_normal()


def _played(machine: Machine, text: Text, choose: Callable[[int], int]) -> Played:
    place, spent, depths = 0, 0.0, list[int]()
    while place < len(text.runs):
        depth = choose(place)
        spent += machine.rounds.round_ms(depth)
        place += min(depth, text.runs[place]) + 1
        depths.append(depth)
    return Played(spent * len(text.runs) / place, depths)


BESIDE = 0.3
"""What a conversation more adds to a pass but for its rows, as a share of a pass of one row."""

MOST_ROWS = 16
"""Of a pass of several."""


class _Chat:
    """One of several that are answered at once."""

    def __init__(self, text: Text, policy: DepthPolicy) -> None:
        policy.begin_text()
        self.policy, self.runs = policy, text.runs
        self.choice: DraftChoice | None = None
        self.place = self.waiting = self.depth = 0

    def choose(self, limits: BatchLimits) -> DraftChoice:
        self.policy.set_batch(limits)
        self.choice = planned(self.policy, self.choice)
        self.depth = self.choice.depth
        return self.choice

    def go_on(self) -> int:
        """Past what was accepted of its draft: how many tokens that was."""
        accepted = min(self.depth, self.runs[self.place])
        self.place += accepted + 1
        self.waiting = 0 if self.depth else self.waiting + 1
        return accepted


def at_once(
    machine: Machine, texts: Sequence[Text], seed: int = 0, depth: int | None = None
) -> float:
    """Milliseconds a token of texts in passes that all of them share, until the first is at its
    end; at one depth or, None, as is chosen.
    """
    per_chat_ms = BESIDE * machine.rounds.verify_ms[0]
    machine = machine._replace(rounds=machine.rounds._replace(per_chat_ms=per_chat_ms))
    draw, known = np.random.default_rng(seed), DraftRecords()
    passes = measured(machine, draw)
    chats = [_Chat(text, DepthPolicy(lambda: passes, records=known)) for text in texts]
    clock, spent = noise(draw), 0.0
    many = len(chats)
    limits = BatchLimits(many - 1, MOST_ROWS // many - 1)
    while all(chat.place < len(chat.runs) for chat in chats):
        choices = [chat.choose(limits) for chat in chats]
        for chat in chats:
            chat.depth = chat.depth if depth is None else min(depth, limits.deepest)
        rows = sum(chat.depth + 1 for chat in chats)
        ms = machine.rounds.pass_ms(rows, many)
        for turn in range(max(chat.depth for chat in chats)):
            drafting = sum(chat.depth > turn for chat in chats)
            further = (drafting - 1) * machine.rounds.a_row_ms / machine.rounds.verify_ms[0]
            ms += machine.rounds.draft_ms * (1 + further)
        ms += sum(reading_ms(machine, chat.waiting) for chat in chats if chat.depth)
        spent += ms
        for chat, choice in zip(chats, choices, strict=True):
            others = ConcurrentChats(many - 1, rows - chat.depth - 1)
            drafted, accepted = chat.depth, chat.go_on()
            chat.policy.learn_round(choice, drafted, accepted, ms * next(clock), others)
    return spent / sum(chat.place for chat in chats)
