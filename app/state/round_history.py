"""Rounds and answers of one chat, and figures of what drafting did in them."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlx_engine.values.errors import Reason
from mlx_engine.values.stats import GenerationStats, RoundStats, plain_is_faster


@dataclass(frozen=True, slots=True)
class DepthRow:
    """How many tokens were drafted at `depth`, and how many of them were accepted."""

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
        """Return the sums with a round or a whole answer added."""
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
    """Tokens per second of drafted and of plain rounds in this chat."""

    drafted: float
    plain: float

    @property
    def ratio(self) -> float:
        """Speed of drafting over plain decoding; above 1 drafting is faster."""
        return self.drafted / self.plain


@dataclass(frozen=True, slots=True)
class DraftingNow:
    """The newest round of a running answer.

    depth: None before the first round. why: the reason if the depth is not as asked. auto_depth:
    depth of the automatic choice, None if not known. plain_is_faster: drafting is slower here.
    """

    depth: int | None
    why: Reason | None = None
    auto_depth: int | None = None
    plain_is_faster: bool = False


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What drafting did in the last answer.

    deepest: most tokens drafted in a round. why: the newest reason, if nothing was drafted.
    plain_is_faster: drafting was slower at its end.
    """

    deepest: int
    drafted: int
    accepted: int
    why: Reason | None = None
    plain_is_faster: bool = False


DraftingState = DraftingNow | LastAnswer | None
"""Drafting in a chat; None before the first answer."""


POINTS = 240
"""Rounds shown over time."""

ENOUGH_PLAIN_TOKENS = 8
"""Tokens decoded plainly before a gain counts as measured."""


@dataclass(slots=True)
class _Pace:
    """Tokens, and the milliseconds that they took."""

    tokens: int = 0
    milliseconds: float = 0.0

    def add(self, tokens: int, milliseconds: float) -> None:
        self.tokens += tokens
        self.milliseconds += milliseconds

    @property
    def per_second(self) -> float:
        return 1000 * self.tokens / self.milliseconds if self.milliseconds else 0.0


ENOUGH_TOKENS = 32
"""Tokens with one value of a setting before its speed is shown."""


class SpeedBySetting:
    """Speed of drafted rounds, by the value that a setting had in them."""

    def __init__(self) -> None:
        self._paces: dict[str, _Pace] = {}

    def add(self, value: str, rounds: Iterable[RoundStats]) -> None:
        """Add rounds, except those in which the draft source was not asked."""
        pace = self._paces.setdefault(value, _Pace())
        for stats in rounds:
            if stats.depth:
                pace.add(stats.emitted, stats.total_ms)

    @property
    def known(self) -> dict[str, float]:
        """Tokens per second by value, for values with enough rounds."""
        paces = self._paces.items()
        return {value: pace.per_second for value, pace in paces if pace.tokens >= ENOUGH_TOKENS}


class RoundHistory:
    """Figures of one chat.

    past: figures of its earlier answers, oldest first. Call `begin_answer`, then `add` with rounds
    as they come, then `end_answer`. state: drafting in the running answer, else in the last one
    with a word. stages: milliseconds by stage.
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
        """Start counting a new answer."""
        self._answer = []
        self._before, self.state = self.state, DraftingNow(None)

    def add(self, rounds: Iterable[RoundStats]) -> None:
        """Add rounds in their order."""
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
        """End the running answer."""
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
        """Add a finished answer of which only sums are known."""
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
        """One row for each depth at which tokens were drafted."""
        drafted, accepted = self._drafted, self._accepted
        return tuple(DepthRow(d, accepted[d], drafted[d]) for d in range(1, len(drafted) + 1))

    @property
    def drafted(self) -> int:
        """Number of drafted tokens."""
        return self._drafted.total()

    @property
    def accepted(self) -> int:
        """Number of accepted tokens."""
        return self._accepted.total()

    @property
    def tokens_per_pass_over_time(self) -> tuple[int, ...]:
        """Tokens of each recent pass of the model."""
        return tuple(self._emitted)

    @property
    def tokens_per_pass(self) -> float:
        """Mean tokens of recent passes, before there are any those of the last answer."""
        if self._emitted:
            return sum(self._emitted) / len(self._emitted)
        return self._last_mean

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Reasons for not drafting as asked, each with its newest words."""
        return tuple(self._reasons.values())

    @property
    def depth_in_use(self) -> int:
        """Draft depth of the newest round, or of the last answer if none is running."""
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
