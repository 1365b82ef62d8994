"""What may be typed after `headstart`; knows argparse and nothing of what is done with it."""

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from mlx_engine.bench.report import ARMS, PARTS, PEERS, Part, draft_of
from mlx_engine.command_line.argument_groups import (
    add_cache,
    add_drafting,
    add_heads,
    add_json,
    add_limits,
    add_model,
    add_sampling,
)
from mlx_engine.values.errors import BadOption

CHAT_EXAMPLES = """examples:
  headstart chat                                   the built-in model
  headstart chat Qwen3.5-9B-Q4_K_M.gguf            a file, or a folder
  headstart chat org/model-GGUF:Q4_K_M             one of the hub, downloaded once
  headstart chat Qwen3.5-9B.gguf --heads mtp.gguf  heads from a second file
  headstart chat big/ --draft-model small/         a small model drafts
  headstart chat --source prompt-lookup+mtp        copies earlier text where it can
  headstart chat --depth 3 --temperature 0.2 --seed 1
  headstart chat --once "What is a head start?" > answer.txt
"""
GENERATE_EXAMPLES = """examples:
  headstart generate model.gguf --prompt "def fib(n):" --max-tokens 64
  headstart generate model.gguf --chat --prompt "Why is the sky blue?"
  cat prompt.txt | headstart generate model/ --json | jq .stats.tokens_per_second
"""
INSPECT_EXAMPLES = """examples:
  headstart inspect Qwen3.5-9B-Q4_K_M.gguf
  headstart inspect model/ --json | jq .mtp_heads
"""
BENCH_EXAMPLES = """examples:
  headstart bench                                  the built-in model
  headstart bench model/ --quick --svg figures.svg
  headstart bench model/ --only drafting --arms 3,auto --tokens 600 --ignore-eos --temperature 0.8
  headstart bench model.gguf --llama-server llama.cpp/build/bin/llama-server
  headstart bench model/ --json | jq .drafting.total

Nine kinds of prompt, each answered by all in turn, there and back; medians. A drafted text that is
not the text of drafting off has no figures. Ctrl-C prints what was measured so far.
exit status: 0 when the texts agree, 1 when they do not
"""
DOCTOR_EXAMPLES = """examples:
  headstart doctor
  headstart doctor model.gguf
  headstart doctor --json | jq .ok

exit status: 0 when nothing failed, 1 when something did
"""
MAIN_NOTES = """Without a command Headstart opens its window; without a display, the chat.
`headstart PATH ...` and `headstart app [PATH ...]` open models, texts and hub links in the window.

exit status: 0 done, 1 a check failed, 2 bad input, 70 a bug of ours, 130 Ctrl-C
"""


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line instead of printing the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help says more)\n")


class _Version(argparse.Action):
    """Looked up on use."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"Headstart {version('headstart')} (MLX {version('mlx')})")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; parsed arguments carry the command's name as `command`."""
    parser = OneLineParser(
        prog="headstart",
        description="Chat with models that draft with their own heads.",
        epilog=MAIN_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="the version, and MLX's")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (line, examples, add_arguments) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=line,
            description=line[0].upper() + line[1:] + ".",
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add_arguments(command)
    return parser


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Raises SystemExit with status 2 and one line on stderr when something is wrong."""
    return build_parser().parse_args(arguments)


def _add_chat(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--system", metavar="TEXT", help="system prompt (default: none)")
    parser.add_argument(
        "--thinking",
        action=argparse.BooleanOptionalAction,
        help="let the model think first, or not (default: as its template has it)",
    )
    parser.add_argument(
        "--template-argument",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for the chat template, such as preserve_thinking=true; may be repeated",
    )
    parser.add_argument("--once", metavar="QUESTION", help="answer this one and leave")
    parser.add_argument("--plain", action="store_true", help="no colours, no line editing")
    add_drafting(parser)
    add_cache(parser)
    add_sampling(parser)
    add_limits(parser, None, "as many as the context holds")


def _add_generate(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--prompt", metavar="TEXT", help="(default: read it from stdin)")
    parser.add_argument(
        "--chat", action="store_true", help="answer the prompt, through the model's chat template"
    )
    add_json(parser)
    add_drafting(parser)
    add_cache(parser)
    add_sampling(parser)
    add_limits(parser, 256, "256")


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE", help="a GGUF file, a model folder or a hub id")
    add_heads(parser)
    add_json(parser)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    group = parser.add_argument_group("what is measured")
    group.add_argument("--quick", action="store_true", help="less of everything")
    group.add_argument(
        "--only",
        dest="parts",
        type=_parts,
        metavar="PARTS",
        help=f"some of {','.join(PARTS)} (default: all)",
    )
    group.add_argument(
        "--arms",
        type=_arms,
        metavar="ARMS",
        help="who takes part beside off: depths, 4@0.5 for depth 4 and a least probability, "
        f"sources of drafts, and other programs (default: {','.join(ARMS)})",
    )
    group.add_argument(
        "--llama-server",
        type=Path,
        metavar="PATH",
        help="llama.cpp's llama-server, which then takes part, without and with draft-mtp",
    )
    group.add_argument("--tokens", type=_count, metavar="N", help="of an answer (default: 192)")
    group.add_argument(
        "--repeats", type=_count, metavar="N", help="answers to every prompt (default: 2)"
    )
    group.add_argument(
        "--ignore-eos",
        action="store_true",
        default=None,
        help="go on past the model's own end of text",
    )
    add_sampling(parser, "greedy", "1")
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="end with one JSON line")
    group.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the figures")


def _parts(text: str) -> tuple[Part, ...]:
    names = text.split(",")
    wrong = [name for name in names if name not in PARTS]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not one of {', '.join(PARTS)}")
    return tuple(part for part in PARTS if part in names)


def _arms(text: str) -> tuple[str, ...]:
    arms = tuple(text.split(","))
    try:
        for arm in arms:
            if arm not in PEERS:
                draft_of(arm)
    except BadOption as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return arms


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="tell whether this one fits into memory here, too"
    )
    add_json(parser)


_COMMANDS: dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]] = {
    "chat": ("talk with a model in the terminal", CHAT_EXAMPLES, _add_chat),
    "generate": ("continue a raw prompt, or answer it", GENERATE_EXAMPLES, _add_generate),
    "inspect": ("describe a model without loading its weights", INSPECT_EXAMPLES, _add_inspect),
    "bench": ("measure speed, drafting and memory here", BENCH_EXAMPLES, _add_bench),
    "doctor": ("check this machine and this installation", DOCTOR_EXAMPLES, _add_doctor),
}
