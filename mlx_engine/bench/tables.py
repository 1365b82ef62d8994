"""Figures of a bench as tables."""

import re
from dataclasses import asdict
from io import StringIO
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

from mlx_engine.bench.report import OFF, ArmFigures, BenchReport, ChatsRow, DraftingReport, KindRows
from mlx_engine.values.options import SamplingOptions
from mlx_engine.values.untrusted import without_controls
from mlx_engine.values.words import percent_words, size_words

WIDEST, CELL_WIDTH = 176, 12
"""Columns of tables in a file or picture, and of a cell of the overview."""

FASTER, SLOWER = 1.02, 0.98
"""Ratios of speed to drafting off from which a figure is green, and up to which it is red."""

COLUMNS = (
    *("tok/s", "to off", "prompt tok/s", "wall s", "cpu ms/tok"),
    *("accepted", "tok/pass", "same words"),
)


def _table(title: str, *columns: str) -> Table:
    whole = Text(f"\n{title}", style="bold", no_wrap=True, overflow="ignore")  # may be wider
    table = Table(title=whole, title_justify="left", title_style="none", box=None, pad_edge=False)
    for number, column in enumerate(("", *columns)):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _is_same_cell(is_same: bool) -> Text:
    return Text("yes", style="green") if is_same else Text("NO", style="bold red")


def _number_cell(value: float | None, style: str = "") -> Text:
    return Text("–" if value is None else f"{value:.2f}", style)


def _ratio_style(ratio: float | None) -> str:
    if ratio is None or SLOWER < ratio < FASTER:
        return ""
    return "green" if ratio >= FASTER else "red"


def report_heading(report: BenchReport) -> Group:
    """Heading of a bench in three lines: model; machine and versions; settings and date."""
    plan, usual = report.plan, asdict(SamplingOptions())
    sampling = ", ".join(
        f"{name.replace('_', ' ')} {value}"
        for name, value in asdict(plan.sampling).items()
        if name in ("temperature", "seed") or value != usual[name]
    )
    model = f"{report.model}, {report.quantisation}, numerics {report.numerics}"
    length = f"{plan.tokens} tokens {'each' if plan.ignore_eos else 'at most'}"
    times = f"{plan.repeats} times" if plan.repeats > 1 else "once"
    quick = ", quick" if plan.is_quick else ""
    versions = f"MLX {report.mlx}, Headstart {report.headstart}"
    return Group(
        Text(without_controls(model), style="bold"),
        Text(f"{report.machine}, {versions}"),
        Text(f"{sampling}; {length}, {times}{quick}; {report.date}"),
    )


def kind_table(kind_figures: KindRows, number: int, kinds: int) -> Table:
    """Table of speed and acceptance of all settings and programs on one kind of prompt."""
    memory = f"needs {size_words(kind_figures.memory_bytes)}"
    kind, prompt_tokens = kind_figures.kind, kind_figures.prompt_tokens
    title = f"{kind} ({number} of {kinds}), {prompt_tokens:,} tokens of prompt, {memory}"
    table = _table(title, *COLUMNS)
    table.add_column("accepted by depth", no_wrap=True)
    for row in kind_figures.rows:
        same = _is_same_cell(row.is_same)
        if row.is_peer:
            same = Text(f"{row.equal_tokens} of {row.reference_tokens}")
        elif not row.is_same:
            same.append(f", token {row.equal_tokens} differs")
        table.add_row(
            row.arm,
            _number_cell(row.tokens_per_second),
            _number_cell(row.ratio, _ratio_style(row.ratio)),
            _number_cell(row.prompt_tokens_per_second),
            _number_cell(row.wall_s),
            _number_cell(row.cpu_ms),
            percent_words(row.accepted, row.drafted),
            f"{row.tokens / row.passes:.2f}",
            same,
            " ".join(f"{share:.2f}" for share in row.accepted_by_depth),
        )
    return table


