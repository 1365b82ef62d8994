"""The command line of `headstart`: commands and flags, parsed by argparse."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from mlx_engine.bench.report import ARMS, PARTS, PEERS, Part, parse_arm
from mlx_engine.command_line.options import READERS, read_count
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import DRAFT_VOCABULARY, SOURCES

CHAT_EXAMPLES = """examples:
  headstart chat                                   the built-in model
  headstart chat Qwen3.5-9B-Q4_K_M.gguf            a file, or a folder
  headstart chat org/model-GGUF:Q4_K_M             a model of the hub, downloaded once
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

Nine kinds of prompt, each answered by all arms in turn; figures are medians. A drafted text that
differs from the text without drafting gets no figures. Ctrl-C prints what was measured so far.
exit status: 0 when the texts agree, 1 when they do not
"""
DOCTOR_EXAMPLES = """examples:
  headstart doctor
  headstart doctor model.gguf
  headstart doctor --json | jq .ok

exit status: 0 when nothing failed, 1 when something did
"""
SERVE_EXAMPLES = """examples:
  headstart serve                                  the built-in model
  headstart serve model.gguf --port 9000 --parallel 8
  HEADSTART_API_KEY=secret headstart serve model/ --host 0.0.0.0
  curl localhost:8642/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hi"}]}' \\
       -H "Content-Type: application/json"

OpenAI's interface is at /v1 (models, chat/completions, responses, completions), Anthropic's at
/v1/messages; /openapi.json describes all. A request may hold draft settings: "draft": {"depth": 3}.
A body has 32 MiB at most, a conversation as many tokens as the model's context; beyond --parallel
answers 64 requests wait, others get status 429.
"""
MAIN_NOTES = """Without a command Headstart opens its window; without a display, the terminal chat.
`headstart PATH ...` and `headstart app [PATH ...]` open models, texts and hub links in the window.

exit status: 0 done, 1 a check failed, 2 bad input, 70 a bug of ours, 130 Ctrl-C
"""

LOADING = {
    "--heads PATH": "take the MTP heads from this file instead",
    "--vision FILE": "take the vision tower of a GGUF model (mmproj) from this file instead",
    "--head-bits 4|8": "quantise heads in 16 or 32 bits to this many (default: as they are)",
    "--draft-model MODEL": "for --source model: a small model with the same tokenizer, or an "
    "EAGLE-3, DFlash, DSpark or Gemma 4 assistant model made for this one",
    "--repack-cache DIR": "keep repacked GGUF weights in this folder (default: repack at every "
    "load)",
    "--numerics auto|exact|fast": "exact: the same text with drafting on and off, and beside other "
    "chats (default: auto, exact where that costs at most 5 %% on this machine)",
    "--activations auto|float16|bfloat16": "16-bit type to compute in (default: auto, float16 on "
    "M1 and M2, else the type that the model is stored in)",
    "--context N": "longest conversation in tokens (default: the model's own limit)",
    "--anyway": "load the model even if its memory plan says that it does not fit",
}
CACHE = {
    "--cache-bits 16|8|4": "of the model (default: 16, as computed)",
    "--head-cache-bits 16|8|4": "of heads and draft models (default: 16, as computed)",
}
DRAFTING_TITLE = "drafting (changes the speed, never the text)"
DRAFTING = {
    "--depth auto|0..8": "tokens drafted in a round (default: auto, as many as pay off on this "
    "machine)",
    "--source --draft-source SOURCE": f"what drafts: {', '.join(SOURCES)} (default: mtp; model "
    "with --draft-model)",
    "--draft-output full|4-bit|frequent": "output matrix that MTP heads draft with (default: full, "
    "that of the model)",
    "--draft-vocabulary N": f"tokens of --draft-output frequent (default: {DRAFT_VOCABULARY})",
    "--draft-rule shared-noise|greedy": "how a head picks its tokens (default: shared-noise)",
    "--min-probability P": "end a draft before a token less likely than this (default: 0)",
}
SAMPLING = {
    "--temperature X": "0 is greedy",
    "--top-k K": "keep the K likeliest tokens; 0 is off",
    "--top-p P": "keep the likeliest tokens up to this probability; 1 is off",
    "--min-p P": "drop tokens less likely than this share of the likeliest; 0 is off",
    "--repetition-penalty X": "for tokens of prompt and answer; 1 is off",
    "--presence-penalty X": "for tokens of the answer, once; 0 is off",
    "--frequency-penalty X": "for tokens of the answer, each time; 0 is off",
    "--xtc-probability P": "how often the likeliest tokens are left out but one; 0 is off",
    "--xtc-threshold P": "least probability of these; above 0.5 none is left out",
    "--dry-multiplier X": "penalty for tokens that prolong a repeated passage; 0 is off",
    "--dry-base X": "times as much for each further token of the passage",
    "--dry-allowed-length N": "tokens of a passage that is repeated for nothing",
    "--dry-penalty-last-n N": "tokens in which a passage is looked for; -1 is all",
    "--dry-sequence-breakers LIST": "texts that no passage reaches across, as a JSON list",
    "--logit-bias ID:BIAS": "add BIAS to a token's logit; may be repeated",
    "--seed N": "(default: {seed})",
}
LENGTH = {
    "--max-tokens N": "(default: {max_tokens})",
    "--max-thinking N": "close the thought after so many tokens (default: no limit)",
    "--schema FILE": "bind the answer to the JSON schema in this file",
    "--stop TEXT": "end before this text; may be repeated",
    "--ignore-eos": "go on past the model's own end of text",
}
SERVER = {
    "--host ADDRESS": "address to listen at (default: this computer alone)",
    "--port N": "(default: 8642)",
    "--api-key KEY": "what requests must show (default: HEADSTART_API_KEY); needed beyond this "
    "computer",
    "--parallel N": "answers at once (default: 4)",
    "--prompt-files FOLDER": "saves what was read there (4 GiB at most), so that it is not read "
    "again after a restart (default: nothing is saved)",
    "--name NAME": "a further name of this computer in requests; may be repeated",
    "--origin URL": "a web page that may ask; may be repeated",
}
FIELDS = {
    "--api-key": "key",
    "--name": "names",
    "--origin": "origins",
    "--context": "context_length",
    "--source": "source",
    "--draft-output": "output",
    "--draft-vocabulary": "vocabulary",
    "--draft-rule": "rule",
}
"""Fields of the options that some flags set; the other flags are named like their field."""

REPEATED = ("logit_bias", "stop", "template_argument", "image", "names", "origins")


class OneLineParser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print the error in a line on stderr and exit with status 2."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help says more)\n")


def parse_command_line(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; the result's `command` is the name of the command.

    Raises SystemExit with status 2 and one line on stderr when something is wrong.
    """
    form = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(
        prog="headstart",
        description="Chat with models that draft with their own heads.",
        epilog=MAIN_NOTES,
        formatter_class=form,
        allow_abbrev=False,
    )
    versions = f"Headstart {version('headstart')} (MLX {version('mlx')})"
    words = "the version, and MLX's"
    parser.add_argument("--version", action="version", version=versions, help=words)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (line, examples, add_arguments) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=line,
            description=line[0].upper() + line[1:] + ".",
            epilog=examples,
            formatter_class=form,
            allow_abbrev=False,
        )
        add_arguments(command)
    return parser.parse_args(arguments)


