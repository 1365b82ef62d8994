"""The figures of an answer as lines of text; knows no terminal."""

from mlx_engine.values.conversation import FinishReason
from mlx_engine.values.options import DraftOutput
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import percent_words, size_words

BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"
ENDINGS: dict[FinishReason, str] = {
    "end": "",
    "stop-string": "ended at a stop string",
    "max-tokens": "cut at the token limit; /continue goes on",
    "context-full": "the context is full; /drop reads the oldest turns no more, /continue goes on",
    "memory-full": "memory is full; /drop reads the oldest turns no more, /continue goes on",
    "stopped": "stopped; /continue goes on",
}
"""Why an answer ended, empty where the model simply was done."""


def status_line(stats: GenerationStats) -> str:
    """Speed, length, drafting: one line under an answer."""
    accepted = "nothing drafted"
    if stats.drafted:
        share = percent_words(stats.accepted, stats.drafted)
        accepted = f"accepted {stats.accepted}/{stats.drafted} ({share})"
    return " · ".join(
        [
            f"{stats.tokens_per_second:.1f} tok/s",
            f"{stats.generated_tokens} tok",
            f"{stats.time_to_first_token_s:.2f} s to the first",
            accepted,
            f"{stats.tokens_per_pass:.2f} tok/pass",
        ]
    )


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """`share` (0 to 1) of `width` cells, in eighths of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(width)


def acceptance_lines(stats: GenerationStats) -> list[str]:
    """A bar for each depth: of the tokens drafted at it, how many stood."""
    if not stats.drafted:
        return ["Nothing was drafted."]
    accepted = stats.accepted_by_depth
    padded = accepted + (0,) * (len(stats.drafted_by_depth) - len(accepted))
    return [
        f"depth {depth} {bar(won / tried if tried else 0.0)} "
        f"{percent_words(won, tried):>5} ({won}/{tried})"
        for depth, (won, tried) in enumerate(zip(padded, stats.drafted_by_depth, strict=False), 1)
    ]


def source_lines(stats: GenerationStats, output: DraftOutput | None) -> list[str]:
    """Who drafted how many tokens, and those that stood; output: the head that MTP drafts with."""
    heads = {"mtp": f", output head {output}"} if output else {}
    return [
        f"drafted by {part.source}: accepted {part.accepted}/{part.drafted} "
        f"({percent_words(part.accepted, part.drafted)}){heads.get(part.source, '')}"
        for part in stats.by_source
    ]


def stage_lines(stats: GenerationStats) -> list[str]:
    """Milliseconds a pass spent in each stage, with its share of the whole."""
    stages = {
        "draft": stats.draft_ms,
        "verify": stats.verify_ms,
        "accept": stats.accept_ms,
        "host": stats.host_ms,
    }
    whole = sum(stages.values())
    return [
        f"{name:<7} {bar(spent / whole if whole else 0.0)} "
        f"{percent_words(spent, whole):>5} ({spent / max(stats.passes, 1):.2f} ms a pass)"
        for name, spent in stages.items()
    ]


def summary_lines(stats: GenerationStats) -> list[str]:
    """What /stats shows above its bars."""
    reused = f", {stats.reused_tokens} of them reused" if stats.reused_tokens else ""
    heads = f"; heads read {stats.head_rows}, {100 * stats.head_share:.1f} % of the time"
    return [
        f"prompt  {stats.prompt_tokens} tok{reused}, {stats.prompt_tokens_per_second:.0f} tok/s"
        f"{heads if stats.head_rows else ''}",
        f"answer  {stats.generated_tokens} tok in {stats.passes} passes, "
        f"{stats.tokens_per_pass:.2f} tok/pass, {stats.tokens_per_second:.1f} tok/s",
        f"memory  {size_words(stats.peak_memory_bytes)} at the peak; seed {stats.seed}",
    ]
