"""`headstart inspect`: what a file holds, what runs, what it needs, and what is declined."""

import json
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import WARNING, Screen, harmless, make_screen
from mlx_engine.values.model_description import ModelDescription, TensorGroup
from mlx_engine.values.words import count_words, size_words, token_words

SHORT_CONTEXT = 4096


def inspect(arguments: Namespace, outside: Outside) -> int:
    """Print a table, or with --json one object."""
    heads = Path(arguments.heads) if arguments.heads else None
    model = outside.inspect(arguments.model, heads=heads)
    if arguments.json:
        print(json.dumps(description_report(model)), file=outside.stdout)
    else:
        _show(model, make_screen(outside.stdout, outside.stderr, plain=False))
    return 0


def description_report(model: ModelDescription) -> dict[str, Any]:
    """All fields of ModelDescription, and memory_needed: context length -> bytes."""
    needed = {str(context): model.memory_needed(context) for context in _contexts(model)}
    return asdict(model) | {"memory_needed": needed}


def _contexts(model: ModelDescription) -> list[int]:
    return sorted({min(SHORT_CONTEXT, model.context_length), model.context_length})


def _show(model: ModelDescription, screen: Screen) -> None:
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(model):
        facts.add_row(name, Text(harmless(value)))
    groups = Table(box=None, pad_edge=False, header_style="dim")
    for header in ("weights", "tensors", "parameters", "size", "stored as"):
        groups.add_column(header, justify="left" if header in ("weights", "stored as") else "right")
    for group in model.groups:
        groups.add_row(
            Text(harmless(group.name)),
            str(group.tensors),
            count_words(group.parameters),
            _size(group),
            Text(harmless(group.storage)),
        )
    screen.answers.print(Text(harmless(model.name), style="bold"), soft_wrap=True)
    screen.answers.print(facts)
    if model.groups:
        screen.answers.print()
        screen.answers.print(groups)
    for reason in (*((model.mtp,) if model.mtp else ()), *model.declined):
        text = f"Declined ({reason.code}): {reason.words}"
        screen.answers.print(Text(harmless(text), style=WARNING), soft_wrap=True)


def _size(group: TensorGroup) -> str:
    """In memory, and before it in the file where that differs."""
    size = size_words(group.nbytes)
    if group.file_nbytes in (None, group.nbytes):
        return size
    return f"{size_words(group.file_nbytes or 0)} -> {size}"


def _parameters(model: ModelDescription) -> str:
    words = count_words(model.parameters)
    active = model.active_parameters
    return words if active is None else f"{words}, {count_words(active)} for each token"


def _memory(model: ModelDescription, context: int) -> str:
    """Which machine it is for is said: this one may have no Metal."""
    words = f"{size_words(model.memory_needed(context))} with Metal"
    other = model.without_metal
    if other is None:
        return words
    return f"{words}, {size_words(other.memory_needed(context))} without"


def _facts(model: ModelDescription) -> list[tuple[str, str]]:
    memory = [
        (f"memory at {token_words(context)}", _memory(model, context))
        for context in _contexts(model)
    ]
    return [
        ("file", model.path),
        ("architecture", model.architecture),
        ("parameters", _parameters(model)),
        ("size", f"{size_words(model.nbytes)} with Metal"),
        ("quantisation", model.quantisation),
        ("shape", f"{model.layers} layers, {model.hidden_size} wide, {model.vocabulary} tokens"),
        ("context", f"{token_words(model.context_length)} tokens"),
        ("MTP heads", f"{model.mtp_heads}{'' if model.mtp is None else ', not in use'}"),
        *memory,
    ]
