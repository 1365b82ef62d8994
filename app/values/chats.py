"""Stored chats as the window sees them: a list of chats, and the turns of one branch."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

from app.values.chat_settings import ChatSettings
from app.values.tools import ToolUse
from mlx_engine.values.conversation import FinishReason, Role
from mlx_engine.values.options import DraftedBy
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import Words

T = TypeVar("T")
MessageState = Literal["partial", "done", "stopped"]


PINNED, TODAY = Words("Pinned"), Words("Today")
"""Headings of the chats that come first."""


class TextRange(NamedTuple):
    """Characters `start` up to but not including `end`, as Python counts them."""

    start: int
    end: int


class DraftedSpan(NamedTuple):
    """Characters of an answer's text that came from accepted draft tokens of one depth.

    source: who drafted them, None where that was not kept.
    """

    start: int
    end: int
    depth: int
    source: DraftedBy | None = None


@dataclass(frozen=True, slots=True)
class AnswerSoFar:
    """What there is of an answer that is being written; thinking_seconds: None if not known.

    model: the name of the one that writes it, "" before that is known. uses: its tool calls.
    """

    text: str = ""
    thinking: str = ""
    spans: Sequence[DraftedSpan] = ()
    thinking_seconds: float | None = None
    model: str = ""
    uses: tuple[ToolUse, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message; `parent` is the one before it, None for a first one.

    model: the name of the one that answered. state: "partial" while it is being written.
    created_at: seconds since 1970. thinking_seconds: how long it thought, None if that is not
    known. problem: what ended it in words, "" if nothing did. edited: its text is its user's.
    uses: tool calls of an answer.
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

    @property
    def so_far(self) -> AnswerSoFar:
        """An answer that was cut, to go on with."""
        return AnswerSoFar(
            self.text, self.thinking, self.spans, self.thinking_seconds, self.model, self.uses
        )

    @property
    def interrupted(self) -> bool:
        """It ended by a crash or an error, not by its model or its user."""
        return self.state == "stopped" and (self.finish_reason is None or self.problem != "")


@dataclass(frozen=True, slots=True)
class Turn:
    """A message and the ids of all that could stand in its place, oldest first, itself included."""

    message: StoredMessage
    siblings: tuple[int, ...]

    @property
    def number(self) -> int:
        """The 1 of "1/3"."""
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
    """The turns of one branch; ids: of their messages, ascending, which `read` reads by place."""

    def __init__(
        self, ids: list[int], read: Callable[[range], Sequence[Turn]], block: int = 1
    ) -> None:
        super().__init__(len(ids), read, block)
        self.ids = ids

    def place(self, message_id: int | None) -> int | None:
        """The place of a message, None where it is not in the branch."""
        place = 0 if message_id is None else bisect_left(self.ids, message_id)
        return place if message_id in self.ids[place : place + 1] else None

    def replace_from(self, place: int, turn: Turn) -> None:
        """This turn in place of all from `place` on."""
        self._items = {at: item for at, item in self._items.items() if at < place}
        self.ids[place:] = [turn.message.id]
        self._items[place], self._length = turn, place + 1

    def put_message(self, place: int, message: StoredMessage) -> None:
        """The message of a turn as it is now."""
        self._items[place] = replace(self[place], message=message)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of chats; is_open: its chats are listed under it."""

    id: int
    name: str
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A line of the sidebar; times in seconds since 1970, deleted_at None unless in the bin.

    folder: the number of the one it is in, None for none.
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
    """An answer as it stays; stats and problem as StoredMessage has them."""

    so_far: AnswerSoFar
    state: MessageState
    reason: FinishReason | None
    stats: GenerationStats | None = None
    problem: str = ""

    def of(self, message: StoredMessage) -> StoredMessage:
        """The message that this is the end of."""
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
    """A chat with the branch that is selected; notes say which settings could not be read."""

    summary: ChatSummary
    settings: ChatSettings
    turns: Branch
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedChat:
    """A chat in the sidebar; the rest says where a search found its words.

    message_id: a message that has them all, None when only the title has, or nothing was searched.
    found: what to mark in it, as it is written there.
    """

    chat: ChatSummary
    title_ranges: tuple[TextRange, ...] = ()
    snippet: str = ""
    snippet_ranges: tuple[TextRange, ...] = ()
    message_id: int | None = None
    found: str = ""

    @property
    def title(self) -> str:
        """What is shown of a chat that nobody has named yet, too."""
        return self.chat.title or Words("New chat")


@dataclass(frozen=True, slots=True)
class ChatGroup:
    """A heading ("Today") or a folder, and the chats under it."""

    heading: str
    chats: tuple[ListedChat, ...]
    folder: Folder | None = None
