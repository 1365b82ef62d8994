"""What drafting did and does in a chat, as plain values."""

from dataclasses import dataclass

from mlx_engine.values.reason import Reason
from mlx_engine.values.stats import GenerationStats, RoundStats


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
    None when it is not known.
    """

    depth: int | None
    why: Reason | None = None
    auto_depth: int | None = None


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What drafting did in an answer that is over; deepest: most tokens drafted in a round.

    why: the newest reason, of an answer in which nothing was drafted.
    """

    deepest: int
    drafted: int
    accepted: int
    why: Reason | None = None


DraftingState = DraftingNow | LastAnswer | None
"""None before the first answer."""
