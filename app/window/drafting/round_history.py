"""Keeps the rounds of a chat and tells what drafting did in them; knows no Qt."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mlx_engine.values.reason import Reason
from mlx_engine.values.stats import RoundStats

POINTS = 240
"""Rounds shown over time."""

ENOUGH_PLAIN_TOKENS = 8
"""Tokens decoded plainly before a gain is called measured."""


@dataclass(frozen=True, slots=True)
class DepthRow:
    """How often a token was drafted at `depth`, and how often it stood."""

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

    draft_ms: float
    verify_ms: float
    host_ms: float

    @property
    def total_ms(self) -> float:
        """All stages."""
        return self.draft_ms + self.verify_ms + self.host_ms


@dataclass(frozen=True, slots=True)
class Gain:
    """Tokens per second of rounds that drafted and of plain rounds, in this chat."""

    drafted: float
    plain: float

    @property
    def ratio(self) -> float:
        """Above 1 drafting is faster."""
        return self.drafted / self.plain


@dataclass(slots=True)
class _Pace:
    """Tokens and the milliseconds they took."""

    tokens: int = 0
    milliseconds: float = 0.0

    def add(self, stats: RoundStats) -> None:
        self.tokens += stats.emitted
        self.milliseconds += stats.draft_ms + stats.verify_ms + stats.host_ms

    @property
    def per_second(self) -> float:
        return 1000 * self.tokens / self.milliseconds if self.milliseconds else 0.0


class RoundHistory:
    """Figures of one chat since it was opened."""

    def __init__(self) -> None:
        self._recent: deque[RoundStats] = deque(maxlen=POINTS)
        self._drafted: list[int] = []
        self._accepted: list[int] = []
        self._stages = Stages(0, 0, 0)
        self._pace_drafted = _Pace()
        self._pace_plain = _Pace()
        self._reasons: dict[str, Reason] = {}

    def add(self, rounds: Iterable[RoundStats]) -> None:
        """Take rounds in the order they were played."""
        for stats in rounds:
            self._recent.append(stats)
            self._count(stats)
            (self._pace_drafted if stats.drafted else self._pace_plain).add(stats)
            self._stages = Stages(
                self._stages.draft_ms + stats.draft_ms,
                self._stages.verify_ms + stats.verify_ms,
                self._stages.host_ms + stats.host_ms,
            )
            if stats.why is not None:
                self._reasons[stats.why.code] = stats.why

    def _count(self, stats: RoundStats) -> None:
        missing = stats.drafted - len(self._drafted)
        self._drafted.extend([0] * missing)
        self._accepted.extend([0] * missing)
        for depth in range(stats.drafted):
            self._drafted[depth] += 1
            self._accepted[depth] += depth < stats.accepted

    @property
    def depths(self) -> tuple[DepthRow, ...]:
        """One row a depth that was ever drafted."""
        pairs = zip(self._accepted, self._drafted, strict=True)
        return tuple(DepthRow(depth, *pair) for depth, pair in enumerate(pairs, start=1))

    @property
    def drafted(self) -> int:
        """Tokens drafted in all."""
        return sum(self._drafted)

    @property
    def accepted(self) -> int:
        """Tokens accepted in all."""
        return sum(self._accepted)

    @property
    def acceptance_over_time(self) -> tuple[float, ...]:
        """Acceptance of the recent rounds that drafted."""
        return tuple(r.accepted / r.drafted for r in self._recent if r.drafted)

    @property
    def tokens_per_pass_over_time(self) -> tuple[int, ...]:
        """Tokens each recent pass of the model gave."""
        return tuple(r.emitted for r in self._recent)

    @property
    def tokens_per_pass(self) -> float:
        """Mean over the recent passes."""
        return sum(r.emitted for r in self._recent) / len(self._recent) if self._recent else 0.0

    @property
    def stages(self) -> Stages:
        """Milliseconds by stage."""
        return self._stages

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every reason given for not drafting as asked, newest words of each."""
        return tuple(self._reasons.values())

    @property
    def depth_now(self) -> int:
        """Depth of the newest round."""
        return self._recent[-1].depth if self._recent else 0

    @property
    def reason_now(self) -> Reason | None:
        """The newest round's reason."""
        return self._recent[-1].why if self._recent else None

    @property
    def auto_depth_now(self) -> int | None:
        """What the automatic choice would have been in the newest round, where it is known."""
        return self._recent[-1].auto_depth if self._recent else None

    @property
    def gain(self) -> Gain | None:
        """Measured gain of drafting; None before both kinds of rounds have run a while."""
        drafted, plain = self._pace_drafted.per_second, self._pace_plain.per_second
        if self._pace_plain.tokens < ENOUGH_PLAIN_TOKENS or not (drafted and plain):
            return None
        return Gain(drafted, plain)
