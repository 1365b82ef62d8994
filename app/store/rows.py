"""Rows of the message table to values and back; what a row has wrong becomes its default."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, get_args

from app.values.chats import DraftedSpan, MessageState, StoredMessage
from app.values.typed_json import encode, read_fields
from mlx_engine.values.conversation import FinishReason, Role
from mlx_engine.values.options import DraftedBy
from mlx_engine.values.stats import GenerationStats


def text_of(value: object) -> str:
    """Empty for anything but text."""
    return value if isinstance(value, str) else ""


def seconds_of(value: object) -> float:
    """Seconds since 1970 of this or the coming centuries, else 0."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e11 else 0.0


def duration_of(value: object) -> float | None:
    """Seconds something took, None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e9 else None  # type: ignore[operator, arg-type]


def content_of(value: object) -> Any:
    """What a column of JSON holds, None when it cannot be read."""
    try:
        return json.loads(text_of(value) or "null")
    except (ValueError, RecursionError):
        return None


ROLES: tuple[Role, ...] = get_args(Role)
STATES: tuple[MessageState, ...] = get_args(MessageState)
REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
SOURCES: tuple[DraftedBy, ...] = get_args(DraftedBy)


def message_from_row(row: sqlite3.Row) -> StoredMessage:
    """The row must have all columns of the table."""
    text = text_of(row["text"])
    return StoredMessage(
        id=row["id"],
        chat_id=row["chat"],
        parent=row["parent"],
        role=row["role"] if row["role"] in ROLES else "user",
        text=text,
        thinking=text_of(row["thinking"]),
        model=text_of(row["model"]),
        state=row["state"] if row["state"] in STATES else "stopped",
        finish_reason=row["finish_reason"] if row["finish_reason"] in REASONS else None,
        stats=stats_from(content_of(row["stats"])),
        spans=spans_from(content_of(row["spans"]), len(text)),
        created_at=seconds_of(row["created_at"]),
        thinking_seconds=duration_of(row["thinking_seconds"]),
        problem=text_of(row["problem"]),
    )


def spans_to_json(spans: Sequence[DraftedSpan]) -> str:
    """As short lists, [[start, end, depth, source], ...], without a source that is not known."""
    rows = [span if span.source else span[:3] for span in spans]
    return json.dumps(rows, separators=(",", ":"))


def spans_from(content: object, length: int) -> tuple[DraftedSpan, ...]:
    """Those that are spans of a text this long."""
    if not isinstance(content, list):
        return ()
    return tuple(DraftedSpan(*item) for item in content if _is_span(item, length))


def _is_span(item: Any, length: int) -> bool:
    if type(item) is not list or list(map(type, item[:3])) != [int, int, int]:
        return False
    start, end, depth, *source = item
    is_known = not source or (len(source) == 1 and source[0] in (None, *SOURCES))
    return bool(0 <= start < end <= length and depth > 0 and is_known)


def stats_to_json(stats: GenerationStats | None) -> str | None:
    """NULL for none."""
    return None if stats is None else json.dumps(encode(stats))


def stats_from(content: Any) -> GenerationStats | None:
    """None when there are none."""
    if not isinstance(content, dict):
        return None
    return read_fields(GenerationStats(), content, "stats").value
