"""`headstart chat`: a conversation in the terminal, or one answer for a script."""

import signal
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from mlx_engine.command_line.conversation import Chat, run_command
from mlx_engine.command_line.options import (
    cache_options,
    draft_options,
    generation_options,
    sampling_options,
    template_arguments,
)
from mlx_engine.command_line.outside import Outside, check_options, opened_model
from mlx_engine.command_line.screen import Screen, make_screen
from mlx_engine.command_line.typed_lines import Lines, typed_lines

if TYPE_CHECKING:
    from mlx_engine import Engine

INVITATION = "Type a message. /help lists the commands, Ctrl-C stops an answer."
SAVE_QUESTION = "Save this chat? y, n, or a name such as talk.md or talk.json [n]: "
NO, YES = ("", "n", "no"), ("y", "yes")
DEFAULT_NAME = "chat-%Y%m%d-%H%M%S.json"
TERMINATED = 128 + signal.SIGTERM
"""The exit status of a process that SIGTERM ended."""


def chat(arguments: Namespace, outside: Outside) -> int:
    """Talk until the user leaves; with --once, 2 when there was no answer."""
    check_options(arguments)
    screen = make_screen(outside.stdout, outside.stderr, plain=arguments.plain)
    with _exit_on_sigterm(), ExitStack() as stack:
        with screen.quiet_keys():  # keys typed while it loads wait for the first line
            lines = typed_lines(outside, screen, plain=arguments.plain)
            engine = stack.enter_context(opened_model(arguments, outside, screen.progress))
        chat = _chat_with(engine, arguments, outside, screen)
        chat.greet()
        if arguments.once is not None:
            return 0 if chat.send(arguments.once) else 2
        if outside.interactive:
            chat.explain_colours()
            screen.note(INVITATION)
        run_chat(chat, lines)
        offer_to_save(chat, lines)
    return 0


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Within, SIGTERM raises SystemExit, so that the terminal is left as it was."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _chat_with(engine: "Engine", arguments: Namespace, outside: Outside, screen: Screen) -> Chat:
    """Begin a conversation."""
    limits = generation_options(arguments)
    session = engine.session(
        system=arguments.system,
        sampling=sampling_options(arguments, engine.description.sampling),
        draft=draft_options(arguments),
        generation=limits,
        thinking=arguments.thinking,
        template_arguments=template_arguments(arguments.template_argument),
        cache=cache_options(arguments),
    )
    return Chat(engine, session, limits, screen, outside.backend())


def run_chat(chat: Chat, lines: Iterable[str]) -> None:
    """Take lines until they end or the user leaves, by /quit or a second Ctrl-C in an answer."""
    try:
        for line in lines:
            if line.startswith("//"):
                chat.send(line[1:])
            elif line.startswith("/"):
                run_command(chat, line)
            else:
                chat.send(line)
            if not chat.is_open:
                return
    except KeyboardInterrupt:
        chat.screen.note("")


def offer_to_save(chat: Chat, lines: Lines) -> None:
    """Ask for a file where messages would be lost, until one is written or none is wanted."""
    while chat.is_unsaved:
        answer = lines.ask(SAVE_QUESTION)
        if answer.lower() in NO:
            return
        name = time.strftime(DEFAULT_NAME) if answer.lower() in YES else answer
        run_command(chat, f"/save {name}")
