"""Conditions that end an answer, and the sums of its rounds."""

from dataclasses import dataclass, field

import mlx.core as mx

from mlx_engine.values.conversation import FinishReason
from mlx_engine.values.stats import (
    GenerationStats,
    RoundStats,
    count_by_depth,
    plain_is_faster,
    sum_by_source,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Conditions that end an answer; stop strings are found by StreamingText.

    end_ids: tokens that end it, empty to ignore them. max_tokens: None for no budget.
    context_length: tokens of conversation at most.
    """

    end_ids: frozenset[int]
    max_tokens: int | None
    context_length: int

    def finish(self, token: int, generated: int, position: int) -> FinishReason | None:
        """Why `token`, at index `position` and `generated`-th of the answer, ends it, if so."""
        return "end" if token in self.end_ids else self.full(generated, position)

    def full(self, generated: int, position: int) -> FinishReason | None:
        """Why the answer ends after `generated` tokens, if it does, whatever the newest is."""
        if self.max_tokens is not None and generated >= self.max_tokens:
            return "max-tokens"
        if position + 1 >= self.context_length:
            return "context-full"
        return None

    def deepest(self, generated: int, read: int) -> int:
        """Tokens of a draft that could still be used after `read` tokens of conversation."""
        room = self.context_length - read - 2
        budget = room if self.max_tokens is None else self.max_tokens - generated - 1
        return max(0, min(room, budget))


@dataclass(slots=True)
class Tally:
    """Sums of an answer; seconds are spent in the engine, not by the reader of its events.

    waited_seconds: before the prompt was begun.
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

    def prompt_took(self, seconds: float, head_rows: int = 0) -> None:
        """Add the time of a chunk of the prompt, or of `head_rows` rows that heads have read."""
        self.prompt_seconds += seconds
        if head_rows:
            self.head_rows += head_rows
            self.head_seconds += seconds
        self._look_at_memory()

    def _look_at_memory(self) -> None:
        """Note the peak now and then: another answer may begin meanwhile and reset it."""
        self.peak_memory_bytes = max(self.peak_memory_bytes, mx.get_peak_memory())

    def add(self, stats: RoundStats, seconds: float) -> None:
        """Add a round and its seconds."""
        self._look_at_memory()
        self.decode_seconds += seconds
        if not self.rounds:
            self.first_token_seconds = self.waited_seconds + self.prompt_seconds + seconds
        self.rounds.append(stats)

    def stats(self) -> GenerationStats:
        """The sums by now."""
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
