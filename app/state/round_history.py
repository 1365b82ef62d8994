"""Keeps the rounds and answers of a chat and says what drafting did in them."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlx_engine.values.errors import Reason
from mlx_engine.values.stats import GenerationStats, RoundStats, plain_is_faster


@dataclass(frozen=True, slots=True)
class DepthRow:
    """How often a token was drafted at `depth`, and how often it was accepted."""

    depth: int
    accepted: int
    drafted: int

    @property
    def share(self) -> float:
        """Acceptance, 0 to 1."""
        return self.accepted / self.drafted if self.drafted else 0.0


@dataclass(frozen=True, slots=True)
class Stages:
    """Milliseconds by stage, summed over rounds."""

    draft_ms: float = 0.0
    verify_ms: float = 0.0
    accept_ms: float = 0.0
    host_ms: float = 0.0

    def plus(self, stats: RoundStats | GenerationStats) -> "Stages":
        """With a round or a whole answer more."""
        return Stages(
            self.draft_ms + stats.draft_ms,
            self.verify_ms + stats.verify_ms,
            self.accept_ms + stats.accept_ms,
            self.host_ms + stats.host_ms,
        )

    @property
    def total_ms(self) -> float:
        """All stages."""
        return self.draft_ms + self.verify_ms + self.accept_ms + self.host_ms


@dataclass(frozen=True, slots=True)
class Gain:
    """Tokens per second of rounds that drafted and of plain rounds, in this chat."""

    drafted: float
    plain: float

    @property
    def ratio(self) -> float:
        """Above 1 drafting is faster."""
        return self.drafted / self.plain


@dataclass(frozen=True, slots=True)
class DraftingNow:
    """The newest round of an answer that is being written; depth None before its first one.

    why: the reason when the depth is not as asked. auto_depth: what the automatic choice would be,
    None when it is not known. plain_is_faster: drafting does not pay here.
    """

    depth: int | None
    why: Reason | None = None
    auto_depth: int | None = None
    plain_is_faster: bool = False


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What drafting did in an answer that is over; deepest: most tokens drafted in a round.

    why: the newest reason, of an answer in which nothing was drafted. plain_is_faster: as in
    DraftingNow, at its end.
    """

    deepest: int
    drafted: int
    accepted: int
    why: Reason | None = None
    plain_is_faster: bool = False


DraftingState = DraftingNow | LastAnswer | None
"""None before the first answer."""


POINTS = 240
"""Rounds shown over time."""

ENOUGH_PLAIN_TOKENS = 8
"""Tokens decoded plainly before a gain is called measured."""


@dataclass(slots=True)
class _Pace:
    """Tokens and the milliseconds they took."""

    tokens: int = 0
    milliseconds: float = 0.0

    def add(self, tokens: int, milliseconds: float) -> None:
        self.tokens += tokens
        self.milliseconds += milliseconds

    @property
    def per_second(self) -> float:
        return 1000 * self.tokens / self.milliseconds if self.milliseconds else 0.0


ENOUGH_TOKENS = 32
"""Of rounds with one value of a setting, before its speed is told."""


class SpeedBySetting:
    """How fast rounds that drafted were, by the value that a setting had in them."""

    def __init__(self) -> None:
        self._paces: dict[str, _Pace] = {}

    def add(self, value: str, rounds: Iterable[RoundStats]) -> None:
        """Take rounds; those in which nothing was asked of the draft source are left out."""
        pace = self._paces.setdefault(value, _Pace())
        for stats in rounds:
            if stats.depth:
                pace.add(stats.emitted, stats.total_ms)

    @property
    def known(self) -> dict[str, float]:
        """Value -> tokens per second, of those with enough rounds to tell."""
        paces = self._paces.items()
        return {value: pace.per_second for value, pace in paces if pace.tokens >= ENOUGH_TOKENS}


