"""`headstart generate`: continue a raw prompt, as text or as one JSON object."""

import json
from argparse import Namespace
from dataclasses import asdict
from typing import Any

from mlx_engine.command_line.figures import status_line
from mlx_engine.command_line.given_options import draft_options, sampling_options
from mlx_engine.command_line.open_model import opened_model
from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import WARNING, make_screen
from mlx_engine.values.conversation import Generation
from mlx_engine.values.errors import BadPrompt


def generate(arguments: Namespace, outside: Outside) -> int:
    """Print the continuation to stdout, its figures to stderr."""
    screen = make_screen(outside.stderr, outside.stderr, plain=False)
    prompt = arguments.prompt if arguments.prompt is not None else _read_prompt(outside)
    with opened_model(arguments, outside, screen) as engine:
        draft = draft_options(arguments)
        why_not = engine.session(draft=draft).why_not_drafting
        if why_not is not None and draft.source != "none" and draft.depth != 0:
            screen.note(why_not.words, WARNING)
        made = engine.generate(
            prompt,
            max_tokens=arguments.max_tokens,
            sampling=sampling_options(arguments, engine.description.sampling),
            draft=draft,
            stop=tuple(arguments.stop),
            ignore_eos=arguments.ignore_eos,
        )
        if arguments.json:
            report = generation_report(engine.description.name, made)
            print(json.dumps(report), file=outside.stdout)
        else:
            print(made.text, file=outside.stdout)
            screen.note(status_line(made.stats))
    return 0


def generation_report(model: str, made: Generation) -> dict[str, Any]:
    """Keys: model, text, tokens, finish_reason, stats (GenerationStats and its acceptance)."""
    return {
        "model": model,
        "text": made.text,
        "tokens": list(made.tokens),
        "finish_reason": made.finish_reason,
        "stats": asdict(made.stats) | {"acceptance": made.stats.acceptance},
    }


def _read_prompt(outside: Outside) -> str:
    try:
        text = outside.stdin.read()
    except UnicodeDecodeError as error:
        raise BadPrompt(f"The prompt on stdin is not UTF-8 (byte {error.start}).") from None
    if not text:
        raise BadPrompt("There is no prompt: give --prompt TEXT, or pipe it in.")
    return text
