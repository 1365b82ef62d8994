"""A conversation at a terminal: what is in effect, and answers that Ctrl-C stops."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from mlx_engine.command_line.screen import WARNING, Screen, show_answer
from mlx_engine.values.conversation import Event
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import MAX_DEPTH, GenerationOptions
from mlx_engine.values.words import count_words

if TYPE_CHECKING:
    from mlx_engine import Engine, Session

LEGEND_DEPTH = 4


@contextmanager
def stopped_by_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Within, the first SIGINT calls `stop` and the next raises KeyboardInterrupt.

    Works on the main thread only, where Python lets signals be handled.
    """
    presses = 0

    def pressed(_signal: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt
        stop()

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class Chat:
    """One conversation at a terminal; `is_open` turns false when the user leaves."""

    engine: "Engine"
    session: "Session"
    generation: GenerationOptions
    thinking: bool | None
    screen: Screen
    backend: str
    is_open: bool = True

    def send(self, text: str) -> bool:
        """Answer a message."""
        return self.answer(lambda: self.session.send(text))

    def answer(self, ask: Callable[[], Iterator[Event]]) -> bool:
        """Show an answer to its end; Ctrl-C stops it, an error becomes one line and False."""
        try:
            with stopped_by_interrupt(self.session.stop):
                show_answer(ask(), self.screen)
        except EngineError as error:
            self.screen.note(str(error), WARNING)
            return False
        return True

    def start_over(self) -> None:
        """A new conversation with the settings of this one."""
        old = self.session
        self.session = self.engine.session(
            old.system, old.sampling, old.draft, self.generation, self.thinking
        )

    def greet(self) -> None:
        """What is loaded, what is in effect, and why anything is off."""
        model = self.engine.description
        heads = f"{model.mtp_heads} MTP head{'s' if model.mtp_heads != 1 else ''}"
        self.screen.note(
            f"{model.name} · {count_words(model.parameters)} parameters · {model.quantisation} · "
            f"{heads if model.mtp_heads else 'no MTP heads'} · numerics {model.numerics} · "
            f"{self.backend}",
            "bold",
        )
        for reason in model.declined:
            self.screen.note(reason.words, WARNING)
        self.explain_drafting()

    def invite(self) -> None:
        """How to use the chat."""
        self.screen.note("Type a message. /help lists the commands, Ctrl-C stops an answer.")
        if self.screen.has_colours and self.session.why_not_drafting is None:
            deepest = self.session.draft.depth
            self.screen.legend(LEGEND_DEPTH if deepest == "auto" else min(deepest, MAX_DEPTH))

    def explain_drafting(self) -> None:
        """Say why nothing will be drafted, if so."""
        reason = self.session.why_not_drafting
        if reason is not None:
            self.screen.note(reason.words, WARNING)
        elif self.session.draft.depth == 0:
            self.screen.note("Drafting is off: the depth is set to 0.", WARNING)
