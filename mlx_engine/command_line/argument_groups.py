"""Groups of arguments that several commands have, and how their values are read."""

import argparse
from pathlib import Path
from typing import Any, get_args

from mlx_engine.command_line.options import NUMBER_FIELDS, read_depth
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    DRAFT_VOCABULARY,
    SOURCES,
    AskedNumerics,
    CacheBits,
    DraftOutput,
    DraftRule,
)


def _depth(text: str) -> Any:
    try:
        return read_depth(text)
    except BadOption as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_model(parser: argparse.ArgumentParser) -> None:
    """MODEL, and how it is loaded."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a GGUF file, a model folder, or a hub id such as org/model or org/model-GGUF:Q4_K_M "
        "(default: the built-in model)",
    )
    group = parser.add_argument_group("loading")
    add_heads(group)
    group.add_argument(
        "--head-bits",
        type=int,
        choices=(4, 8),
        metavar="4|8",
        help="round heads that are not quantised to this many bits (default: as they are)",
    )
    group.add_argument(
        "--draft-model",
        metavar="MODEL",
        help="for --source model: a small model with the same tokenizer, or an EAGLE-3, DFlash or "
        "Gemma 4 assistant model made for this one",
    )
    group.add_argument(
        "--repack-cache",
        type=Path,
        metavar="DIR",
        help="keep repacked GGUF weights in this folder (default: repack at every load)",
    )
    group.add_argument(
        "--numerics",
        choices=get_args(AskedNumerics),
        help="exact: rows do not depend on the rows beside them (default: auto, exact where it "
        "costs at most 5 %% here)",
    )
    group.add_argument(
        "--context",
        dest="context_length",
        type=int,
        metavar="N",
        help="tokens at most (default: the model's own)",
    )
    group.add_argument(
        "--anyway",
        action="store_true",
        help="load a model that does not fit into memory by its plan, or whose --context does not",
    )


def add_heads(to: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """MTP heads from another file."""
    to.add_argument(
        "--heads", type=Path, metavar="PATH", help="take the MTP heads from this file instead"
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Bits of keys and values."""
    group = parser.add_argument_group("keys and values (fewer bits take less memory)")
    for name, whose in (("--cache-bits", "the model's"), ("--head-cache-bits", "those of heads")):
        group.add_argument(
            name,
            type=int,
            choices=get_args(CacheBits),
            metavar="16|8|4",
            help=f"of {whose} (default: 16, as they come)",
        )


def add_drafting(parser: argparse.ArgumentParser) -> None:
    """Who drafts, how many tokens, and how."""
    group = parser.add_argument_group("drafting (changes the speed, never the text)")
    group.add_argument(
        "--depth",
        type=_depth,
        metavar="auto|0..8",
        help="tokens drafted in a round (default: auto, as many as pay here)",
    )
    group.add_argument(
        "--source",
        "--draft-source",
        dest="source",
        choices=tuple(SOURCES),
        help="who drafts (default: mtp; model where a draft model is given)",
    )
    group.add_argument(
        "--draft-output",
        dest="output",
        choices=get_args(DraftOutput),
        help="output head that MTP heads draft with (default: full, the model's own)",
    )
    group.add_argument(
        "--draft-vocabulary",
        dest="vocabulary",
        type=int,
        metavar="N",
        help=f"tokens of --draft-output frequent (default: {DRAFT_VOCABULARY})",
    )
    group.add_argument(
        "--draft-rule",
        dest="rule",
        choices=get_args(DraftRule),
        help="how a head picks its tokens (default: shared-noise)",
    )
    group.add_argument(
        "--min-probability",
        type=float,
        metavar="P",
        help="end a draft before a token less likely than this (default: 0)",
    )


def add_sampling(
    parser: argparse.ArgumentParser,
    defaults: str = "what the model recommends",
    seed: str = "a new one every answer",
) -> None:
    """How tokens are picked; defaults, seed: what is said of those."""
    group = parser.add_argument_group(f"sampling (defaults: {defaults})")
    for name, read in NUMBER_FIELDS.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=read, metavar="X", help=_HELP[name])
    group.add_argument(
        "--logit-bias",
        action="append",
        metavar="ID:BIAS",
        help="add BIAS to a token's logit; may be repeated",
    )
    group.add_argument("--seed", type=int, metavar="N", help=f"(default: {seed})")


def add_limits(parser: argparse.ArgumentParser, max_tokens: int | None, words: str) -> None:
    """How long an answer may get; words: what is said of max_tokens."""
    group = parser.add_argument_group("length")
    group.add_argument(
        "--max-tokens", type=int, default=max_tokens, metavar="N", help=f"(default: {words})"
    )
    group.add_argument(
        "--stop",
        action="append",
        metavar="TEXT",
        help="end before this text; may be repeated",
    )
    group.add_argument(
        "--ignore-eos", action="store_true", help="go on past the model's own end of text"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """One JSON object in place of lines."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


_HELP = {
    "temperature": "0 is greedy",
    "top_k": "keep the K likeliest tokens; 0 is off",
    "top_p": "keep the likeliest tokens up to this probability; 1 is off",
    "min_p": "drop tokens less likely than this share of the likeliest; 0 is off",
    "repetition_penalty": "for tokens of prompt and answer; 1 is off",
    "presence_penalty": "for tokens of the answer, once; 0 is off",
    "frequency_penalty": "for tokens of the answer, each time; 0 is off",
}
