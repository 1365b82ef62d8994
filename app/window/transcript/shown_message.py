"""Messages as plain values for the transcript, made of the turns of a chat."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.state.answers import CLOSED, WITHDRAWN
from app.state.chat import ChatState
from app.state.running_answer import RunningAnswer, worth_telling
from app.values.chats import DraftedSpan, LazySequence, StoredMessage, Turn
from app.values.tools import ToolUse
from app.window.language import said, tr
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import Words

Role = Literal["user", "assistant"]
State = Literal["live", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message of the branch on show.

    spans, thinking_spans: drafted spans, sorted, as offsets in `text` and `thinking`. stats: None
    for the user's messages and a running answer. branch_index: from 0, of branch_count versions.
    can_continue: offer to continue it. notice: a line under the text, as why it failed. can_drop:
    offer to continue without the oldest turns. is_first_read: the model does not read the messages
    above. model: name of the model that wrote it. uses: its tool calls. pictures: read on access.
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
    model: str = ""
    uses: tuple[ToolUse, ...] = ()
    pictures: Sequence[Picture] = ()


class ShownMessages(Sequence[ShownMessage]):
    """The messages of the chat on show, made on access."""

    def __init__(self, messages: Sequence[ShownMessage] = ()) -> None:
        self._starts, self._parts = [0], [messages]

    def replace_from(self, place: int, messages: Sequence[ShownMessage]) -> None:
        """Replace all messages from an index on, which is the length at most."""
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


ENDINGS = {
    "stopped": Words("Stopped."),
    "max-tokens": Words("Stopped at this chat's token limit."),
    "context-full": Words(
        "This chat is as long as the model can read. Edit an earlier message or start a new chat."
    ),
    "memory-full": Words(
        "Memory is full. Close other programs or chats and continue, or start a new chat."
    ),
}
EDITED = Words("Edited.")
INTERRUPTED = Words("Interrupted.")


def shown_messages(chat: ChatState, first: int = 0) -> Sequence[ShownMessage]:
    """Return the turns of a chat from the index `first` on, made on access."""
    length = len(chat.turns) - first

    def shown(places: range) -> list[ShownMessage]:
        return [shown_message(chat, first + place) for place in places]

    return LazySequence(length, shown)


def shown_message(chat: ChatState, place: int) -> ShownMessage:
    """Make the message at an index of the branch on show."""
    turn, running = chat.turns[place], chat.running
    message_id, ids = turn.message.id, chat.turns.ids
    if running is not None and message_id == running.message_id:
        return shown_answer(running, turn)
    is_last = message_id == ids[-1]
    shown = shown_turn(turn, is_last=is_last, can_drop=is_last and chat.can_drop)
    is_first_read = message_id == chat.settings.read_from and message_id != ids[0]
    return replace(shown, is_first_read=True) if is_first_read else shown


def shown_turn(turn: Turn, *, is_last: bool, can_drop: bool) -> ShownMessage:
    """Make a complete message. can_drop: whether older turns can be left out."""
    message = turn.message
    is_last_answer = is_last and message.role == "assistant"
    is_full = message.finish_reason in ("context-full", "memory-full")
    drops = is_last_answer and can_drop and is_full
    was_cut = message.state == "stopped" or message.finish_reason in ("max-tokens", "memory-full")
    return ShownMessage(
        id=message.id,
        role="assistant" if message.role == "assistant" else "user",
        text=message.text,
        thinking=message.thinking,
        thinking_seconds=message.thinking_seconds,
        spans=message.spans,
        stats=worth_telling(message.stats),
        state=_state(message),
        branch_index=turn.number - 1,
        branch_count=len(turn.siblings),
        notice=_notice(message),
        can_continue=is_last_answer and (was_cut or message.edited) and not drops,
        can_drop=drops,
        model=message.model,
        uses=message.uses,
        pictures=message.pictures,
    )


def shown_answer(answer: RunningAnswer, turn: Turn) -> ShownMessage:
    """Make the message of a running answer."""
    return ShownMessage(
        id=answer.message_id,
        role="assistant",
        text=answer.answer.text,
        thinking=answer.thinking.text,
        thinking_seconds=answer.thinking_seconds,
        spans=tuple(answer.answer.spans),
        thinking_spans=tuple(answer.thinking.spans),
        uses=tuple(answer.uses),
        state="live",
        branch_index=turn.number - 1,
        branch_count=len(turn.siblings),
    )


def _state(message: StoredMessage) -> State:
    if message.interrupted and message.problem not in (CLOSED, WITHDRAWN):
        return "failed"
    return "stopped" if message.state == "stopped" else "done"


def _notice(message: StoredMessage) -> str:
    if message.interrupted:
        return tr(message.problem or INTERRUPTED)
    return said(EDITED if message.edited else ENDINGS.get(message.finish_reason or "", ""))