def _argument_reader(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make an argparse type of a parser function; reports BadOption in the error's own words."""

    def argument_type(text: str) -> Any:
        try:
            return read(text)
        except BadOption as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    argument_type.__name__ = getattr(read, "__name__", "value")  # argparse: "invalid float value"
    return argument_type


def _read_parts(text: str) -> tuple[Part, ...]:
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise BadOption(f"{name!r} is not one of {', '.join(PARTS)}")
    return tuple(part for part in PARTS if part in names)


def _read_contexts(text: str) -> tuple[int, ...]:
    """Read lengths such as "512,4k"; 1k are 1,024 tokens. Raises BadOption."""
    found = [re.fullmatch(r"([1-9]\d{0,6})(k?)", part) for part in text.lower().split(",")]
    if None in found:
        raise BadOption(f"{text!r} is no list of lengths: write 512,4k,16k, or the like.")
    return tuple(int(part[1]) * (1024 if part[2] else 1) for part in found if part)


def _read_arms(text: str) -> tuple[str, ...]:
    arms = tuple(text.split(","))
    for arm in arms:
        if arm not in PEERS:
            parse_arm(arm)
    return arms


def _add_flags(
    parser: argparse.ArgumentParser, title: str | None, flags: Mapping[str, str], **defaults: str
) -> None:
    """Add flags to a parser, as a group where there is a title; a flag not given is None.

    flags: help by flag and the name of its value; a flag without value is a switch. defaults:
    defaults of some flags in words.
    """
    group = parser.add_argument_group(title) if title else parser
    for usage, words in flags.items():
        names = [word for word in usage.split() if word.startswith("--")]
        field = FIELDS.get(names[0], names[0].removeprefix("--").replace("-", "_"))
        help_words = words.format(**defaults)
        if usage == " ".join(names):
            group.add_argument(
                *names, dest=field, action="store_true", default=None, help=help_words
            )
        else:
            group.add_argument(
                *names,
                dest=field,
                metavar=usage.split()[-1],
                type=_argument_reader(READERS.get(field, str)),
                action="append" if field in REPEATED else "store",
                help=help_words,
            )


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a GGUF file, a model folder, or a hub id such as org/model or org/model-GGUF:Q4_K_M "
        "(default: the built-in model)",
    )
    _add_flags(parser, "loading", LOADING)


