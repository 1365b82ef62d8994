"""Convert rows of the message table to values and back; a bad column becomes its default."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, get_args

from app.values.chats import DraftedSpan, MessageState, StoredMessage
from app.values.tools import ToolUse, uses_from
from app.values.typed_json import encode, read_fields, words_from_text
from mlx_engine.values.conversation import FinishReason, Role
from mlx_engine.values.options import DraftedBy
from mlx_engine.values.stats import GenerationStats


def text_of(value: object) -> str:
    """Return the value if it is text, else ""."""
    return value if isinstance(value, str) else ""


def seconds_of(value: object) -> float:
    """Return seconds since 1970 if the value is a plausible time, else 0."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e11 else 0.0


def duration_of(value: object) -> float | None:
    """Return a plausible duration in seconds, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e9 else None  # type: ignore[operator, arg-type]


def content_of(value: object) -> Any:
    """Parse a column of JSON; None if it cannot be read."""
    try:
        return json.loads(text_of(value) or "null")
    except (ValueError, RecursionError):
        return None


ROLES: tuple[Role, ...] = get_args(Role)
STATES: tuple[MessageState, ...] = get_args(MessageState)
REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
SOURCES: tuple[DraftedBy, ...] = get_args(DraftedBy)


def role_of(value: object) -> Role:
    """Return the value if it is a role, else "user"."""
    return value if value in ROLES else "user"


def message_from_row(row: sqlite3.Row) -> StoredMessage:
    """Convert a row with all columns of the table to a message."""
    content: dict[str, Any] = dict(zip(row.keys(), row, strict=True))
    content["spans"] = KeptSpans(text_of(content["spans"]), len(text_of(content["text"])))
    content["problem"] = words_from_text(text_of(content["problem"]))
    content["stats"] = stats_from_text(text_of(content["stats"]))
    content["uses"] = uses_from_text(text_of(content["calls"]))
    return sound_message(content, content["id"], content["chat"], content["parent"])


def sound_message(
    content: Mapping[str, Any], message_id: int, chat_id: int, parent: int | None
) -> StoredMessage:
    """Make a message of untrusted content; its stats, spans, uses, problem are converted."""
    said = content.get
    text = text_of(said("text"))
    state, reason = said("state"), said("finish_reason")
    return StoredMessage(
        id=message_id,
        chat_id=chat_id,
        parent=parent,
        role=role_of(said("role")),
        text=text,
        thinking=text_of(said("thinking")),
        model=text_of(said("model")),
        state=state if state in STATES else "stopped",
        finish_reason=reason if reason in REASONS else None,
        stats=content["stats"],
        spans=content["spans"],
        created_at=seconds_of(said("created_at")),
        thinking_seconds=duration_of(said("thinking_seconds")),
        problem=content["problem"],
        edited=said("edited") in (True, 1),
        uses=content["uses"],
    )


def spans_to_json(spans: Sequence[DraftedSpan]) -> str:
    """Return spans as short lists: [[start, end, depth, source], ...], source where it is known."""
    rows = [span if span.source else span[:3] for span in spans]
    return json.dumps(rows, separators=(",", ":"))


class KeptSpans(Sequence[DraftedSpan]):
    """Spans of a text of `length` characters, parsed on first access: a chat is read again with
    every question, and most of its answers are not in view.
    """

    def __init__(self, content: str, length: int) -> None:
        self._content, self._length = content, length

    @cached_property
    def _spans(self) -> tuple[DraftedSpan, ...]:
        return spans_from(content_of(self._content), self._length)

    def __len__(self) -> int:
        return len(self._spans)

    def __getitem__(self, index: Any) -> Any:
        return self._spans[index]

    def __eq__(self, other: object) -> bool:
        return self._spans == (other._spans if isinstance(other, KeptSpans) else other)

    def __hash__(self) -> int:
        return hash(self._spans)


def spans_from(content: object, length: int) -> tuple[DraftedSpan, ...]:
    """Convert parsed JSON to spans; those outside a text of `length` characters are left out."""
    if not isinstance(content, list):
        return ()
    return tuple(DraftedSpan(*item) for item in content if _is_span(item, length))


def _is_span(item: Any, length: int) -> bool:
    if type(item) is not list or list(map(type, item[:3])) != [int, int, int]:
        return False
    start, end, depth, *source = item
    is_known = not source or (len(source) == 1 and source[0] in (None, *SOURCES))
    return bool(0 <= start < end <= length and depth > 0 and is_known)


def uses_to_json(uses: Sequence[ToolUse]) -> str:
    """Return an answer's tool calls as JSON."""
    return json.dumps(encode(uses))


def uses_from_text(text: str) -> tuple[ToolUse, ...]:
    """Parse a column of tool calls; most answers have none."""
    return () if text == "[]" else uses_from(content_of(text))


def stats_to_json(stats: GenerationStats | None) -> str | None:
    """Return an answer's figures as JSON; None for none."""
    return None if stats is None else json.dumps(encode(stats))


def stats_from(content: Any) -> GenerationStats | None:
    """Convert parsed JSON to an answer's figures; None for none."""
    if not isinstance(content, dict):
        return None
    return read_fields(GenerationStats(), content, "stats").value


@lru_cache(maxsize=1024)
def stats_from_text(text: str) -> GenerationStats | None:
    """Parse a column of figures; cached, since a chat is read again with every question."""
    return stats_from(content_of(text))
