"""`headstart chat`: a conversation in the terminal, or one answer for a script."""

from argparse import Namespace
from collections.abc import Iterator

from mlx_engine.command_line.chat import Chat, run_chat
from mlx_engine.command_line.given_options import (
    draft_options,
    generation_options,
    sampling_options,
)
from mlx_engine.command_line.input_line import edited_lines, piped_lines, plain_typed_lines
from mlx_engine.command_line.open_model import opened_model
from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import make_screen


def chat(arguments: Namespace, outside: Outside) -> int:
    """Talk until the user leaves; with --once, 2 when there was no answer."""
    screen = make_screen(outside.stdout, outside.stderr, plain=arguments.plain)
    with opened_model(arguments, outside, screen) as engine:
        limits = generation_options(arguments)
        session = engine.session(
            system=arguments.system,
            sampling=sampling_options(arguments, engine.description.sampling),
            draft=draft_options(arguments),
            generation=limits,
            thinking=arguments.thinking,
        )
        chat = Chat(engine, session, limits, arguments.thinking, screen, outside.backend())
        chat.greet()
        if arguments.once is not None:
            return 0 if chat.send(arguments.once) else 2
        if outside.interactive:
            chat.invite()
        run_chat(chat, _lines(outside, plain=arguments.plain))
    return 0


def _lines(outside: Outside, *, plain: bool) -> Iterator[str]:
    if not outside.interactive:
        return piped_lines(outside.stdin)
    if plain:
        return plain_typed_lines(outside.stdin, outside.stdout)
    return edited_lines()
