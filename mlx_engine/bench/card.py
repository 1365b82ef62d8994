"""What was measured as tables for people."""

from collections.abc import Iterable
from dataclasses import asdict

from rich.console import Group
from rich.table import Table
from rich.text import Text

from mlx_engine.bench.report import (
    AcceptanceReport,
    BenchReport,
    CacheRow,
    ChatsRow,
    Conditions,
    DraftingReport,
    KindRows,
    MemoryReport,
    PromptRow,
    Row,
    Speed,
)
from mlx_engine.bench.rows import shares
from mlx_engine.values.options import SamplingOptions
from mlx_engine.values.words import percent_words

MB = 1_000_000
COLUMNS = {
    "": 24,
    "tokens": 6,
    "drafted": 7,
    "accepted": 8,
    "rate": 5,
    "tok/pass": 8,
    "tok/s": 7,
    "to off": 6,
    "wall s": 6,
    "cpu ms/tok": 10,
    "accepted by depth": 17,
    "same words": 10,
}
"""Headers of rows, and widths, so that the kinds of prompt stand in line."""

INTERRUPTED = "Interrupted: this is what was measured by then."


def heading(under: Conditions) -> Group:
    """What is measured, where and how."""
    model, *rest = condition_lines(under)
    return Group(Text(model, style="bold"), *(Text(line) for line in rest))


def condition_lines(under: Conditions) -> list[str]:
    """The model; machine and versions; how it was sampled and how often; when."""
    usual = asdict(SamplingOptions())
    sampling = ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value in asdict(under.sampling).items()
        if name in ("temperature", "seed") or value != usual[name]
    )
    length = f"{under.tokens} tokens {'each' if under.ignore_eos else 'at most'}"
    times = f"{under.repeats} times" if under.repeats > 1 else "once"
    quick = ", quick" if under.is_quick else ""
    return [
        _printable(f"{under.model}, {under.quantisation}, numerics {under.numerics}"),
        f"{under.machine}, MLX {under.mlx}, Headstart {under.headstart}",
        f"{sampling}; {length}, {times}{quick}; {under.date}",
    ]


def kind_table(found: KindRows, number: int, of: int) -> Table:
    """All arms on one kind of prompt."""
    title = f"{found.kind} ({number} of {of}), {found.prompt_tokens} tokens of prompt"
    return _rows_table(title, found.rows)


def total_table(found: DraftingReport) -> Group:
    """All arms over all kinds that each has answered, what passes cost, and what auto did."""
    passes = " ".join(f"{ms:.1f}" for ms in found.verify_ms)
    lines = [
        f"A pass of 1 to {len(found.verify_ms)} rows: {passes} ms; head {found.head_ms:.1f} ms"
    ]
    for row in found.total:
        if row.arm == "auto":
            rounds = ", ".join(f"{count} of depth {depth}" for depth, count in row.depths.items())
            why = f" ({row.why.words})" if row.why else ""
            lines.append(f"auto: rounds {rounds}{why}")
    return Group(_rows_table("In all", found.total), *(Text(line) for line in lines))


def _rows_table(title: str, rows: Iterable[Row]) -> Table:
    table = _table(title, *COLUMNS)
    for column, width in zip(table.columns, COLUMNS.values(), strict=True):
        column.min_width = width
    for row in rows:
        accepted = shares(row.accepted_by_depth, row.drafted_by_depth)
        table.add_row(
            row.arm,
            f"{row.tokens}",
            f"{row.drafted}",
            f"{row.accepted}",
            percent_words(row.accepted, row.drafted),
            f"{row.tokens_per_pass:.2f}",
            *_speed_words(row.speed),
            " ".join(f"{share:.2f}" for share in accepted),
            _same_words(row),
        )
    return table


def _speed_words(speed: Speed | None) -> list[str]:
    if speed is None:
        return ["–"] * 4
    figures = (speed.tokens_per_second, speed.ratio, speed.wall_s, speed.cpu_ms)
    return ["–" if figure is None else f"{figure:.2f}" for figure in figures]


def _same_words(row: Row) -> Text:
    if row.is_peer:
        return Text(f"{row.equal_tokens} of {row.reference_tokens}")
    if row.is_same:
        return Text("yes", style="green")
    return Text(f"NO, token {row.equal_tokens} differs", style="bold red")


def prompt_table(found: tuple[PromptRow, ...]) -> Table:
    """How fast a long prompt is read."""
    table = _table(f"Reading a prompt of {found[0].tokens} tokens", "", "tok/s", "to without heads")
    for row in found:
        table.add_row(row.arm, f"{row.tokens_per_second:.1f}", f"{row.ratio:.2f}")
    return table


def ending(found: BenchReport) -> Group:
    """Whether the words were the same, and why something is not here."""
    same = found.agreement
    lines = []
    if not same.is_green:
        lines.append(Text(f"NOT the same words: {same.difference}", style="bold red"))
    elif same.texts:
        words = f"{same.texts} drafted texts, {same.tokens} tokens, all as without drafting"
        lines.append(Text(f"Same words: {words}", style="green"))
    declined = [f"Declined ({reason.code}): {reason.words}" for reason in found.declined]
    lines += [Text(_printable(words), style="yellow") for words in declined]
    if found.is_interrupted:
        lines.append(Text(INTERRUPTED, style="yellow"))
    return Group(*lines)


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


def acceptance_table(found: AcceptanceReport) -> Table:
    """Rules of drafting against the bound."""
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


def chats_table(found: tuple[ChatsRow, ...]) -> Table:
    """What it brings to answer several chats at once."""
    columns = ("one by one", "at once", "times", "by processor", "passes a token", "same words")
    table = _table(f"{found[0].chats if found else 0} chats, tok/s of all", "", *columns)
    for row in found:
        table.add_row(
            row.arm,
            f"{row.alone:.1f}",
            f"{row.at_once:.1f}",
            f"{row.ratio:.2f}",
            f"{row.processor_ratio:.2f}",
            f"{row.alone_passes:.3f} → {row.passes:.3f}",
            "yes" if row.is_same else "NO",
        )
    return table


def cache_table(found: tuple[CacheRow, ...]) -> Table:
    """What fewer bits of keys and values cost."""
    columns = ("bytes a token", "logits apart", "KL, nats", "likeliest", "accepted", "same words")
    table = _table("Keys and values", "bits", *columns)
    for row in found:
        accepted = "–" if row.accepted is None else f"{row.accepted:.3f}"
        table.add_row(
            f"{row.bits}",
            f"{row.bytes_per_token}",
            f"{row.difference:.4f}",
            f"{row.divergence:.5f}",
            f"{row.likeliest:.1%}",
            accepted,
            "yes" if row.is_same else "NO",
        )
    return table


def memory_table(found: MemoryReport) -> Table:
    """What a long answer left in memory."""
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
