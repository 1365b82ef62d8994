"""Chats under the headings of the sidebar: pinned, today, yesterday, and further back."""

from calendar import month_name
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import NamedTuple

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
    day = _Day("", 0, 0)
    for chat in chats:
        if not chat.pinned and not day.start <= chat.updated_at < day.end:
            day = _day_of(chat.updated_at, today, zone)
        groups.setdefault("Pinned" if chat.pinned else day.heading, []).append(chat)
    return tuple(DayGroup(heading, tuple(group)) for heading, group in groups.items())


class _Day(NamedTuple):
    """A calendar day from `start` up to `end`, seconds since 1970; neighbours often share one."""

    heading: str
    start: float
    end: float


def _day_of(moment: float, today: date, zone: tzinfo | None) -> _Day:
    day = datetime.fromtimestamp(moment, zone).date()
    start, end = (
        datetime.combine(one, clock_time(), zone).timestamp() for one in (day, day + timedelta(1))
    )
    return _Day(_heading(day, today), start, end)


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
