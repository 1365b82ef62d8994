"""`headstart chat`: reads lines that are piped in, typed, or edited with prompt_toolkit."""

import signal
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TextIO

from mlx_engine.command_line.conversation import COMMANDS, Chat, run_command
from mlx_engine.command_line.options import (
    cache_options,
    draft_options,
    generation_options,
    sampling_options,
    template_arguments,
)
from mlx_engine.command_line.runtime import Runtime, check_options, opened_model
from mlx_engine.command_line.screen import PROMPT_MARK, Screen, make_screen
from mlx_engine.values.errors import BadPrompt

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.key_binding import KeyBindings

    from mlx_engine import Engine

INVITATION = "Type a message. /help lists the commands, Ctrl-C stops an answer."
SAVE_QUESTION = "Save this chat? y, n, or a name such as talk.md or talk.json [n]: "
NO, YES = ("", "n", "no"), ("y", "yes")
DEFAULT_NAME = "chat-%Y%m%d-%H%M%S.json"
TERMINATED = 128 + signal.SIGTERM
"""Exit status of a process that SIGTERM ended."""


class Lines:
    """Lines of a chat, read from a stream; typed at a terminal, a second Ctrl-C in a row leaves.

    is_typed: whether a person types the lines, which then follow a prompt mark.
    """

    def __init__(self, stream: TextIO, screen: Screen, *, is_typed: bool) -> None:
        self._stream, self._screen, self._is_typed = stream, screen, is_typed

    def __iter__(self) -> Iterator[str]:
        """Yield stripped lines that are not blank, until the user leaves; raises BadPrompt."""
        presses = 0
        while presses < 2:
            try:
                line = self._read(PROMPT_MARK)
            except UnicodeDecodeError as error:
                raise BadPrompt(f"What was piped in is not UTF-8 (byte {error.start}).") from None
            except KeyboardInterrupt:
                if not self._is_typed:
                    raise
                presses += 1
                self._screen.note("" if presses == 2 else "\nCtrl-C once more leaves.")
                continue
            presses = 0
            if not line:
                return
            if line.strip():
                yield line.strip()

    def ask(self, question: str) -> str:
        """Ask the user a question and return the answer; "" for none, or if nobody can be asked."""
        try:
            return self._read(question).strip() if self._is_typed else ""
        except KeyboardInterrupt:
            return ""

    def _read(self, question: str) -> str:
        if self._is_typed:
            self._screen.answers.file.write(question)
            self._screen.answers.file.flush()
        return self._stream.readline()


class EditedLines(Lines):
    """Lines of a chat, typed in an editor with history and completion (prompt_toolkit).

    Pasted and Alt-Enter line breaks are kept. Ctrl-C clears the line; on an empty line Ctrl-C and
    Ctrl-D leave.
    """

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        super().__init__(stream, screen, is_typed=True)
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition

        self._session: PromptSession[str] = PromptSession(
            key_bindings=_keys(),
            completer=_completer(),
            complete_while_typing=Condition(
                lambda: self._session.default_buffer.text.startswith("/")
            ),
            enable_suspend=True,
            interrupt_exception=EOFError,
        )

    def __iter__(self) -> Iterator[str]:
        """Yield stripped lines that are not blank, until the user leaves."""
        while True:
            try:
                text = self._session.prompt(PROMPT_MARK).strip()
            except EOFError:
                return
            if text:
                yield text

    def ask(self, question: str) -> str:
        """Ask the user a question and return the answer; "" for none."""
        try:
            return self._session.prompt(question).strip()
        except EOFError:
            return ""


def _keys() -> "KeyBindings":
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=Condition(lambda: bool(get_app().current_buffer.text)))
    def _clear(event: KeyPressEvent) -> None:
        event.current_buffer.reset(append_to_history=True)  # Up brings it back

    return keys


def _completer() -> "Completer":
    """Make a completer of slash commands, then of the words or file names that a command takes."""
    from prompt_toolkit.completion import (
        CompleteEvent,
        Completer,
        Completion,
        PathCompleter,
        WordCompleter,
    )
    from prompt_toolkit.document import Document

    names = WordCompleter(
        [f"/{name}" for name in COMMANDS],
        meta_dict={f"/{name}": command.help for name, command in COMMANDS.items()},
        sentence=True,
    )
    files = PathCompleter(expanduser=True)

    class CommandCompleter(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterable[Completion]:
            name, space, rest = document.text_before_cursor.partition(" ")
            if not name.startswith("/"):
                return []
            if not space:
                return names.get_completions(document, complete_event)
            command = COMMANDS.get(name[1:])
            if command is not None and command.takes_file:
                return files.get_completions(Document(rest), complete_event)
            words = WordCompleter(command.words if command else [], WORD=True)
            return words.get_completions(Document(rest), complete_event)

    return CommandCompleter()


def typed_lines(runtime: Runtime, screen: Screen, *, plain: bool) -> "Lines":
    """Make the reader of a chat's lines: from a pipe, plainly typed, or with editing."""
    is_typed = runtime.interactive
    if plain or not is_typed or not screen.takes_codes:
        return Lines(runtime.stdin, screen, is_typed=is_typed)
    return EditedLines(runtime.stdin, screen)


def chat(arguments: Namespace, runtime: Runtime) -> int:
    """Run `headstart chat` until the user leaves; return 2 if --once got no answer, else 0."""
    check_options(arguments)
    screen = make_screen(runtime.stdout, runtime.stderr, plain=arguments.plain)
    with _exit_on_sigterm(), ExitStack() as stack:
        with screen.quiet_keys():  # keys typed while it loads wait for the first line
            lines = typed_lines(runtime, screen, plain=arguments.plain)
            engine = stack.enter_context(opened_model(arguments, runtime, screen.progress))
        chat = _chat_with(engine, arguments, runtime, screen)
        chat.greet()
        if arguments.once is not None:
            return 0 if chat.send(arguments.once) else 2
        if runtime.interactive:
            chat.explain_colours()
            screen.note(INVITATION)
        run_chat(chat, lines)
        offer_to_save(chat, lines)
    return 0


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Have SIGTERM raise SystemExit in this context, so that the terminal is restored."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _chat_with(engine: "Engine", arguments: Namespace, runtime: Runtime, screen: Screen) -> Chat:
    """Begin a chat with the options of the command line."""
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
    return Chat(engine, session, limits, screen, runtime.machine().words)


def run_chat(chat: Chat, lines: Lines) -> None:
    """Answer a chat's lines until they end or the user leaves, by /quit or a second Ctrl-C."""
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
    """Offer to save chat messages that would be lost, until a file is written or none is wanted."""
    while chat.is_unsaved:
        answer = lines.ask(SAVE_QUESTION)
        if answer.lower() in NO:
            return
        name = time.strftime(DEFAULT_NAME) if answer.lower() in YES else answer
        run_command(chat, f"/save {name}")
