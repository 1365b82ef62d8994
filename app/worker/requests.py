"""What the program may ask of the engine's thread: frozen values that can cross a process border.

They are done in the order they were put, questions of several chats at once, except for what
concerns work that runs or waits:
StopAnswer, CancelLoad, CloseChat and Shutdown act at once, ChangeSettings and CountTokens at the
next round. Whatever is asked goes before measuring, which then goes on.
"""

from dataclasses import dataclass, field

from app.values.chat_settings import ChatSettings
from mlx_engine.values.conversation import Message
from mlx_engine.values.options import UNQUANTISED, CacheOptions, LoadOptions


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Open the model at `path` in place of the one in use; None is the built-in one.

    A hub id must be downloaded first: give its folder. cache: bits of stored keys and values.
    """

    path: str | None = None
    options: LoadOptions = field(default_factory=LoadOptions)
    cache: CacheOptions = UNQUANTISED


@dataclass(frozen=True, slots=True)
class CancelLoad:
    """Stop the load that runs, and forget those that wait."""


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Let the model in use go, with all caches, after what was asked before; needs no reply."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Answer the last of `messages`, a question, also to answer again, edit or branch; or, when it
    is an answer that was cut, go on with that.

    What the messages share with what was read before in this chat is not read again. message_id
    names the answer in the replies. Questions of several chats are answered at once; alone: not
    this one, because its speed is measured. drops_oldest: leave the oldest turns unread, as many as
    free half of the context and at least one, which OldestDropped tells.
    """

    chat_id: str
    message_id: str
    messages: tuple[Message, ...]
    settings: ChatSettings = field(default_factory=ChatSettings)
    alone: bool = False
    drops_oldest: bool = False


@dataclass(frozen=True, slots=True)
class StopAnswer:
    """End the chat's running answer after its round, and forget its questions that wait."""

    chat_id: str


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """New settings of a chat: drafting and sampling from the next round on, the rest from the
    next answer.
    """

    chat_id: str
    settings: ChatSettings


@dataclass(frozen=True, slots=True)
class MeasureCosts:
    """Time passes of 1 to 9 rows of the model in use, once per load; takes a second or so."""


@dataclass(frozen=True, slots=True)
class CountTokens:
    """How many tokens of the model in use each of these texts has."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CloseChat:
    """The chat is gone: stop it, free its cache, and remove the files of what was read of it."""

    chat_id: str


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Stop everything, close the engine and end the thread; nothing after it is done."""


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
    | Shutdown
)
