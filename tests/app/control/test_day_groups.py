"""Chats stand under the right days, also around midnight and when clocks change."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from app.state.chat_list import group_by_day
from app.values.chats import ChatSummary

BERLIN = ZoneInfo("Europe/Berlin")


def chat(when: datetime, pinned: bool = False) -> ChatSummary:
    at = when.timestamp()
    return ChatSummary(int(at), str(when), pinned, 0.0, at)


def headings(now: datetime, *whens: datetime) -> list[str]:
    groups = group_by_day(map(chat, whens), now.timestamp(), now.tzinfo)
    return [group.heading for group in groups for _ in group.chats]


def test_headings():
    now = datetime(2026, 3, 20, 0, 30, tzinfo=UTC)
    assert headings(
        now,
        datetime(2026, 3, 20, 0, 1, tzinfo=UTC),
        datetime(2026, 3, 19, 23, 59, tzinfo=UTC),
        datetime(2026, 3, 18, 23, 59, tzinfo=UTC),
        datetime(2026, 3, 13, tzinfo=UTC),
        datetime(2026, 3, 12, tzinfo=UTC),
        datetime(2026, 2, 18, tzinfo=UTC),
        datetime(2026, 2, 17, tzinfo=UTC),
        datetime(2025, 12, 31, tzinfo=UTC),
    ) == [
        "Today",
        "Yesterday",
        "Last 7 days",
        "Last 7 days",
        "Last 30 days",
        "Last 30 days",
        "February 2026",
        "December 2025",
    ]


def test_the_day_is_that_of_the_user():
    now = datetime(2026, 3, 29, 12, tzinfo=BERLIN)
    assert headings(
        now, datetime(2026, 3, 29, 0, 5, tzinfo=BERLIN), datetime(2026, 3, 28, 0, 5, tzinfo=BERLIN)
    ) == ["Today", "Yesterday"]
    late = datetime(2026, 3, 28, 23, 30, tzinfo=UTC)
    assert headings(now, late) == ["Today"]


def test_pinned_ones_have_their_own_group_and_order_is_kept():
    now = datetime(2026, 3, 20, 12, tzinfo=UTC)
    whens = [datetime(2026, 3, day, 12, tzinfo=UTC) for day in (20, 10, 20, 19)]
    chats = [chat(whens[0], True), chat(whens[1], True), chat(whens[2]), chat(whens[3])]
    groups = group_by_day(chats, now.timestamp(), UTC)
    assert [(group.heading, tuple(c.chat for c in group.chats)) for group in groups] == [
        ("Pinned", (chats[0], chats[1])),
        ("Today", (chats[2],)),
        ("Yesterday", (chats[3],)),
    ]


def test_a_clock_that_was_wrong():
    now = datetime(2026, 3, 20, tzinfo=UTC)
    assert headings(now, datetime(2030, 1, 1, tzinfo=UTC), datetime.fromtimestamp(0, UTC)) == [
        "Today",
        "January 1970",
    ]


def test_the_day_of_a_chat_that_goes_on_is_said_in_the_language_of_the_window(driven, speaking):
    speaking("de")
    driven.ask("2 + 2")
    model = driven.widgets.sidebar.list.model()
    assert model.index(0, 0).data() == "Heute"
