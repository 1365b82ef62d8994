"""Chats under the headings of the sidebar: pinned, today, yesterday, and further back."""

from calendar import month_name
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from app.values.chats import ChatSummary


@dataclass(frozen=True, slots=True)
class DayGroup:
    """A heading and the chats under it."""

    heading: str
    chats: tuple[ChatSummary, ...]


def group_by_day(
    chats: Iterable[ChatSummary], now: float, zone: tzinfo | None = None
) -> tuple[DayGroup, ...]:
    """Groups in the order of `chats`, by calendar days of `zone`, None for the machine's own."""
    today = datetime.fromtimestamp(now, zone).date()
    groups: dict[str, list[ChatSummary]] = {}
    for chat in chats:
        day = datetime.fromtimestamp(chat.updated_at, zone).date()
        heading = "Pinned" if chat.pinned else _heading(day, today)
        groups.setdefault(heading, []).append(chat)
    return tuple(DayGroup(heading, tuple(group)) for heading, group in groups.items())


def _heading(day: date, today: date) -> str:
    age = (today - day).days
    for oldest, heading in (
        (0, "Today"),
        (1, "Yesterday"),
        (7, "Last 7 days"),
        (30, "Last 30 days"),
    ):
        if age <= oldest:
            return heading
    return f"{month_name[day.month]} {day.year}"