class RoundHistory:
    """Figures of one chat. past: its finished answers from before, oldest first.

    `begin_answer`, then `add` its rounds as they come, then `end_answer`. state: what is in effect
    in the answer of now, or was in the last one that has a word. stages: milliseconds by stage.
    """

    def __init__(self, past: Sequence[GenerationStats] = ()) -> None:
        self.state: DraftingState = None
        self._before: DraftingState = None
        self.stages = Stages()
        self._emitted: deque[int] = deque(maxlen=POINTS)
        self._acceptance: deque[float | None] = deque(maxlen=POINTS)  # None where none was drafted
        self._last_mean = 0.0
        self._drafted: Counter[int] = Counter()  # depth, from 1 -> tokens
        self._accepted: Counter[int] = Counter()
        self._pace_drafted, self._pace_plain = _Pace(), _Pace()
        self._reasons: dict[str, Reason] = {}
        self._answer: list[RoundStats] = []
        for stats in past:
            self._remember(stats)

    def begin_answer(self) -> None:
        """An answer is being written from now on."""
        self._answer = []
        self._before, self.state = self.state, DraftingNow(None)

    def add(self, rounds: Iterable[RoundStats]) -> None:
        """Take rounds in their order."""
        for stats in rounds:
            self._emitted.append(stats.emitted)
            self._acceptance.append(stats.accepted / stats.drafted if stats.drafted else None)
            self._answer.append(stats)
            self._drafted.update(range(1, stats.drafted + 1))
            self._accepted.update(range(1, stats.accepted + 1))
            pace = self._pace_drafted if stats.drafted else self._pace_plain
            pace.add(stats.emitted, stats.total_ms)
            self.stages = self.stages.plus(stats)
            if stats.why is not None:
                self._reasons[stats.why.code] = stats.why
            self.state = DraftingNow(
                stats.depth, stats.why, stats.auto_depth, plain_is_faster([stats])
            )

    def end_answer(self) -> None:
        """It is over."""
        rounds, self._answer = self._answer, []
        if not rounds:
            self.state = self._before
            return
        self._last_mean = sum(r.emitted for r in rounds) / len(rounds)
        drafted = sum(r.drafted for r in rounds)
        self.state = LastAnswer(
            max(r.drafted for r in rounds),
            drafted,
            sum(r.accepted for r in rounds),
            rounds[-1].why if not drafted else None,
            plain_is_faster(rounds),
        )

    def _remember(self, stats: GenerationStats) -> None:
        """Add a whole answer of which only sums are known."""
        pace = self._pace_drafted if stats.drafted else self._pace_plain
        if stats.tokens_per_second:
            pace.add(
                stats.generated_tokens, 1000 * stats.generated_tokens / stats.tokens_per_second
            )
        self._drafted.update(dict(enumerate(stats.drafted_by_depth, 1)))
        self._accepted.update(dict(enumerate(stats.accepted_by_depth, 1)))
        self.stages = self.stages.plus(stats)
        if stats.passes:
            self._last_mean = stats.tokens_per_pass
        self.state = LastAnswer(
            len(stats.drafted_by_depth),
            stats.drafted,
            stats.accepted,
            plain_is_faster=stats.plain_is_faster,
        )

    @property
    def depths(self) -> tuple[DepthRow, ...]:
        """One row a depth that was ever drafted."""
        drafted, accepted = self._drafted, self._accepted
        return tuple(DepthRow(d, accepted[d], drafted[d]) for d in range(1, len(drafted) + 1))

    @property
    def drafted(self) -> int:
        """Tokens drafted in all."""
        return self._drafted.total()

    @property
    def accepted(self) -> int:
        """Tokens accepted in all."""
        return self._accepted.total()

    @property
    def tokens_per_pass_over_time(self) -> tuple[int, ...]:
        """Tokens each recent pass of the model gave."""
        return tuple(self._emitted)

    @property
    def tokens_per_pass(self) -> float:
        """Mean over the recent passes; before there are any, of the last answer."""
        if self._emitted:
            return sum(self._emitted) / len(self._emitted)
        return self._last_mean

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every reason given for not drafting as asked, newest words of each."""
        return tuple(self._reasons.values())

    @property
    def depth_in_use(self) -> int:
        """Of the newest round, of the last answer when none is being written."""
        match self.state:
            case DraftingNow():
                return self.state.depth or 0
            case LastAnswer():
                return self.state.deepest
        return 0

    @property
    def gain(self) -> Gain | None:
        """Measured gain of drafting; None before both kinds of rounds have run a while."""
        drafted, plain = self._pace_drafted.per_second, self._pace_plain.per_second
        if self._pace_plain.tokens < ENOUGH_PLAIN_TOKENS or not (drafted and plain):
            return None
        return Gain(drafted, plain)
