"""Joins the sidebar and the store: chats, folders, search, bin, and what is done with them."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import NamedTuple, TypeVar

from PySide6.QtCore import QLocale, QObject, Signal

from app.start.threads import Turns
from app.store.session_store import SessionStore
from app.values.chats import PINNED, TODAY, ChatGroup, ChatSummary, Folder, ListedChat
from app.values.errors import StoreError
from app.window.language import tr
from app.window.sidebar.sidebar import Sidebar
from mlx_engine.values.words import Words

T = TypeVar("T")


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
    failed = Signal(object)

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
        self._turns = Turns(self)
        self._query = ""
        self.shows_bin = False
        self._day = date.min
        self._connect()

    def _connect(self) -> None:
        sidebar, chats = self._sidebar, self._sidebar.list
        sidebar.search_changed.connect(self.search)
        sidebar.bin_wanted.connect(self.show_bin)
        chats.chosen.connect(self.chosen)
        store, folders = self._store.chats, self._store.folders
        chats.renamed.connect(lambda chat, title: self._do(lambda: store.rename(chat, title)))
        chats.pin_wanted.connect(lambda ids, pinned: self.pin(pinned, *ids))
        chats.duplicate_wanted.connect(self.duplicate)
        chats.delete_wanted.connect(lambda ids: self.delete(*ids))
        chats.restore_wanted.connect(lambda ids: self._do_each(store.restore, ids))
        chats.delete_for_ever_wanted.connect(lambda ids: self._do_each(store.delete_for_ever, ids))
        chats.move_wanted.connect(lambda ids, to: self._do(lambda: folders.move(ids, to)))
        chats.folder_wanted.connect(self.new_folder)
        sidebar.folder_wanted.connect(self.new_folder)
        chats.folder_renamed.connect(lambda one, name: self._do(lambda: folders.rename(one, name)))
        chats.folder_opened.connect(
            lambda one, is_open: self._do(lambda: folders.open(one, is_open))
        )
        chats.folder_removed.connect(self._remove_folder)

    def refresh(self) -> None:
        """Read the list anew."""
        try:
            folders = self._store.folders.listed()
            groups = self._groups(folders)
        except StoreError as error:
            self.failed.emit(str(error))
            return
        self._day = date.fromtimestamp(self._clock())
        self._sidebar.show_groups(groups, folders, is_bin=self.shows_bin)

    def show_changed(self, chat_id: int) -> None:
        """Something was said in a chat: bring its row up to date and to the top, where that is so.

        On another day all headings change; a search, the bin or a folder is listed anew.
        """
        if self.shows_bin or self._query or date.fromtimestamp(self._clock()) != self._day:
            self.refresh()
            return
        try:
            chat = self._store.chats.get(chat_id)
        except StoreError as error:
            self.failed.emit(str(error))
            return
        if chat.folder is not None:
            self.refresh()
        elif chat.deleted_at is None:
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

    def pin(self, pinned: bool, *chat_ids: int) -> None:
        """Keep chats at the top, or no longer."""
        self._do_each(lambda chat_id: self._store.chats.pin(chat_id, pinned), chat_ids)

    def rename(self, chat_id: int) -> None:
        """Let another title be typed in the list; what hides the chat there ends."""
        if not self._sidebar.list.has(chat_id):
            self._sidebar.clear_search()
            self._do(lambda: self._open_folder_of(chat_id))
        self._sidebar.list.rename(chat_id)

    def _open_folder_of(self, chat_id: int) -> None:
        folder = self._store.chats.get(chat_id).folder
        if folder is not None:
            self._store.folders.open(folder, True)

    def new_folder(self, chat_ids: Sequence[int] = ()) -> None:
        """With these chats in it, listed, its name ready to be typed."""
        self._sidebar.clear_search()
        made = self._do(lambda: self._store.folders.create(tr("New folder"), chat_ids))
        if made is not None:
            self._sidebar.list.rename_folder(made.id)

    def _remove_folder(self, folder: int) -> None:
        """Its chats stay; it can be taken back."""
        folders = self._store.folders
        gone = self._do(lambda: folders.remove(folder))
        if gone is not None:
            words = tr("Removed the folder {name}", name=gone.folder.name)
            self._sidebar.undo.offer(words, lambda: self._do(lambda: folders.give_back(gone)))

    def duplicate(self, chat_id: int) -> None:
        """Copy a chat with all its branches and show the copy."""
        how = tr("copy", "of a chat, behind its title")
        self._turns.do_steps(self._copy(chat_id, how, None))

    def branch_off(self, message_id: int) -> None:
        """Copy a chat up to a message and show the copy; the chat stays as it is."""
        how = tr("branch", "of a chat, behind its title")
        with self._failures():
            chat_id = self._store.messages.get(message_id).chat_id
            self._turns.do_steps(self._copy(chat_id, how, message_id))

    def _copy(self, chat_id: int, how: str, up_to: int | None) -> Iterator[None]:
        with self._failures():
            copy = yield from self._store.chats.copy_in_steps(chat_id, how, up_to)
            self._show_changed()
            self.chosen.emit(copy, None)

    def close(self) -> None:
        """The program ends: what is not copied yet goes with the next start."""
        self._turns.stop()

    def delete(self, *chat_ids: int) -> None:
        """Throw chats into the bin and offer to take them back."""
        if not self._do_each(self._store.chats.delete, chat_ids):
            return
        for chat_id in chat_ids:
            self.gone.emit(chat_id)
        words = tr("{n:,} chats moved to the Trash", "Moved to the Trash", len(chat_ids))
        self._sidebar.undo.offer(words, lambda: self._take_back(chat_ids))

    def _take_back(self, chat_ids: Sequence[int]) -> None:
        if self._do_each(self._store.chats.restore, chat_ids):
            self.chosen.emit(chat_ids[0], None)

    def _do_each(self, change: Callable[[int], object], chat_ids: Iterable[int]) -> bool:
        """The same with several chats: all of them or none; False when it failed."""

        def change_all() -> bool:
            with self._store.database.transaction():
                for chat_id in chat_ids:
                    change(chat_id)
            return True

        return self._do(change_all) or False

    def _do(self, change: Callable[[], T]) -> T | None:
        """Run a change of the store and list its result; None when it failed."""
        made = None
        with self._failures():
            made = change()
            self._show_changed()
        return made

    def _show_changed(self) -> None:
        self.refresh()
        self.changed.emit()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self.failed.emit(str(error))

    def _groups(self, folders: Sequence[Folder]) -> tuple[ChatGroup, ...]:
        if self.shows_bin:
            return _one_group(Words("Trash"), self._store.chats.in_bin())
        if self._query:
            hits = self._store.search.find(self._query)
            return (ChatGroup(Words("Found"), hits),) if hits else ()
        return in_folders(self._store.chats.listed(), folders, self._clock())


def _one_group(heading: str, chats: Iterable[ChatSummary]) -> tuple[ChatGroup, ...]:
    listed = tuple(map(ListedChat, chats))
    return (ChatGroup(heading, listed),) if listed else ()


def in_folders(
    chats: Iterable[ChatSummary], folders: Iterable[Folder], now: float
) -> tuple[ChatGroup, ...]:
    """Folders with their chats below the pinned ones of no folder, then the rest by days."""
    inside: dict[int, list[ListedChat]] = {folder.id: [] for folder in folders}
    loose = []
    for chat in chats:
        if chat.folder in inside:
            inside[chat.folder].append(ListedChat(chat))
        else:
            loose.append(chat)
    days = group_by_day(loose, now)
    above = days[:1] if days and days[0].heading == PINNED else ()
    kept = (ChatGroup(one.name, tuple(inside[one.id]), one) for one in folders)
    return (*above, *kept, *days[len(above) :])


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
        (1, Words("Yesterday")),
        (7, Words("Last 7 days")),
        (30, Words("Last 30 days")),
    ):
        if age <= oldest:
            return heading
    return f"{QLocale().standaloneMonthName(day.month)} {day.year}"
