"""Messages of a user: piped in, typed at a plain terminal, or edited with prompt_toolkit."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TextIO

from mlx_engine.command_line.conversation import COMMANDS
from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import PROMPT_MARK, Screen
from mlx_engine.values.errors import BadPrompt

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.key_binding import KeyBindings


def typed_lines(outside: Outside, screen: Screen, *, plain: bool) -> "Lines":
    """Choose how the lines of a chat are read."""
    if not outside.interactive:
        return Lines(outside.stdin, screen)
    if plain or not screen.takes_codes:
        return PlainLines(outside.stdin, screen)
    return EditedLines(outside.stdin, screen)


class Lines:
    """Lines of a stream that nobody types at."""

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        self._stream, self._screen = stream, screen

    def __iter__(self) -> Iterator[str]:
        """Stripped lines that are not blank, until the user leaves; raises BadPrompt."""
        try:
            yield from filter(None, map(str.strip, self._stream))
        except UnicodeDecodeError as error:
            raise BadPrompt(f"What was piped in is not UTF-8 (byte {error.start}).") from None

    def ask(self, _question: str) -> str:
        """Ask for one more line; "" when there is no answer."""
        return ""


class PlainLines(Lines):
    """Lines typed after a mark, without control codes; the second Ctrl-C in a row leaves."""

    def __iter__(self) -> Iterator[str]:
        """As Lines."""
        presses = 0
        while presses < 2:
            try:
                line = self._read(PROMPT_MARK)
            except KeyboardInterrupt:
                presses += 1
                self._screen.note("" if presses == 2 else "\nCtrl-C once more leaves.")
                continue
            presses = 0
            if not line:
                return
            if line.strip():
                yield line.strip()

    def _read(self, question: str) -> str:
        self._screen.answers.file.write(question)
        self._screen.answers.file.flush()
        return self._stream.readline()

    def ask(self, question: str) -> str:
        """As Lines."""
        try:
            return self._read(question).strip()
        except KeyboardInterrupt:
            return ""


class EditedLines(Lines):
    """Lines with history and completion; pasted line breaks and Alt-Enter stay in a message.

    Ctrl-C clears the line, and leaves where it is empty, as Ctrl-D does.
    """

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        super().__init__(stream, screen)
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
        """As Lines."""
        while True:
            try:
                text = self._session.prompt(PROMPT_MARK).strip()
            except EOFError:
                return
            if text:
                yield text

    def ask(self, question: str) -> str:
        """As Lines."""
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
    """Complete commands, then their words or names of files."""
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
