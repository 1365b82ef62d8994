"""Figures of a bench as tables for the terminal, and as an SVG picture."""

import re
from collections.abc import Iterable
from dataclasses import asdict
from io import StringIO
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

from mlx_engine.bench.report import (
    BenchReport,
    CacheRow,
    ChatsRow,
    Conditions,
    DraftingReport,
    KindRows,
    MemoryReport,
    PromptRow,
    Row,
)
from mlx_engine.bench.runs import shares
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import SamplingOptions
from mlx_engine.values.untrusted import without_controls
from mlx_engine.values.words import percent_words, size_words

INTERRUPTED = "Interrupted: this is what was measured by then."
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
"""Column headers and widths, the same for all kinds of prompt."""

OVERVIEW_WIDTH, CELL_WIDTH = 160, 12
FASTER, SLOWER = 1.02, 0.98
"""Ratios of speed to drafting off from which a cell is green, and up to which it is red."""


def _table(title: str, *columns: str) -> Table:
    whole = Text(f"\n{title}", style="bold", no_wrap=True, overflow="ignore")  # may be wider
    table = Table(title=whole, title_justify="left", title_style="none", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _same_cell(is_same: bool) -> Text:
    return Text("yes", style="green") if is_same else Text("NO", style="bold red")


def heading(conditions: Conditions) -> Group:
    """Heading of a bench in three lines: model; machine and versions; settings and date."""
    usual = asdict(SamplingOptions())
    sampling = ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value in asdict(conditions.sampling).items()
        if name in ("temperature", "seed") or value != usual[name]
    )
    model = f"{conditions.model}, {conditions.quantisation}, numerics {conditions.numerics}"
    length = f"{conditions.tokens} tokens {'each' if conditions.ignore_eos else 'at most'}"
    times = f"{conditions.repeats} times" if conditions.repeats > 1 else "once"
    quick = ", quick" if conditions.is_quick else ""
    versions = f"MLX {conditions.mlx}, Headstart {conditions.headstart}"
    return Group(
        Text(without_controls(model), style="bold"),
        Text(f"{conditions.machine}, {versions}"),
        Text(f"{sampling}; {length}, {times}{quick}; {conditions.date}"),
    )


def kind_table(found: KindRows, number: int, kinds: int) -> Table:
    """Table of speed and acceptance of all settings and programs on one kind of prompt."""
    title = f"{found.kind} ({number} of {kinds}), {found.prompt_tokens} tokens of prompt"
    return _rows_table(title, found.rows)


def total_table(found: DraftingReport) -> Group:
    """Table of all arms over the kinds that every arm answered, pass costs, and auto's depths."""
    passes = " ".join(f"{ms:.1f}" for ms in found.verify_ms)
    lines = [
        f"A pass of 1 to {len(found.verify_ms)} rows: {passes} ms; head {found.head_ms:.1f} ms"
    ]
    for row in found.total:
        if row.arm == "auto":
            rounds = ", ".join(f"{count} of depth {depth}" for depth, count in row.depths.items())
            why = f" ({row.why.words})" if row.why else ""
            lines.append(f"auto: rounds {rounds}{why}")
    return Group(_rows_table("In all", found.total), *map(Text, lines))


def _rows_table(title: str, rows: Iterable[Row]) -> Table:
    table = _table(title, *COLUMNS)
    for column, width in zip(table.columns, COLUMNS.values(), strict=True):
        column.min_width = width
    for row in rows:
        speed = row.speed
        figures = speed and (speed.tokens_per_second, speed.ratio, speed.wall_s, speed.cpu_ms)
        by_depth = shares(row.accepted_by_depth, row.drafted_by_depth)
        same = _same_cell(row.is_same)
        if row.is_peer:
            same = Text(f"{row.equal_tokens} of {row.reference_tokens}")
        elif not row.is_same:
            same.append(f", token {row.equal_tokens} differs")
        table.add_row(
            row.arm,
            f"{row.tokens}",
            f"{row.drafted}",
            f"{row.accepted}",
            percent_words(row.accepted, row.drafted),
            f"{row.tokens_per_pass:.2f}",
            *("–" if figure is None else f"{figure:.2f}" for figure in figures or [None] * 4),
            " ".join(f"{share:.2f}" for share in by_depth),
            same,
        )
    return table


def prompt_table(found: tuple[PromptRow, ...]) -> Table:
    """Table of the speed at which each setting or program reads a long prompt."""
    table = _table(f"Reading a prompt of {found[0].tokens} tokens", "", "tok/s", "to without heads")
    for row in found:
        table.add_row(row.arm, f"{row.tokens_per_second:.1f}", f"{row.ratio:.2f}")
    return table


