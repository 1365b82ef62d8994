"""`headstart chat`: a conversation in the terminal, or one answer for a script."""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from typing import TextIO

from mlx_engine.command_line.conversation import Chat, run_command
from mlx_engine.command_line.options import (
    draft_options,
    generation_options,
    sampling_options,
    template_arguments,
)
from mlx_engine.command_line.outside import Outside, opened_model
from mlx_engine.command_line.screen import PROMPT_MARK, make_screen
from mlx_engine.values.errors import BadPrompt


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
            template_arguments=template_arguments(arguments.template_argument),
        )
        chat = Chat(engine, session, limits, screen, outside.backend())
        chat.greet()
        if arguments.once is not None:
            return 0 if chat.send(arguments.once) else 2
        if outside.interactive:
            chat.invite()
        run_chat(chat, _lines(outside, plain=arguments.plain))
    return 0


def run_chat(chat: Chat, lines: Iterable[str]) -> None:
    """Take lines until they end or the user leaves, by /quit or Ctrl-C at the prompt."""
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


def _lines(outside: Outside, *, plain: bool) -> Iterator[str]:
    if not outside.interactive:
        return piped_lines(outside.stdin)
    if plain:
        return plain_typed_lines(outside.stdin, outside.stdout)
    return edited_lines()


def piped_lines(stream: TextIO) -> Iterator[str]:
    """Every line of `stream` that is not blank, trimmed; raises BadPrompt for other bytes."""
    try:
        for line in stream:
            if line.strip():
                yield line.strip()
    except UnicodeDecodeError as error:
        raise BadPrompt(f"What was piped in is not UTF-8 (byte {error.start}).") from None


def plain_typed_lines(stream: TextIO, prompt_to: TextIO) -> Iterator[str]:
    """The same with a prompt mark, for terminals that should get no control codes."""
    while True:
        prompt_to.write(PROMPT_MARK)
        prompt_to.flush()
        line = stream.readline()
        if not line:
            return
        if line.strip():
            yield line.strip()


def edited_lines() -> Iterator[str]:
    """Messages typed at the terminal; pasted line breaks and Alt-Enter stay inside a message.

    Ends at Ctrl-D. Raises KeyboardInterrupt at Ctrl-C.
    """
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(history=InMemoryHistory(), key_bindings=keys)
    while True:
        try:
            text = session.prompt(PROMPT_MARK).strip()
        except EOFError:
            return
        if text:
            yield text
