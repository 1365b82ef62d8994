"""Values of a conversation: messages, events of an answer, a finished generation, settings.

All values but the settings are frozen and may be passed to another thread.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, NamedTuple

from mlx_engine.values.options import (
    UNQUANTISED,
    CacheOptions,
    DraftedBy,
    DraftOptions,
    GenerationOptions,
    SamplingOptions,
    TemplateValue,
    require,
)
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats, RoundStats
from mlx_engine.values.words import Words

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["end", "stop-string", "max-tokens", "context-full", "memory-full", "stopped"]
Channel = Literal["answer", "thinking"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may ask to be called.

    parameters: JSON schema of its arguments. strict: bind an answer's calls to the schemas of all
    tools of the chat, by a grammar.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    def __post_init__(self) -> None:
        allowed = Words("letters, digits, points, hyphens and underscores, 64 at most")
        require("tool", self.name, allowed, re.compile(r"[\w.-]{1,64}", re.ASCII).fullmatch)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for; also an event of an answer. arguments: a JSON object."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat; `thinking` is the model's reasoning, kept apart from `text`.

    calls: tool calls that an answer asks for. call_id: of the call whose result a tool's message
    is. images: pictures, which stand before the text (`read_picture`).
    """

    role: Role
    text: str
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    images: tuple[Picture, ...] = ()


def check_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Return `messages` as chat messages once each is checked to be a Message. Raises BadOption."""
    require(
        "messages",
        messages,
        "a list of Message(role, text)",
        lambda value: isinstance(value, Sequence),
    )
    for message in messages:
        require("message", message, "Message(role, text)", lambda value: isinstance(value, Message))
    return messages


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Progress of prefill: `done` of `total` prompt tokens, `reused` of them from the prompt cache.

    head_rows: prompt tokens that the MTP heads processed since the previous PromptProgress.
    encoded: how many of `pictures` pictures are encoded, part of the present one included; both 0
    unless this event tells of encoding.
    """

    done: int
    total: int
    reused: int = 0
    head_rows: int = 0
    encoded: float = 0.0
    pictures: int = 0

    @property
    def picture_number(self) -> int:
        """Number of the picture that is being encoded, from 1."""
        return min(int(self.encoded) + 1, self.pictures)


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of a streamed answer that will be neither changed nor taken back.

    depth: position of the accepted draft token in its draft, from 1; 0 for tokens that the target
    model sampled itself. source: what drafted the token, None with depth 0.
    """

    text: str
    channel: Channel = "answer"
    depth: int = 0
    source: DraftedBy | None = None


class TokenLogprob(NamedTuple):
    """A token with its bytes of text and its log-probability by the model's unchanged logits.

    channel: what it belongs to in an answer. likeliest: the most probable tokens at its place, as
    many as were asked for, the likeliest first.
    """

    token: int
    text: bytes
    logprob: float
    channel: Channel = "answer"
    likeliest: "tuple[TokenLogprob, ...]" = ()


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """Event at the end of a decoding round: one forward pass of the target model.

    logprobs: of the round's tokens, if GenerationOptions.logprobs asks for them.
    """

    stats: RoundStats
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationFinished:
    """Last event of an answer; `text`, `thinking` and `calls` hold the whole answer.

    tokens: of the answer, without its end token. stop_string: the option's stop string that
    ended the answer; "" where none did, or one of the chat template's own. logprobs: of the tokens
    that this answer adds, if GenerationOptions.logprobs asks for them.
    """

    reason: FinishReason
    stats: GenerationStats
    text: str
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    tokens: tuple[int, ...] = ()
    stop_string: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()


Event = PromptProgress | TextPiece | ToolCall | RoundFinished | GenerationFinished

TURN_ENDS = (PromptProgress, RoundFinished)
"""Classes of events that end a session's turn, where several sessions answer in turn."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Result of `Engine.generate`; `tokens` leaves out the end token."""

    text: str
    tokens: tuple[int, ...]
    stats: GenerationStats
    finish_reason: FinishReason


@dataclass(slots=True)
class Settings:
    """Settings of one chat: sampling, drafting, cache bits, limits of an answer.

    Changes apply at the next round (sampling, draft) or message. cache: after a change the next
    message reads the whole conversation again. tools: functions that the model may ask for.
    """

    sampling: SamplingOptions
    draft: DraftOptions = field(default_factory=DraftOptions)
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    system: str | None = None
    template_arguments: Mapping[str, TemplateValue] = field(default_factory=dict)
    cache: CacheOptions = UNQUANTISED
    tools: tuple[Tool, ...] = ()

    def __setattr__(self, name: str, value: object) -> None:
        """Set a setting of the chat. Raises BadOption if the value is of another type."""
        kind = _OPTIONS.get(name, object)
        words = kind.__name__ if isinstance(kind, type) else str(kind)
        require(name, value, words, lambda given: isinstance(given, kind))
        object.__setattr__(self, name, value)


_OPTIONS: dict[str, type | UnionType] = {
    "sampling": SamplingOptions,
    "draft": DraftOptions,
    "generation": GenerationOptions,
    "cache": CacheOptions,
    "system": str | None,
}
