"""Adds rounds up to the figures of an answer."""

from dataclasses import dataclass, field

from mlx_engine.values.stats import GenerationStats, RoundStats, count_by_depth, sum_by_source


@dataclass(slots=True)
class Tally:
    """What is known so far; seconds are time spent in the engine, not in whoever reads events."""

    seed: int
    prompt_tokens: int = 0
    reused_tokens: int = 0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    first_token_seconds: float = 0.0
    peak_memory_bytes: int = 0
    rounds: list[RoundStats] = field(default_factory=list)

    def stats(self) -> GenerationStats:
        """Sums as of now."""
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
        )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
