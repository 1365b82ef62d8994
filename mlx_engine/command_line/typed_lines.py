"""Messages of a user: piped in, typed at a plain terminal, or edited, also while a model loads."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, TextIO

from mlx_engine.command_line.conversation import COMMANDS
from mlx_engine.command_line.outside import Outside
from mlx_engine.command_line.screen import PROMPT_MARK, Screen
from mlx_engine.values.errors import BadPrompt

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings

TERMINATED = 128 + signal.SIGTERM
"""The exit status that shells know."""


@contextmanager
def typed_lines(outside: Outside, screen: Screen, *, plain: bool) -> Iterator["Lines"]:
    """Those of a chat; where they can be edited, the first is asked for at once."""
    if not outside.interactive:
        yield Lines(outside.stdin, screen)
    elif plain or not screen.takes_codes:
        yield PlainLines(outside.stdin, screen)
    else:
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
        lines = EditedLines(outside.stdin, screen)
        lines.begin()
        try:
            yield lines
        finally:
            lines.close()  # which leaves the terminal as it was
            signal.signal(signal.SIGTERM, before)


class Lines:
    """Lines that nobody has to be asked for: all of a stream."""

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        self._stream, self._screen = stream, screen

    def __iter__(self) -> Iterator[str]:
        """Lines until the user leaves, none blank, trimmed; raises BadPrompt for other bytes."""
        try:
            yield from filter(None, map(str.strip, self._stream))
        except UnicodeDecodeError as error:
            raise BadPrompt(f"What was piped in is not UTF-8 (byte {error.start}).") from None

    def ask(self, _question: str) -> str:
        """One more line, "" when there is no answer."""
        return ""

    def progress(self, words: str) -> None:
        """Show how far a load is, "" for nothing."""
        self._screen.progress(words)

    def are_over(self) -> bool:
        """Whether the user has left before a model was there."""
        return False

    def set_aside(self) -> None:
        """Take the line that is being typed off the screen; it comes back as it was."""


class PlainLines(Lines):
    """Asked for by a mark and without control codes; the second Ctrl-C in a row leaves."""

    def __iter__(self) -> Iterator[str]:
        """As above; a blank line is asked for again."""
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
        """As above."""
        try:
            return self._read(question).strip()
        except KeyboardInterrupt:
            return ""


class _SetAside(Exception):
    """A line is taken off the screen."""


class EditedLines(Lines):
    """Lines with history and completion; pasted line breaks and Alt-Enter stay inside a message.

    Ctrl-C clears what is typed, and leaves where nothing is, as Ctrl-D does. Lines are typed on a
    thread of their own, for the one that loads a model belongs to its engine.
    """

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        super().__init__(stream, screen)
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.styles import Style

        self._session: PromptSession[str] = PromptSession(
            key_bindings=_keys(),
            completer=_completer(),
            complete_while_typing=Condition(
                lambda: self._session.default_buffer.text.startswith("/")
            ),
            interrupt_exception=EOFError,
            style=Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack"}),
        )
        self._typed: Document | str = ""
        self._line: Future[str] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="typed lines")
        self._thread.start()

    def __iter__(self) -> Iterator[str]:
        """Lines until the user leaves."""
        while True:
            try:
                text = self._next(PROMPT_MARK)
            except EOFError:
                return
            if text:
                yield text

    def begin(self, question: str = PROMPT_MARK) -> "Future[str]":
        """Ask for the next line, and do not wait for it."""
        asked = self._session.prompt_async(question, default=self._typed)
        self._typed = ""
        self._line = asyncio.run_coroutine_threadsafe(asked, self._loop)
        return self._line

    def _next(self, question: str) -> str:
        """Raises EOFError."""
        line = self._line or self.begin(question)
        text = line.result().strip()
        self._line = None
        return text

    def ask(self, question: str) -> str:
        """As above."""
        self._line = None
        try:
            return self._next(question)
        except EOFError:
            return ""

    def progress(self, words: str) -> None:
        """Below the line, or in its place when it was sent."""
        if self._line is None or self._line.done():
            self._screen.progress(words)
        self._session.bottom_toolbar = words or None
        self._session.app.invalidate()

    def are_over(self) -> bool:
        """Whether the user left while nobody waited for a line."""
        line = self._line
        return line is not None and line.done() and isinstance(line.exception(), EOFError)

    def set_aside(self) -> None:
        """As above; what was sent already is the next line."""
        line = self._line
        if line is None or line.done():
            return
        asyncio.run_coroutine_threadsafe(self._set_aside(line), self._loop).result()
        if isinstance(line.exception(), _SetAside):
            self._line = None

    async def _set_aside(self, line: "Future[str]") -> None:
        app = self._session.app
        while not (app.is_running or line.done()):
            await asyncio.sleep(0.01)
        if app.is_running and not app.is_done:
            self._typed = self._session.default_buffer.document
            app.erase_when_done = True
            app.exit(exception=_SetAside)
        while not line.done():
            await asyncio.sleep(0.01)
        app.erase_when_done = False

    def close(self) -> None:
        """Ask for nothing any more."""
        self.set_aside()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _keys() -> "KeyBindings":
    from prompt_toolkit.application import get_app, run_in_terminal
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()
    is_typed = Condition(lambda: bool(get_app().current_buffer.text))

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c", filter=is_typed)
    def _clear(event: KeyPressEvent) -> None:
        event.current_buffer.reset(append_to_history=True)  # Up brings it back

    @keys.add("c-z")
    def _rest(_: KeyPressEvent) -> None:
        # prompt_toolkit's own way signals the process, where another thread may take it later:
        # the line would be back on the screen before the shell's
        run_in_terminal(lambda: signal.raise_signal(signal.SIGTSTP))

    return keys


def _completer() -> "Completer":
    """Commands with what they do, then their words or files."""
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document

    files = PathCompleter(expanduser=True)

    class OfCommands(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterable[Completion]:
            slash, _, text = document.text_before_cursor.partition("/")
            name, space, rest = text.partition(" ")
            if slash or not document.text_before_cursor:
                return
            if not space:
                for other, told in COMMANDS.items():
                    if other.startswith(name):
                        yield Completion(other, -len(name), display_meta=told.help)
                return
            typed = rest.rpartition(" ")[2]
            command = COMMANDS.get(name)
            for word in command.words if command else ():
                if word.startswith(typed):
                    yield Completion(word, -len(typed))
            if command and command.takes_file:
                yield from files.get_completions(Document(rest), complete_event)

    return OfCommands()
