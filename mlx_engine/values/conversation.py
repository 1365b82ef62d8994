"""A conversation in values: messages, what it reports while it runs, and a raw generation.

Plain values, safe to hand to another thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlx_engine.values.options import DraftedBy, require
from mlx_engine.values.stats import GenerationStats, RoundStats

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["end", "stop-string", "max-tokens", "context-full", "memory-full", "stopped"]
Channel = Literal["answer", "thinking"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `thinking` is the model's reasoning, kept apart from `text`."""

    role: Role
    text: str
    thinking: str = ""


def sound_messages(given: Sequence[Message]) -> Sequence[Message]:
    """The same; BadOption for what is none, such as a message as a dict."""
    require("messages", given, "a list of Message(role, text)", lambda it: isinstance(it, Sequence))
    for message in given:
        require("message", message, "Message(role, text)", lambda one: isinstance(one, Message))
    return given


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Prompt tokens read so far; `reused` of them came from the cache of the turn before.

    head_rows: those of them that MTP heads have read since the last of these events.
    """

    done: int
    total: int
    reused: int = 0
    head_rows: int = 0


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Text that is final.

    depth: of the accepted draft token it came from, 0 for the model's own; source: who drafted it.
    """

    text: str
    channel: Channel = "answer"
    depth: int = 0
    source: DraftedBy | None = None


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """One pass of the target model."""

    stats: RoundStats


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    """The answer is complete; `text` and `thinking` are all of it."""

    reason: FinishReason
    stats: GenerationStats
    text: str
    thinking: str = ""


Event = PromptProgress | TextPiece | RoundFinished | GenerationFinished

TURN_ENDS = (PromptProgress, RoundFinished)
"""Events after which it is another conversation's turn, where several are answered at once."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What `Engine.generate` returns; `tokens` leaves out the end token."""

    text: str
    tokens: tuple[int, ...]
    stats: GenerationStats
    finish_reason: FinishReason
