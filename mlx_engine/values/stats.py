"""Drafting statistics of one decoding round and of a whole answer, and how they are summed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftedBy


@dataclass(frozen=True, slots=True)
class RoundStats:
    """One decoding round: `drafted` tokens verified in one pass, `accepted` of them, `emitted` all.

    depth: tokens requested from the draft source, which may draft fewer. why: reason when the depth
    is not the requested one. auto_depth: depth that "auto" would choose, where the depth is fixed.
    source: what drafted, None without a draft. draft_passes: forward passes of a head or draft
    model, unused drafts included.

    draft_ms, verify_ms, accept_ms and host_ms are milliseconds of wall time and add up to the
    round. draft_ms and verify_ms: the device computes (on a GPU drafting may be counted in
    verify_ms). accept_ms: caches, draft source and text take the accepted tokens over. host_ms: the
    device is idle; 0 for rounds that lookahead queued in time.
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
        """Wall time of a whole decoding round in milliseconds."""
        return self.draft_ms + self.verify_ms + self.accept_ms + self.host_ms


@dataclass(frozen=True, slots=True)
class SourceStats:
    """Number of tokens that one draft source drafted, and of those accepted."""

    source: DraftedBy = "mtp"
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Drafting statistics summed over one answer.

    drafted_by_depth[d-1]: rounds in which a d-th token was drafted. accepted_by_depth[d-1]: rounds
    in which it was accepted. passes: passes of the target model after the prompt. seed: the
    sampling seed used. by_source: statistics of each draft source, in the order of their first
    drafts; empty where only sums are known. plain_is_faster: as the function `plain_is_faster`
    says. head_rows: prompt tokens that MTP heads processed. head_share: share of the prompt's time
    that the heads took.
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
        """Accepted over drafted tokens, 0 when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0


def plain_is_faster(rounds: Sequence[RoundStats]) -> bool:
    """Whether plain decoding is faster than drafting, judging by the newest round.

    True where drafting is switched off for its cost and nothing was drafted, or where a fixed depth
    drafts though "auto" would not.
    """
    if not rounds:
        return False
    newest = rounds[-1]
    if newest.depth:
        return newest.auto_depth == 0
    is_parked = newest.why is not None and newest.why.code.startswith("parked")
    return is_parked and not any(stats.drafted for stats in rounds)


def sum_by_source(rounds: Iterable[RoundStats]) -> tuple[SourceStats, ...]:
    """Sum drafted and accepted tokens for each draft source, in the order of first drafts."""
    sums: dict[DraftedBy, SourceStats] = {}
    for r in rounds:
        if r.source is not None:
            old = sums.get(r.source, SourceStats(r.source, 0, 0))
            sums[r.source] = SourceStats(
                r.source, old.drafted + r.drafted, old.accepted + r.accepted
            )
    return tuple(sums.values())


def count_by_depth(lengths: Iterable[int]) -> tuple[int, ...]:
    """For each draft depth d from 1, count the lengths that are at least d, as result[d-1]."""
    counts: list[int] = []
    for length in lengths:
        counts.extend([0] * (length - len(counts)))
        for depth in range(length):
            counts[depth] += 1
    return tuple(counts)


@dataclass(slots=True)
class AnswerTally:
    """Running sums of one answer: tokens, rounds, seconds spent in the engine.

    waited_seconds: time before reading of the prompt began. Time that the consumer of the answer's
    events takes does not count.
    """

    seed: int
    prompt_tokens: int = 0
    reused_tokens: int = 0
    waited_seconds: float = 0.0
    prompt_seconds: float = 0.0
    head_rows: int = 0
    head_seconds: float = 0.0
    decode_seconds: float = 0.0
    first_token_seconds: float = 0.0
    peak_memory_bytes: int = 0
    rounds: list[RoundStats] = field(default_factory=list)

    def add_prompt_time(self, seconds: float, head_rows: int, peak_bytes: int) -> None:
        """Add the seconds that reading a prompt chunk, or `head_rows` rows by MTP heads, took."""
        self.prompt_seconds += seconds
        if head_rows:
            self.head_rows += head_rows
            self.head_seconds += seconds
        self.peak_memory_bytes = max(self.peak_memory_bytes, peak_bytes)

    def add(self, stats: RoundStats, seconds: float, peak_bytes: int) -> None:
        """Add a round's figures and seconds to the sums.

        peak_bytes: peak memory now, as another answer may reset it when it begins.
        """
        self.peak_memory_bytes = max(self.peak_memory_bytes, peak_bytes)
        self.decode_seconds += seconds
        if not self.rounds:
            self.first_token_seconds = self.waited_seconds + self.prompt_seconds + seconds
        self.rounds.append(stats)

    def stats(self) -> GenerationStats:
        """Return statistics of the answer so far: tokens, speed, acceptance, memory."""
        rounds = self.rounds
        generated = sum(r.emitted for r in rounds)
        fresh = self.prompt_tokens - self.reused_tokens
        return GenerationStats(
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused_tokens,
            generated_tokens=generated,
            drafted=sum(r.drafted for r in rounds),
            accepted=sum(r.accepted for r in rounds),
            drafted_by_depth=count_by_depth(r.drafted for r in rounds),
            accepted_by_depth=count_by_depth(r.accepted for r in rounds),
            passes=len(rounds),
            tokens_per_pass=generated / len(rounds) if rounds else 0.0,
            tokens_per_second=_rate(generated, self.decode_seconds),
            prompt_tokens_per_second=_rate(fresh, self.prompt_seconds),
            time_to_first_token_s=self.first_token_seconds,
            draft_ms=sum(r.draft_ms for r in rounds),
            verify_ms=sum(r.verify_ms for r in rounds),
            host_ms=sum(r.host_ms for r in rounds),
            peak_memory_bytes=self.peak_memory_bytes,
            seed=self.seed,
            accept_ms=sum(r.accept_ms for r in rounds),
            by_source=sum_by_source(rounds),
            plain_is_faster=plain_is_faster(rounds),
            head_rows=self.head_rows,
            head_share=_rate(self.head_seconds, self.prompt_seconds),
        )


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def joined_stats(first: GenerationStats, continuation: GenerationStats) -> GenerationStats:
    """Statistics of an answer and of its continuation as those of one answer.

    Figures of the prompt, the seed and the time to the first token are those of the beginning;
    only tokens of the prompt that the continuation no longer read are taken off.
    """
    both = first, continuation
    tokens, passes = (sum(s.generated_tokens for s in both), sum(s.passes for s in both))
    seconds = sum(s.generated_tokens / s.tokens_per_second for s in both if s.tokens_per_second)
    sources = dict.fromkeys(part.source for s in both for part in s.by_source)
    still_read = max(0, continuation.prompt_tokens - first.generated_tokens)
    prompt = (
        min(first.prompt_tokens, still_read) if continuation.prompt_tokens else first.prompt_tokens
    )
    return replace(
        first,
        prompt_tokens=prompt,
        reused_tokens=min(first.reused_tokens, prompt),
        generated_tokens=tokens,
        drafted=first.drafted + continuation.drafted,
        accepted=first.accepted + continuation.accepted,
        drafted_by_depth=_add_elementwise(first.drafted_by_depth, continuation.drafted_by_depth),
        accepted_by_depth=_add_elementwise(first.accepted_by_depth, continuation.accepted_by_depth),
        passes=passes,
        tokens_per_pass=tokens / passes if passes else 0.0,
        tokens_per_second=tokens / seconds if seconds else 0.0,
        draft_ms=first.draft_ms + continuation.draft_ms,
        verify_ms=first.verify_ms + continuation.verify_ms,
        accept_ms=first.accept_ms + continuation.accept_ms,
        host_ms=first.host_ms + continuation.host_ms,
        peak_memory_bytes=max(first.peak_memory_bytes, continuation.peak_memory_bytes),
        by_source=tuple(
            SourceStats(
                source,
                sum(part.drafted for s in both for part in s.by_source if part.source == source),
                sum(part.accepted for s in both for part in s.by_source if part.source == source),
            )
            for source in sources
        ),
        plain_is_faster=continuation.plain_is_faster,
    )


def _add_elementwise(first: Sequence[int], continuation: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(sum, zip_longest(first, continuation, fillvalue=0)))
