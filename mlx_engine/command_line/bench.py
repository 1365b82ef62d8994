"""The command that measures: tables as they come, one JSON line, one picture."""

import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, replace
from time import monotonic

from rich.console import RenderableType

from mlx_engine.command_line.options import given_options, load_options, sampling_options
from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import Screen, make_screen

WIDEST = 160
"""Columns a table may take: a file has no width, and a narrow terminal breaks lines by itself."""

WORD_S = 10.0
"""Seconds between two words on how far it is, where they cannot replace one another."""


def bench(arguments: Namespace, outside: Outside) -> int:
    """Print tables, with --json one JSON line after them; 1 when drafting changed a text.

    The tables step aside to stderr when --json goes into a pipe. Raises KeyboardInterrupt after
    the first Ctrl-C, once all that was measured is printed.
    """
    if arguments.dry_run is not None:
        return _dry_run(arguments, outside)
    from mlx_engine.bench.picture import check_picture, draw
    from mlx_engine.bench.report import Plan, quick_plan
    from mlx_engine.bench.run_bench import run_bench

    plan = quick_plan() if arguments.quick else Plan()
    plan = replace(
        plan,
        **given_options(arguments, Plan),
        sampling=sampling_options(arguments, plan.sampling),
    )
    if arguments.png is not None:
        check_picture(arguments.png)
    screen = make_screen(outside.stdout, outside.stderr, plain=False)
    console = screen.notes if arguments.json else screen.answers
    console.width = max(console.width, WIDEST)

    def show(table: RenderableType) -> None:
        screen.progress("")
        console.print(table)

    try:
        report = run_bench(
            arguments.model, plan, options=load_options(arguments), say=_teller(screen), show=show
        )
    finally:
        screen.progress("")
    if arguments.json:
        print(report.as_json(), file=outside.stdout)
    if arguments.png is not None:
        draw(report, arguments.png)
    if report.is_interrupted:
        raise KeyboardInterrupt
    return 0 if report.agreement.is_green else 1


def _teller(screen: Screen) -> Callable[[str], None]:
    """Tells how far it is: in place at a terminal, else a line now and then."""
    last = -WORD_S

    def tell(words: str) -> None:
        nonlocal last
        if screen.notes.is_terminal:
            screen.progress(words)
        elif monotonic() >= last + WORD_S:
            screen.note(words)
            last = monotonic()

    return tell


def _dry_run(arguments: Namespace, outside: Outside) -> int:
    """Print a table of every way of storing the model, or with --json a line of each."""
    from mlx_engine.bench.dry_run import FORMATS, dry_run, read_config, table_of

    config = read_config(arguments.dry_run)
    runs = [dry_run(config, form) for form in FORMATS]
    if arguments.json:
        for run in runs:
            print(json.dumps(asdict(run)), file=outside.stdout)
        return 0
    console = make_screen(outside.stdout, outside.stderr, plain=False).answers
    console.width = max(console.width, WIDEST)
    console.print(table_of(runs))
    return 0
