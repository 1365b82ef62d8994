"""Stored chats as frozen values: the list of chats, and the turns of one branch."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

from app.values.chat_settings import ChatSettings
from app.values.tools import ToolUse
from mlx_engine.values.conversation import FinishReason, Role
from mlx_engine.values.options import DraftedBy
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import Words

T = TypeVar("T")
MessageState = Literal["partial", "done", "stopped"]


PINNED, TODAY = Words("Pinned"), Words("Today")
"""Headings of the first groups of chats."""


class TextRange(NamedTuple):
    """Characters from `start` up to but not including `end`, as Python counts them."""

    start: int
    end: int


class DraftedSpan(NamedTuple):
    """Characters of an answer from accepted draft tokens of one depth.

    source: what drafted them, None if not stored.
    """

    start: int
    end: int
    depth: int
    source: DraftedBy | None = None


@dataclass(frozen=True, slots=True)
class AnswerSoFar:
    """The state of an answer while it is written.

    thinking_seconds: None if not known. model: name of the model, "" before that is known. uses:
    tool calls.
    """

    text: str = ""
    thinking: str = ""
    spans: Sequence[DraftedSpan] = ()
    thinking_seconds: float | None = None
    model: str = ""
    uses: tuple[ToolUse, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a chat.

    parent: id of the message before it, None for a first one. model: name of the model that
    answered. state: "partial" while it is written. created_at: seconds since 1970.
    thinking_seconds: None if not known. problem: the error that ended it, "" for none. edited: its
    user changed an answer's text. uses: tool calls of an answer. pictures: read on access.
    """

    id: int
    chat_id: int
    parent: int | None
    role: Role
    text: str
    thinking: str = ""
    model: str = ""
    state: MessageState = "done"
    finish_reason: FinishReason | None = None
    stats: GenerationStats | None = None
    spans: Sequence[DraftedSpan] = ()
    created_at: float = 0.0
    thinking_seconds: float | None = None
    problem: str = ""
    edited: bool = False
    uses: tuple[ToolUse, ...] = ()
    pictures: Sequence[Picture] = ()

    @property
    def so_far(self) -> AnswerSoFar:
        """Return a cut answer as one that can be continued."""
        return AnswerSoFar(
            self.text, self.thinking, self.spans, self.thinking_seconds, self.model, self.uses
        )

    @property
    def interrupted(self) -> bool:
        """Whether a crash or an error ended it, not its model or its user."""
        return self.state == "stopped" and (self.finish_reason is None or self.problem != "")


@dataclass(frozen=True, slots=True)
class Turn:
    """A message and the ids of all its versions, itself included, oldest first."""

    message: StoredMessage
    siblings: tuple[int, ...]

    @property
    def number(self) -> int:
        """Place of the message among its versions, from 1, as in "1/3"."""
        return self.siblings.index(self.message.id) + 1


class LazySequence(Sequence[T]):
    """Items that `read` returns for a range of places, read when first accessed and then kept.

    block: items read at once. A slice is lazy too. An access raises what `read` raises.
    """

    def __init__(self, length: int, read: Callable[[range], Sequence[T]], block: int = 1) -> None:
        self._length, self._read, self._block = length, read, block
        self._items: dict[int, T] = {}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            sliced = range(self._length)[place]
            return LazySequence(len(sliced), lambda places: [self[sliced[at]] for at in places])
        return self._item(range(self._length)[place])

    def _item(self, place: int) -> T:
        if place not in self._items:
            first = place - place % self._block
            places = range(first, min(first + self._block, self._length))
            for at, item in zip(places, self._read(places), strict=True):
                self._items.setdefault(at, item)
        return self._items[place]


class Branch(LazySequence[Turn]):
    """The turns of one branch, loaded on access.

    ids: ascending ids of its messages, which `read` loads by place.
    """

    def __init__(
        self, ids: list[int], read: Callable[[range], Sequence[Turn]], block: int = 1
    ) -> None:
        super().__init__(len(ids), read, block)
        self.ids = ids

    def place(self, message_id: int | None) -> int | None:
        """Return the place of a message, None if it is not in the branch."""
        place = 0 if message_id is None else bisect_left(self.ids, message_id)
        return place if message_id in self.ids[place : place + 1] else None

    def replace_from(self, place: int, turn: Turn) -> None:
        """Replace all turns from a place on with one turn."""
        self._items = {at: item for at, item in self._items.items() if at < place}
        self.ids[place:] = [turn.message.id]
        self._items[place], self._length = turn, place + 1

    def put_message(self, place: int, message: StoredMessage) -> None:
        """Update the message of a turn."""
        self._items[place] = replace(self[place], message=message)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of chats; is_open: whether its chats are listed under it."""

    id: int
    name: str
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A line of the sidebar.

    Times are seconds since 1970; deleted_at: None unless in the trash. folder: id of its folder,
    None for none.
    """

    id: int
    title: str
    pinned: bool
    created_at: float
    updated_at: float
    deleted_at: float | None = None
    folder: int | None = None


@dataclass(frozen=True, slots=True)
class EndedAnswer:
    """A finished answer; stats and problem are those of StoredMessage."""

    so_far: AnswerSoFar
    state: MessageState
    reason: FinishReason | None
    stats: GenerationStats | None = None
    problem: str = ""

    def of(self, message: StoredMessage) -> StoredMessage:
        """Return the final state of a message."""
        return replace(
            message,
            text=self.so_far.text,
            thinking=self.so_far.thinking,
            spans=tuple(self.so_far.spans),
            thinking_seconds=self.so_far.thinking_seconds,
            model=self.so_far.model or message.model,
            uses=self.so_far.uses,
            state=self.state,
            finish_reason=self.reason,
            stats=self.stats,
            problem=self.problem,
        )


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat with its selected branch; notes say which settings could not be read."""

    summary: ChatSummary
    settings: ChatSettings
    turns: Branch
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedChat:
    """A chat in the sidebar, and where a search found its words.

    message_id: a message with all words, None if only the title has them or nothing was searched.
    found: the text to mark in that message, as written there.
    """

    chat: ChatSummary
    title_ranges: tuple[TextRange, ...] = ()
    snippet: str = ""
    snippet_ranges: tuple[TextRange, ...] = ()
    message_id: int | None = None
    found: str = ""

    @property
    def title(self) -> str:
        """Title to show, a placeholder for an untitled chat."""
        return self.chat.title or Words("New chat")


@dataclass(frozen=True, slots=True)
class ChatGroup:
    """A heading ("Today") or a folder, and the chats under it."""

    heading: str
    chats: tuple[ListedChat, ...]
    folder: Folder | None = None
