"""Joins the sidebar and the store: the list, its search, its bin, and what is done with a chat."""

import time
from calendar import month_name
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.store.session_store import SessionStore
from app.values.chats import PINNED, TODAY, ChatGroup, ChatSummary, ListedChat
from app.values.errors import StoreError
from app.window.sidebar.sidebar import Sidebar


class ChatListController(QObject):
    """Keeps the sidebar true.

    Signals:
        chosen: a chat to show, and the id of the message that was found in it or None.
        gone: this chat was thrown away.
        changed: chats have other names or places, or the bin is shown or left.
        failed: a StoreError in words.
    """

    chosen = Signal(int, object)
    gone = Signal(int)
    changed = Signal()
    failed = Signal(str)

    def __init__(
        self,
        store: SessionStore,
        sidebar: Sidebar,
        clock: Callable[[], float] = time.time,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._sidebar = sidebar
        self._clock = clock
        self._query = ""
        self.shows_bin = False
        self._day = date.min
        self._connect()

    def _connect(self) -> None:
        sidebar, chats = self._sidebar, self._sidebar.list
        sidebar.search_changed.connect(self.search)
        sidebar.bin_wanted.connect(self.show_bin)
        chats.chosen.connect(self.chosen)
        store = self._store.chats
        chats.renamed.connect(lambda chat, title: self._do(lambda: store.rename(chat, title)))
        chats.pin_wanted.connect(self.pin)
        chats.duplicate_wanted.connect(self.duplicate)
        chats.delete_wanted.connect(self.delete)
        chats.restore_wanted.connect(lambda chat: self._do(lambda: store.restore(chat)))
        chats.delete_for_ever_wanted.connect(
            lambda chat: self._do(lambda: store.delete_for_ever(chat))
        )

    def refresh(self) -> None:
        """Read the list anew."""
        try:
            groups = self._groups()
        except StoreError as error:
            self.failed.emit(str(error))
            return
        self._day = date.fromtimestamp(self._clock())
        self._sidebar.show_groups(groups, is_bin=self.shows_bin)

    def show_changed(self, chat_id: int) -> None:
        """Something was said in a chat: bring its row up to date and to the top, where that is so.

        On another day all headings change; a search or the bin is listed anew.
        """
        if self.shows_bin or self._query or date.fromtimestamp(self._clock()) != self._day:
            self.refresh()
            return
        try:
            chat = self._store.chats.get(chat_id)
        except StoreError as error:
            self.failed.emit(str(error))
            return
        if chat.deleted_at is None:
            self._sidebar.show_first(PINNED if chat.pinned else TODAY, ListedChat(chat))

    def search(self, query: str) -> None:
        """List what has these words; all chats when there are none."""
        self._query = query.strip()
        self.show_bin(False)

    def show_bin(self, wanted: bool) -> None:
        """List the bin, or the chats again."""
        is_news, self.shows_bin = self.shows_bin != wanted, wanted
        self.refresh()
        if is_news:
            self.changed.emit()

    def pin(self, chat_id: int, pinned: bool) -> None:
        """Keep a chat at the top, or no longer."""
        self._do(lambda: self._store.chats.pin(chat_id, pinned))

    def duplicate(self, chat_id: int) -> None:
        """Copy a chat with all its branches and show the copy."""
        copies: list[int] = []
        self._do(lambda: copies.append(self._store.chats.duplicate(chat_id)))
        for copy in copies:
            self.chosen.emit(copy, None)

    def delete(self, chat_id: int) -> None:
        """Throw a chat into the bin and offer to take it back."""
        if not self._do(lambda: self._store.chats.delete(chat_id)):
            return
        self.gone.emit(chat_id)
        self._sidebar.offer_undo("Moved to the bin", lambda: self._take_back(chat_id))

    def _take_back(self, chat_id: int) -> None:
        if self._do(lambda: self._store.chats.restore(chat_id)):
            self.chosen.emit(chat_id, None)

    def _do(self, change: Callable[[], object]) -> bool:
        """Run a change of the store and list its result; False when it failed."""
        try:
            change()
        except StoreError as error:
            self.failed.emit(str(error))
            return False
        self.refresh()
        self.changed.emit()
        return True

    def _groups(self) -> tuple[ChatGroup, ...]:
        if self.shows_bin:
            return _one_group("Bin", self._store.chats.in_bin())
        if self._query:
            hits = self._store.search.find(self._query)
            return (ChatGroup("Found", hits),) if hits else ()
        return group_by_day(self._store.chats.listed(), self._clock())


def _one_group(heading: str, chats: Iterable[ChatSummary]) -> tuple[ChatGroup, ...]:
    listed = tuple(map(ListedChat, chats))
    return (ChatGroup(heading, listed),) if listed else ()


def group_by_day(
    chats: Iterable[ChatSummary], now: float, zone: tzinfo | None = None
) -> tuple[ChatGroup, ...]:
    """Groups in the order of `chats`, by calendar days of `zone`, None for the machine's own."""
    today = datetime.fromtimestamp(now, zone).date()
    groups: dict[str, list[ListedChat]] = {}
    day = _Day("", 0, 0)
    for chat in chats:
        if not chat.pinned and not day.start <= chat.updated_at < day.end:
            day = _day_of(chat.updated_at, today, zone)
        groups.setdefault(PINNED if chat.pinned else day.heading, []).append(ListedChat(chat))
    return tuple(ChatGroup(heading, tuple(group)) for heading, group in groups.items())


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
        (0, TODAY),
        (1, "Yesterday"),
        (7, "Last 7 days"),
        (30, "Last 30 days"),
    ):
        if age <= oldest:
            return heading
    return f"{month_name[day.month]} {day.year}"