def _add_options(parser: argparse.ArgumentParser, max_tokens: str) -> None:
    """Add the flags that an answer's options are read from; max_tokens: the default in words."""
    _add_flags(parser, DRAFTING_TITLE, DRAFTING)
    _add_flags(parser, "keys and values (fewer bits take less memory)", CACHE)
    title, seed = "sampling (defaults: what the model recommends)", "a new one for every answer"
    _add_flags(parser, title, SAMPLING, seed=seed)
    _add_flags(parser, "length", LENGTH, max_tokens=max_tokens)


def _add_chat(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    words = "let the model think first, or not (default: its template decides)"
    parser.add_argument("--thinking", action=argparse.BooleanOptionalAction, help=words)
    flags = {
        "--system TEXT": "system prompt (default: none)",
        "--template-argument NAME=VALUE": "for the chat template, such as preserve_thinking=true; "
        "may be repeated",
        "--image FILE": "a picture that goes with the first message; may be repeated",
        "--once QUESTION": "answer this question, then exit",
        "--plain": "no colours, no line editing",
    }
    _add_flags(parser, None, flags)
    _add_options(parser, "as many as the context holds")


def _add_generate(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    flags = {
        "--prompt TEXT": "(default: read it from stdin)",
        "--chat": "answer the prompt, through the model's chat template",
        "--json": "print one JSON object",
    }
    _add_flags(parser, None, flags)
    _add_options(parser, "256")
    parser.set_defaults(max_tokens=256)


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE", help="a GGUF file, a model folder or a hub id")
    parts = {flag: LOADING[flag] for flag in ("--heads PATH", "--vision FILE")}
    _add_flags(parser, None, parts | {"--json": "print one JSON object"})


def _add_bench(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    group = parser.add_argument_group("what is measured")
    add, count = group.add_argument, _argument_reader(read_count)
    add("--quick", action="store_true", help="measure about an eighth as much")
    words = f"some of {','.join(PARTS)} (default: all)"
    add("--only", dest="parts", type=_argument_reader(_read_parts), metavar="PARTS", help=words)
    words = "long prompts in place of the nine kinds, in tokens, such as 512,4k,16k,64k"
    add("--contexts", type=_argument_reader(_read_contexts), metavar="LENGTHS", help=words)
    words = (
        "what is compared with drafting off: depths, 4@0.5 for depth 4 with a min-probability, "
        f"draft sources, other programs (default: {','.join(ARMS)})"
    )
    add("--arms", type=_argument_reader(_read_arms), metavar="ARMS", help=words)
    words = "compare with llama.cpp's llama-server too, without and with draft-mtp"
    add("--llama-server", type=Path, metavar="PATH", help=words)
    add("--tokens", type=count, metavar="N", help="longest answer in tokens (default: 192)")
    add("--repeats", type=count, metavar="N", help="answers to every prompt (default: 2)")
    switch = "--ignore-eos"
    _add_flags(parser, "sampling (defaults: greedy)", SAMPLING, seed="1")
    _add_flags(parser, "length", {switch: LENGTH[switch]})
    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="print one JSON line at the end")
    add("--svg", type=Path, metavar="FILE", help="write a picture of the figures")


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    words = "also check whether this model fits into memory"
    parser.add_argument("model", nargs="?", metavar="MODEL", help=words)
    _add_flags(parser, None, {"--json": "print one JSON object"})


def _add_serve(parser: argparse.ArgumentParser) -> None:
    _add_model(parser)
    _add_flags(parser, "server", SERVER)
    _add_flags(parser, DRAFTING_TITLE, DRAFTING)


_COMMANDS: dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]] = {
    "chat": ("talk with a model in the terminal", CHAT_EXAMPLES, _add_chat),
    "generate": ("continue a raw prompt, or answer it", GENERATE_EXAMPLES, _add_generate),
    "inspect": ("describe a model without loading its weights", INSPECT_EXAMPLES, _add_inspect),
    "bench": ("measure speed and drafting here", BENCH_EXAMPLES, _add_bench),
    "serve": ("answer other programs over HTTP", SERVE_EXAMPLES, _add_serve),
    "doctor": ("check this machine and this installation", DOCTOR_EXAMPLES, _add_doctor),
}