def report_overview(drafting_report: DraftingReport) -> Group:
    """Table of all arms by kind of prompt and in all; pass costs; what "auto" chose."""
    kinds = {kind.kind: kind.rows for kind in drafting_report.kinds} | {
        "in all": drafting_report.total
    }
    cells = {(row.arm, kind): row for kind, rows in kinds.items() for row in rows}
    table = _table(
        "Tokens a second × speed over drafting off; drafts accepted, tokens a pass", *kinds
    )
    for column in table.columns[1:]:
        column.no_wrap, column.width = False, CELL_WIDTH
    for arm in dict.fromkeys(arm for arm, _ in cells):
        rows = [cells.get((arm, kind)) for kind in kinds]
        table.add_row(arm, *(_speed_cell(row) if row else "" for row in rows))
    memory = (size_words(kind.memory_bytes) for kind in drafting_report.kinds)
    table.add_row("memory", *memory, style="dim")
    passes = " ".join(f"{ms:.1f}" for ms in drafting_report.verify_ms)
    count, head = len(drafting_report.verify_ms), drafting_report.head_ms
    lines = [f"A pass of 1 to {count} rows: {passes} ms; head {head:.1f} ms"]
    for row in drafting_report.total:
        if row.arm == "auto":
            rounds = ", ".join(f"{count} of depth {depth}" for depth, count in row.depths.items())
            lines.append(f"auto: rounds {rounds}{f' ({row.why.words})' if row.why else ''}")
    return Group(table, *map(Text, lines))


def _speed_cell(row: ArmFigures) -> Text:
    if not row.is_same and not row.is_peer:
        return Text("other text", style="bold red")
    if row.tokens_per_second is None or row.ratio is None:
        return Text("–")
    cell = Text(f"{row.tokens_per_second:.1f} × {row.ratio:.2f}", _ratio_style(row.ratio))
    if row.drafted:
        share = percent_words(row.accepted, row.drafted)
        cell.append(f"\n{share} {row.tokens / row.passes:.2f}", "default")
    return cell


def chats_table(chat_figures: tuple[ChatsRow, ...]) -> Table:
    """Table of a bench's speed with several chats answered at once and one by one."""
    columns = ("one by one", "at once", "times", "passes a token", "same words")
    table = _table(f"{chat_figures[0].chats} chats, tok/s of all", *columns)
    for row in chat_figures:
        passes = f"{row.alone_passes:.3f} → {row.passes:.3f}"
        speeds = (f"{row.alone:.1f}", f"{row.at_once:.1f}", f"{row.ratio:.2f}")
        table.add_row(row.arm, *speeds, passes, _is_same_cell(row.is_same))
    return table


def report_ending(report: BenchReport) -> Group:
    """Last lines of a bench: the overview, whether texts are equal, why parts are missing."""
    lines: list[Group | Text] = []
    if report.drafting is not None:
        lines.append(report_overview(report.drafting))
        rows = [row for kind in report.drafting.kinds for row in kind.rows]
        drafted = [row for row in rows if not row.is_peer and row.arm != OFF]
        if drafted and report.text_difference is None:
            tokens = sum(row.tokens for row in drafted)
            words = f"{len(drafted)} drafted texts, {tokens} tokens, all equal to plain text"
            lines.append(Text(f"Same words: {words}", style="green"))
    if report.text_difference is not None:
        lines.append(Text(f"NOT the same words: {report.text_difference}", style="bold red"))
    declined = [f"Declined ({reason.code}): {reason.words}" for reason in report.declined]
    lines += [Text(without_controls(words), style="yellow") for words in declined]
    if report.is_interrupted:
        lines.append(Text("Interrupted: this is what was complete by then.", style="yellow"))
    return Group(*lines)


def write_picture(report: BenchReport, path: Path) -> None:
    """Write an SVG of the heading and the overview. Raises OSError."""
    console = Console(record=True, width=WIDEST, file=StringIO(), force_terminal=True)
    console.print(report_heading(report), report_ending(report))
    svg = console.export_svg(title="headstart bench", theme=DEFAULT_TERMINAL_THEME)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # else viewers fetch the font
    path.write_text(svg, encoding="utf-8")
