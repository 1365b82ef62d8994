"""`headstart bench`: measures a model on this machine and prints the figures."""

from argparse import Namespace

from mlx_engine.bench.card import card
from mlx_engine.bench.plan import Plan, quick_plan
from mlx_engine.bench.run_bench import run_bench
from mlx_engine.command_line.given_options import load_options
from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import make_screen


def bench(arguments: Namespace, outside: Outside) -> int:
    """Print tables, with --json one JSON line after them; 1 when drafting changed a text.

    The tables step aside to stderr when --json goes into a pipe.
    """
    screen = make_screen(outside.stdout, outside.stderr, plain=False)
    plan = quick_plan(arguments.only) if arguments.quick else Plan(arguments.only)
    try:
        report = run_bench(
            arguments.model, plan, options=load_options(arguments), say=screen.progress
        )
    finally:
        screen.progress("")
    console = screen.notes if arguments.json else screen.answers
    console.print(card(report))
    if arguments.json:
        print(report.as_json(), file=outside.stdout)
    return 0 if report.agreement.is_green else 1
