"""`headstart chat`: reads lines that are piped in, typed, or edited with prompt_toolkit."""

import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING

from mlx_engine.command_line.conversation import COMMANDS, Chat, run_line
from mlx_engine.command_line.options import session_options, template_arguments
from mlx_engine.command_line.runtime import Runtime, load_model
from mlx_engine.command_line.screen import PROMPT_MARK, Screen, make_screen
from mlx_engine.values.errors import BadPrompt
from mlx_engine.values.options import SamplingOptions
from mlx_engine.values.picture import read_picture

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

INVITATION = "Type a message. /help lists the commands, Ctrl-C stops an answer."
SAVE_QUESTION = "Save this chat? y, n, or a name such as talk.md or talk.json [n]: "
NO, YES = ("", "n", "no"), ("y", "yes")
DEFAULT_NAME = "chat-%Y%m%d-%H%M%S.json"
ReadLine = Callable[[str], str]
"""Shows a question and reads a line; raises EOFError at the end, KeyboardInterrupt for Ctrl-C."""

TERMINATED = 128 + signal.SIGTERM
"""Exit status of a process that SIGTERM ended."""


def make_line_reader(runtime: Runtime, screen: Screen, *, is_plain: bool) -> ReadLine:
    """Make the reader of a chat's lines: from a pipe, plainly typed, or with editing.

    Lines are edited by prompt_toolkit, with history and completion: pasted and Alt-Enter line
    breaks are kept, Ctrl-C clears the line, and on an empty line Ctrl-C and Ctrl-D leave.
    """
    if not is_plain and runtime.is_interactive and screen.understands_control_codes:
        return edited_lines()

    def read_line(question: str) -> str:
        if runtime.is_interactive:
            screen.answers.file.write(question)
            screen.answers.file.flush()
        try:
            line = runtime.stdin.readline()
        except UnicodeDecodeError as error:
            raise BadPrompt(f"What was piped in is not UTF-8 (byte {error.start}).") from None
        if not line:
            raise EOFError
        return line

    return read_line


def edited_lines() -> ReadLine:
    """Make a reader of lines that are edited with prompt_toolkit: history, completion, pastes."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=Condition(lambda: bool(get_app().current_buffer.text)))
    def _clear_line(event: KeyPressEvent) -> None:
        event.current_buffer.reset(append_to_history=True)  # Up brings it back

    session: PromptSession[str] = PromptSession(
        key_bindings=keys,
        completer=command_completer(),
        complete_while_typing=Condition(lambda: get_app().current_buffer.text.startswith("/")),
        enable_suspend=True,
        interrupt_exception=EOFError,
    )
    return session.prompt


def command_completer() -> "Completer":
    """Make a completer of slash commands, then of the words or file names that a command takes."""
    from prompt_toolkit.completion import (
        CompleteEvent,
        Completer,
        Completion,
        PathCompleter,
        WordCompleter,
    )
    from prompt_toolkit.document import Document

    helps = {f"/{name}": command.help for name, command in COMMANDS.items()}
    names = WordCompleter(list(helps), meta_dict=helps, sentence=True)
    arguments: dict[str, Completer] = {
        f"/{name}": PathCompleter(expanduser=True)
        if command.takes_file
        else WordCompleter(command.words, WORD=True)
        for name, command in COMMANDS.items()
    }

    class CommandCompleter(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterable[Completion]:
            name, space, rest = document.text_before_cursor.partition(" ")
            if not space:
                return names.get_completions(document, complete_event)
            completer = arguments.get(name)
            return completer.get_completions(Document(rest), complete_event) if completer else ()

    return CommandCompleter()


def chat(arguments: Namespace, runtime: Runtime) -> int:
    """Run `headstart chat` until the user leaves; return 2 if --once got no answer, else 0."""
    session_options(arguments, SamplingOptions())  # raises BadOption before the model is loaded
    pictures = tuple(read_picture(path) for path in arguments.image or ())
    screen = make_screen(runtime.stdout, runtime.stderr, is_plain=arguments.plain)
    with _exit_on_sigterm(), ExitStack() as stack:
        with screen.keys_unechoed():  # keys typed while it loads wait for the first line
            read_line = make_line_reader(runtime, screen, is_plain=arguments.plain)
            engine = stack.enter_context(
                closing(load_model(arguments, runtime, screen.show_status))
            )
        session = engine.session(
            system=arguments.system,
            thinking=arguments.thinking,
            template_arguments=template_arguments(arguments.template_argument or ()),
            **session_options(arguments, engine.description.sampling),
        )
        chat = Chat(engine, session, screen)
        chat.print_greeting(runtime.machine().words)
        chat.add_pictures(pictures)
        if arguments.once is not None:
            return 0 if chat.send(arguments.once) else 2
        if runtime.is_interactive:
            chat.explain_colours()
            screen.print_note(INVITATION)
        try:
            while chat.is_open:
                run_line(chat, read_line(PROMPT_MARK).strip())
        except EOFError:
            pass
        except KeyboardInterrupt:
            screen.print_note("")
        with suppress(EOFError, KeyboardInterrupt):
            while runtime.is_interactive and chat.is_unsaved:
                offer_to_save(chat, read_line(SAVE_QUESTION).strip())
    return 0


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Have SIGTERM raise SystemExit in this context, so that the terminal is restored."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def offer_to_save(chat: Chat, answer: str) -> None:
    """Save a chat as the user answered: to a name, to one of ours, or not at all."""
    if answer.lower() in NO:
        chat.saved = chat.session.messages
    else:
        name = time.strftime(DEFAULT_NAME) if answer.lower() in YES else answer
        run_line(chat, f"/save {name}")
