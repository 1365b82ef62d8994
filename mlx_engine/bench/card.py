"""A report as tables for people."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlx_engine.bench.report import (
    AcceptanceReport,
    BenchReport,
    Contest,
    DraftingReport,
    MemoryReport,
    OpsRow,
    PeerComparison,
)

MB = 1_000_000


def card(report: BenchReport) -> Group:
    """Everything that was measured, and why the rest was not."""
    return Group(*_parts(report))


def _parts(report: BenchReport) -> Iterator[RenderableType]:
    words = f"{report.model}, {report.quantisation}, numerics {report.numerics}"
    yield Text(_printable(words), style="bold")
    yield Text(f"{report.backend}, MLX {report.mlx}{', quick run' if report.quick else ''}")
    same = report.agreement
    verdict = f"{same.texts} drafted texts, {same.tokens} tokens"
    if same.is_green:
        yield Text(f"Same words: {verdict}, all as without drafting", style="green")
    else:
        yield Text(f"NOT the same words: {same.difference}", style="bold red")
    if report.plain:
        yield from (_plain(comparison) for comparison in report.plain)
    if report.drafting:
        yield _drafting(report.drafting)
        yield _costs(report.drafting)
    if report.acceptance:
        yield _acceptance(report.acceptance)
    if report.memory:
        yield _memory(report.memory)
    if report.ops:
        yield _ops(report.ops)
    for reason in report.declined:
        yield Text(_printable(f"Declined ({reason.code}): {reason.words}"), style="yellow")


def _printable(text: str) -> str:
    """Names of files must not steer the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _plain(found: PeerComparison) -> Table:
    table = _table(f"Plain decoding against {found.peer}", "", "ours", "theirs", "ours / theirs")

    def add(name: str, pair: Contest) -> None:
        table.add_row(name, f"{pair.ours:.1f}", f"{pair.theirs:.1f}", f"{pair.ratio:.2f}")

    add(f"decode tok/s ({found.decode_tokens} tokens, {found.repeats} times)", found.decode)
    add(f"prompt tok/s ({found.prompt_tokens} tokens)", found.prompt)
    add("processor ms a token", found.cpu_ms)
    table.add_row("equal tokens", f"{found.equal_tokens} of {found.decode_tokens}", "", "")
    return table


def _drafting(found: DraftingReport) -> Table:
    columns = (
        "tok/pass",
        "accepted by depth",
        "tok/s",
        "ratio",
        "cpu ms/tok",
        "draft ms",
        "verify ms",
        "host ms",
    )
    title = f"Drafting, {found.prompts} prompts (ratio: speed over depth 0)"
    table = _table(title, "temperature, depth", *columns)
    for arm in found.arms:
        accepted = " ".join(f"{share:.2f}" for share in arm.acceptance) or "-"
        table.add_row(
            f"{arm.temperature:g}, {arm.depth}",
            f"{arm.tokens_per_pass:.2f}",
            accepted,
            f"{arm.tokens_per_second:.1f}",
            f"{arm.ratio:.2f}",
            f"{arm.cpu_ms:.2f}",
            f"{arm.draft_ms:.2f}",
            f"{arm.verify_ms:.2f}",
            f"{arm.host_ms:.2f}",
        )
    return table


def _costs(found: DraftingReport) -> Group:
    passes = " ".join(f"{ms:.1f}" for ms in found.verify_ms)
    lines = [
        f"A pass of 1 to {len(found.verify_ms)} rows: {passes} ms; head {found.head_ms:.1f} ms"
    ]
    for arm in found.arms:
        if arm.depth == "auto":
            rounds = ", ".join(f"{count} of depth {depth}" for depth, count in arm.depths.items())
            why = f" ({arm.why.words})" if arm.why else ""
            lines.append(f"auto at temperature {arm.temperature:g}: rounds {rounds}{why}")
    return Group(*(Text(line) for line in lines))


def _acceptance(found: AcceptanceReport) -> Table:
    title = f"First drafts accepted, temperature {found.temperature:g}"
    table = _table(f"{title}, {found.positions} positions", "", "share", "played, by depth")
    rows = (
        ("rejection sampling (bound)", found.bound, ()),
        ("shared noise", found.shared_noise, found.played_shared_noise),
        ("greedy draft", found.greedy, found.played_greedy),
        ("two independent draws", found.independent, ()),
    )
    for name, share, played in rows:
        table.add_row(name, f"{share:.3f}", " ".join(f"{accepted:.2f}" for accepted in played))
    return table


def _memory(found: MemoryReport) -> Table:
    lengths = f"{found.prompt_tokens} + {found.generated_tokens} tokens"
    table = _table(f"Memory over {lengths}", "", "first", "last")
    first, last = found.samples[0], found.samples[-1]
    table.add_row("active MB", f"{first.active_bytes / MB:.2f}", f"{last.active_bytes / MB:.2f}")
    table.add_row(
        "of it conversation", f"{first.track_bytes / MB:.2f}", f"{last.track_bytes / MB:.2f}"
    )
    table.add_row("round ms", f"{found.first_round_ms:.2f}", f"{found.last_round_ms:.2f}")
    table.add_row("growth beyond the conversation, bytes", "", f"{found.growth_bytes}")
    table.add_row("peak MB", "", f"{found.peak_bytes / MB:.2f}")
    share = found.replay_bytes / found.state_bytes if found.state_bytes else 0.0
    table.add_row("replay inputs, share of the states", "", f"{share:.3%}")
    return table


def _ops(found: tuple[OpsRow, ...]) -> Table:
    table = _table("Graph of a round", "", "drafted", "nodes", "build ms")
    for row in found:
        table.add_row(row.engine, f"{row.drafted}", f"{row.nodes}", f"{row.build_ms:.2f}")
    return table
