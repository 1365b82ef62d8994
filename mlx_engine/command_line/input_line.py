"""What the user types: an editable line with history at a terminal, plain lines from a pipe."""

from collections.abc import Iterator
from typing import TextIO

from mlx_engine.command_line.screen import PROMPT_MARK
from mlx_engine.values.errors import BadPrompt


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
