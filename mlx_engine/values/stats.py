"""What drafting did: figures of one round, and their sums over an answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftedBy


@dataclass(frozen=True, slots=True)
class RoundStats:
    """One round: `drafted` tokens checked in one pass, `accepted` of them kept, `emitted` in all.

    depth: tokens asked for; drafted is less when the source had fewer. why: the reason when depth
    is not what the options ask for. auto_depth: what the automatic choice would be, where the depth
    is pinned. source: who drafted, None when nothing was. draft_passes: of a head or small model,
    also those of a draft that came to nothing. Times in milliseconds, of the clock and one after
    the other: the device from when it could begin until the outcome was read, of which draft is
    what the draft took where that is told apart (else, on a GPU, it is part of verify); then
    accept, to keep what was accepted (caches, draft source, text); host is what is left, in which
    the device had nothing to do. Rounds that were begun ahead follow one another without it.
    """

    position: int
    depth: int
    drafted: int
    accepted: int
    emitted: int
    draft_ms: float
    verify_ms: float
    host_ms: float
    why: Reason | None = None
    auto_depth: int | None = None
    accept_ms: float = 0.0
    source: DraftedBy | None = None
    draft_passes: int = 0

    @property
    def total_ms(self) -> float:
        """The whole round."""
        return self.draft_ms + self.verify_ms + self.accept_ms + self.host_ms


@dataclass(frozen=True, slots=True)
class SourceStats:
    """Tokens that one source drafted, and those of them that were accepted."""

    source: DraftedBy = "mtp"
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Sums over one answer.

    drafted_by_depth[d-1] counts the rounds in which a d-th token was drafted,
    accepted_by_depth[d-1] those in which it was accepted. passes: passes of the target model after
    the prompt. seed: the one in effect. by_source: who drafted, in the order of their first drafts;
    empty also where only the sums are known. plain_is_faster: see the function of this name.
    head_rows: of the prompt, those that MTP heads have read; head_share: of the time it took to be
    read, theirs.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    drafted_by_depth: tuple[int, ...] = ()
    accepted_by_depth: tuple[int, ...] = ()
    passes: int = 0
    tokens_per_pass: float = 0.0
    tokens_per_second: float = 0.0
    prompt_tokens_per_second: float = 0.0
    time_to_first_token_s: float = 0.0
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    host_ms: float = 0.0
    peak_memory_bytes: int = 0
    seed: int = 0
    accept_ms: float = 0.0
    by_source: tuple[SourceStats, ...] = ()
    plain_is_faster: bool = False
    head_rows: int = 0
    head_share: float = 0.0

    @property
    def acceptance(self) -> float:
        """Accepted over drafted, 0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0


def plain_is_faster(rounds: Sequence[RoundStats]) -> bool:
    """Whether drafting does not pay here, as the newest round knows: nothing was drafted because it
    is parked, or it goes on because its depth is pinned.
    """
    if not rounds:
        return False
    newest = rounds[-1]
    if newest.depth:
        return newest.auto_depth == 0
    is_parked = newest.why is not None and newest.why.code.startswith("parked")
    return is_parked and not any(stats.drafted for stats in rounds)


def sum_by_source(rounds: Iterable[RoundStats]) -> tuple[SourceStats, ...]:
    """For each source that drafted, in the order of first drafts."""
    sums: dict[DraftedBy, SourceStats] = {}
    for r in rounds:
        if r.source is not None:
            old = sums.get(r.source, SourceStats(r.source, 0, 0))
            sums[r.source] = SourceStats(
                r.source, old.drafted + r.drafted, old.accepted + r.accepted
            )
    return tuple(sums.values())


def count_by_depth(lengths: Iterable[int]) -> tuple[int, ...]:
    """[d-1] -> how many of `lengths` are at least d."""
    counts: list[int] = []
    for length in lengths:
        counts.extend([0] * (length - len(counts)))
        for depth in range(length):
            counts[depth] += 1
    return tuple(counts)
