"""The figures under an answer, in words."""

from mlx_engine.values.stats import GenerationStats


def footer_figures(stats: GenerationStats) -> tuple[str, ...]:
    """Most telling first: a narrow footer leaves out the last."""
    first = [f"{stats.tokens_per_second:.1f} tok/s", f"{stats.generated_tokens:,} tok"]
    if stats.time_to_first_token_s:
        first.append(f"{stats.time_to_first_token_s:.2f} s to first")
    return (*first, *_drafting(stats))


def _drafting(stats: GenerationStats) -> tuple[str, ...]:
    if not stats.drafted:
        return ("not drafted",)
    return (
        f"{stats.acceptance:.0%} ({stats.accepted:,}/{stats.drafted:,})".replace("%", " %"),
        f"{stats.tokens_per_pass:.1f} tok/pass",
        f"depth {_depth(stats)}",
    )


def _depth(stats: GenerationStats) -> str:
    """How deep was drafted: one number if it never changed, else the mean and the most."""
    deepest = len(stats.drafted_by_depth)
    if stats.drafted_by_depth[-1:] == stats.drafted_by_depth[:1]:
        return str(deepest)
    rounds = stats.drafted_by_depth[0] if stats.drafted_by_depth else 1
    return f"{stats.drafted / max(1, rounds):.1f} of {deepest}"


def all_figures(stats: GenerationStats) -> str:
    """Several lines for the tooltip: everything the footer has, and acceptance by depth."""
    lines = [
        " · ".join(footer_figures(stats)),
        f"Prompt: {stats.prompt_tokens:,} tokens, {stats.reused_tokens:,} of them kept from before",
    ]
    pairs = zip(stats.accepted_by_depth, stats.drafted_by_depth, strict=False)
    for depth, (accepted, drafted) in enumerate(pairs, 1):
        share = accepted / drafted if drafted else 0
        lines.append(f"Depth {depth}: {accepted:,} of {drafted:,} accepted ({share * 100:.0f} %)")
    return "\n".join(lines)