def chats_table(found: tuple[ChatsRow, ...]) -> Table:
    """Table of a bench's speed with several chats answered at once and one by one."""
    columns = ("one by one", "at once", "times", "passes a token", "same words")
    table = _table(f"{found[0].chats if found else 0} chats, tok/s of all", "", *columns)
    for row in found:
        passes = f"{row.alone_passes:.3f} → {row.passes:.3f}"
        speeds = (f"{row.alone:.1f}", f"{row.at_once:.1f}", f"{row.ratio:.2f}")
        table.add_row(row.arm, *speeds, passes, _same_cell(row.is_same))
    return table


def cache_table(found: tuple[CacheRow, ...]) -> Table:
    """Table of what keys and values in 8 and 4 bits change: memory, logits, acceptance."""
    columns = ("bytes a token", "logits apart", "KL, nats", "likeliest", "accepted", "same words")
    table = _table("Keys and values", "bits", *columns)
    for row in found:
        table.add_row(
            f"{row.bits}",
            f"{row.bytes_per_token}",
            f"{row.difference:.4f}",
            f"{row.divergence:.5f}",
            f"{row.likeliest:.1%}",
            "–" if row.accepted is None else f"{row.accepted:.3f}",
            _same_cell(row.is_same),
        )
    return table


def memory_table(found: MemoryReport) -> Table:
    """Table of the memory and round times of a bench's long answer."""
    lengths = f"{found.prompt_tokens} + {found.generated_tokens} tokens"
    table = _table(f"Memory over {lengths}", "", "")
    table.add_row("peak", size_words(found.peak_bytes))
    table.add_row("the conversation", size_words(found.conversation_bytes))
    table.add_row("round, first tenth", f"{found.first_round_ms:.2f} ms")
    table.add_row("round, last tenth", f"{found.last_round_ms:.2f} ms")
    return table


def ending(found: BenchReport) -> Group:
    """Last lines of a bench: whether drafted texts equal plain ones, and why parts are missing."""
    same = found.agreement
    lines = []
    if not same.is_green:
        lines.append(Text(f"NOT the same words: {same.difference}", style="bold red"))
    elif same.texts:
        words = f"{same.texts} drafted texts, {same.tokens} tokens, all equal to plain text"
        lines.append(Text(f"Same words: {words}", style="green"))
    declined = [f"Declined ({reason.code}): {reason.words}" for reason in found.declined]
    lines += [Text(without_controls(words), style="yellow") for words in declined]
    if found.is_interrupted:
        lines.append(Text(INTERRUPTED, style="yellow"))
    return Group(*lines)


def check_picture(path: Path) -> None:
    """Raise BadOption if the bench's picture could not be written, before anything is measured."""
    if path.is_dir() or not path.parent.is_dir():
        raise BadOption(f"--svg {path} is not possible: name a file in a folder that exists.")


def write_picture(report: BenchReport, path: Path) -> None:
    """Write an SVG with the speed and acceptance of every arm by kind. Raises BadOption."""
    console = Console(
        record=True,
        width=OVERVIEW_WIDTH,
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(heading(report.conditions), *_overview(report), ending(report))
    svg = console.export_svg(title="headstart bench", theme=DEFAULT_TERMINAL_THEME)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # else viewers fetch the font
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise BadOption(f"--svg {path} cannot be written: {error.strerror}.") from error


def _overview(report: BenchReport) -> Iterable[Table]:
    if report.drafting is None:
        return
    kinds = {kind.kind: kind.rows for kind in report.drafting.kinds}
    kinds |= {"in all": report.drafting.total}
    cells = {(row.arm, kind): row for kind, rows in kinds.items() for row in rows}
    for title, cell in (
        ("Tokens a second, and speed over drafting off", _speed_cell),
        ("Drafts accepted, and tokens a pass", _acceptance_cell),
    ):
        table = _table(title, "", *kinds)
        for column in table.columns[1:]:
            column.no_wrap, column.width = False, CELL_WIDTH
        for arm in dict.fromkeys(arm for arm, _ in cells):
            found = [cells.get((arm, kind)) for kind in kinds]
            table.add_row(arm, *(cell(row) if row else "" for row in found))
        yield table


def _speed_cell(row: Row) -> Text:
    speed = row.speed
    if speed is None:
        return Text("other text", style="bold red")
    if speed.tokens_per_second is None or speed.ratio is None:
        return Text("–")
    style = "green" if speed.ratio >= FASTER else "red" if speed.ratio <= SLOWER else ""
    return Text(f"{speed.tokens_per_second:.1f} × {speed.ratio:.2f}", style=style)


def _acceptance_cell(row: Row) -> Text:
    share = percent_words(row.accepted, row.drafted)
    return Text(f"{share} {row.tokens_per_pass:.2f}" if row.drafted else "–")
