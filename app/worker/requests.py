"""Requests to the engine's thread: frozen values that can cross a process border.

Models are loaded and unloaded after the answers that were requested before, and before those
requested later; several chats are answered at once. Other requests are done before the next round;
StopAnswer, CancelLoad and CloseChat during a load too. Measuring runs when nothing else is to be
done.
"""

from dataclasses import dataclass, field

from app.values.chat_settings import ChatSettings
from mlx_engine.values.conversation import Message, Tool
from mlx_engine.values.options import UNQUANTISED, CacheOptions, LoadOptions
from mlx_engine.values.picture import Picture


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load the model at `path` in place of the one in use; None is the built-in one.

    A model of the hub must be downloaded first. cache: bits of stored keys and values.
    """

    path: str | None = None
    options: LoadOptions = field(default_factory=LoadOptions)
    cache: CacheOptions = UNQUANTISED


@dataclass(frozen=True, slots=True)
class CancelLoad:
    """Stop the running load, and withdraw waiting ones."""


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Close the model in use with all caches, after earlier requests; has no reply."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Answer the last of `messages` if it is a question, or continue it if it is an answer.

    Tokens shared with what the chat has read before are not read again. message_id: of the answer,
    in replies. alone: do not answer other chats at the same time, because speed is measured.
    drops_oldest: leave out the oldest turns, as many as free half of the context and at least one;
    OldestDropped tells how many messages. tools: functions that the model may ask for.
    """

    chat_id: str
    message_id: str
    messages: tuple[Message, ...]
    settings: ChatSettings = field(default_factory=ChatSettings)
    alone: bool = False
    drops_oldest: bool = False
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class StopAnswer:
    """End the chat's running answer after its round, and withdraw its waiting questions."""

    chat_id: str


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Change the settings of a chat: drafting and sampling from the next round on, the rest from
    the next answer.
    """

    chat_id: str
    settings: ChatSettings


@dataclass(frozen=True, slots=True)
class MeasureCosts:
    """Time passes of 1 to 9 rows of the model in use, once per load; takes about a second."""


@dataclass(frozen=True, slots=True)
class CountTokens:
    """Count the tokens of these texts and pictures with the model in use."""

    contents: tuple[str | Picture, ...]


@dataclass(frozen=True, slots=True)
class CloseChat:
    """Stop a deleted chat, free its cache, and delete its saved prompts."""

    chat_id: str


Request = (
    LoadModel
    | CancelLoad
    | UnloadModel
    | Ask
    | StopAnswer
    | ChangeSettings
    | MeasureCosts
    | CountTokens
    | CloseChat
)
