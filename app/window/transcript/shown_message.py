"""One message as the transcript shows it: plain values."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.values.chats import DraftedSpan
from mlx_engine.values.stats import GenerationStats

Role = Literal["user", "assistant"]
State = Literal["live", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message of the branch on show.

    spans, thinking_spans: what was drafted, offsets in `text` and in `thinking`, sorted.
    stats: None while the answer runs and for the user's messages. branch_index: 0-based, of
    branch_count alternatives. can_continue: offer that the answer goes on. notice: a line
    under the text, such as why it failed. can_drop: offer that it goes on without the oldest turns.
    is_first_read: what is above is not read any more.
    """

    id: int
    role: Role
    text: str
    thinking: str = ""
    thinking_seconds: float | None = None
    spans: Sequence[DraftedSpan] = ()
    stats: GenerationStats | None = None
    state: State = "done"
    branch_index: int = 0
    branch_count: int = 1
    notice: str = ""
    can_continue: bool = False
    thinking_spans: tuple[DraftedSpan, ...] = ()
    can_drop: bool = False
    is_first_read: bool = False


class ShownMessages(Sequence[ShownMessage]):
    """The messages of the chat on show, of which a tail can be replaced; none is read for that."""

    def __init__(self, messages: Sequence[ShownMessage] = ()) -> None:
        self._starts, self._parts = [0], [messages]

    def replace_from(self, place: int, messages: Sequence[ShownMessage]) -> None:
        """These messages in place of all from `place` on, which is the length at most."""
        kept = bisect_left(self._starts, place)
        self._starts[kept:], self._parts[kept:] = [place], [messages]

    def __len__(self) -> int:
        return self._starts[-1] + len(self._parts[-1])

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        place = range(len(self))[place]
        part = bisect_right(self._starts, place) - 1
        return self._parts[part][place - self._starts[part]]
