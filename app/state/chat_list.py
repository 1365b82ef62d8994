"""The list of chats, by day and folder, searched, or in the Trash; changes can be undone."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta, tzinfo
from datetime import time as clock_time
from typing import NamedTuple, TypeVar

from PySide6.QtCore import QLocale, QObject, Signal

from app.start.threads import IdleQueue
from app.state.chat import ChatState
from app.state.settings import KeptSettings
from app.state.state import State
from app.store.session_store import SessionStore
from app.values.chats import PINNED, TODAY, ChatGroup, ChatSummary, Folder, ListedChat
from mlx_engine.values.words import Words

Again = Callable[[], object]
Undo = Callable[[], Again | None]
"""Undoes a change, and returns a function that redoes it, None for none."""


class Deed(NamedTuple):
    """A change that can be undone. words: its description."""

    words: str
    undo: Undo


class Deeds(State):
    """Undo and redo stacks of changes to chats."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._deeds: list[Deed] = []
        self._undone: list[Again] = []

    @property
    def newest(self) -> Deed | None:
        """The change that `undo` would undo, None for none."""
        return self._deeds[-1] if self._deeds else None

    @property
    def can_redo(self) -> bool:
        """Whether there is a change to redo."""
        return bool(self._undone)

    def add(self, words: str, undo: Undo) -> None:
        """Push a change with a function that undoes it; nothing can be redone after it."""
        self._deeds.append(Deed(words, undo))
        self._undone = []
        self.changed.emit()

    def undo(self) -> None:
        """Undo the newest change, if any."""
        if self._deeds:
            deed = self._deeds.pop()
            self.changed.emit()
            again = deed.undo()
            self._undone += [again] if again else []
            self.changed.emit()

    def redo(self) -> None:
        """Redo the change that was undone last, if any."""
        if self._undone:
            *others, again = self._undone
            again()  # which adds it
            self._undone = others
            self.changed.emit()

    def forget(self) -> None:
        """Clear both stacks."""
        self._deeds, self._undone = [], []
        self.changed.emit()


T = TypeVar("T")


class ChatListState(State):
    """The list of chats.

    groups: chats under their headings. folders: all folders. query: the search text. shows_trash:
    whether the Trash is listed. deeds: undo and redo.

    Signals:
        changed: the listed chats, their names or places are others.
        went_on: a heading, and the ListedChat that is now the first under it.
        failed: a StoreError in words.
    """

    went_on = Signal(object, object)

    def __init__(
        self,
        store: SessionStore,
        chat: ChatState,
        settings: KeptSettings,
        clock: Callable[[], float] = time.time,
        parent: QObject | None = None,
    ) -> None:
        """chat: the one on show. settings: of the app. clock: seconds since 1970."""
        super().__init__(parent)
        self._store, self._chat, self._settings, self._clock = store, chat, settings, clock
        self._turns, self._day = IdleQueue(self), date.min
        self.query, self.shows_trash = "", False
        self.groups: tuple[ChatGroup, ...] = ()
        self.folders: tuple[Folder, ...] = ()
        self.deeds = Deeds(self)
        chat.stored.connect(self.show_changed)

    def refresh(self) -> None:
        """Reload the list from the store."""
        with self.reporting():
            self.folders = self._store.folders.listed()
            self.groups = self._groups(self.folders)
            self._day = date.fromtimestamp(self._clock())
            self.changed.emit()

    def show_changed(self, chat_id: int) -> None:
        """Update the row of a chat in which something was said, and move it to the top.

        The whole list is read again on another day, and while a search, the Trash, or a folder with
        the chat is listed.
        """
        if self.shows_trash or self.query or date.fromtimestamp(self._clock()) != self._day:
            self.refresh()
            return
        with self.reporting():
            chat = self._store.chats.get(chat_id)
            if chat.folder is not None:
                self.refresh()
            elif chat.deleted_at is None:
                self.went_on.emit(PINNED if chat.pinned else TODAY, ListedChat(chat))

    def search(self, query: str) -> None:
        """List the chats that contain these words; all chats when there are none."""
        self.query = query.strip()
        self.show_trash(False)

    def show_trash(self, wanted: bool) -> None:
        """List the Trash, or the chats again."""
        self.shows_trash = wanted
        self.refresh()

    def begin(self) -> None:
        """Show a new chat, and a list in which it will appear."""
        if self.shows_trash:
            self.show_trash(False)
        self._chat.begin(self._settings.value.new_chat)

    # what is done with chats

    def rename(self, chat_id: int, title: str) -> None:
        """Give a chat another title."""
        self._do(lambda: self._store.chats.rename(chat_id, title))

    def pin(self, pinned: bool, *chat_ids: int) -> None:
        """Pin chats to the top, or unpin them."""
        self._do_each(lambda chat_id: self._store.chats.pin(chat_id, pinned), chat_ids)

    def delete(self, *chat_ids: int) -> None:
        """Move chats to the Trash, from where they can be restored."""
        if self._discard(chat_ids):
            words = Words("{n:,} chats moved to the Trash", "Moved to the Trash", len(chat_ids))
            self.deeds.add(words, lambda: self._take_back(chat_ids))

    def _discard(self, chat_ids: Sequence[int]) -> bool:
        if not self._do_each(self._store.chats.delete, chat_ids):
            return False
        for chat_id in chat_ids:
            self._chat.forget(chat_id)
        if self._chat.chat_id in chat_ids:
            self.begin()
        return True

    def _take_back(self, chat_ids: Sequence[int]) -> Again:
        if self._do_each(self._store.chats.restore, chat_ids):
            self._chat.open(chat_ids[0])
        return lambda: self.delete(*chat_ids)

    def restore(self, *chat_ids: int) -> None:
        """Move chats out of the Trash."""
        if not self._do_each(self._store.chats.restore, chat_ids):
            return

        def undo() -> Again | None:
            return (lambda: self.restore(*chat_ids)) if self._discard(chat_ids) else None

        words = Words("{n:,} chats restored", "Chat restored", len(chat_ids))
        self.deeds.add(words, undo)

    def delete_for_ever(self, *chat_ids: int) -> None:
        """Delete chats with their messages; their deletion cannot be undone."""
        if self._do_each(self._store.chats.delete_for_ever, chat_ids):
            self.deeds.forget()

    def empty_trash(self) -> None:
        """Delete all chats in the Trash with their messages."""
        with self.reporting():
            self.delete_for_ever(*(chat.id for chat in self._store.chats.in_bin()))

    def delete_message(self, message_id: int) -> None:
        """Delete the question that a message of the chat on show is or answers, with its
        answers.
        """
        chat_id, put_back = self._chat.chat_id, self._chat.delete(message_id)
        if chat_id is None or put_back is None:
            return

        def undo() -> Again:
            put_back()
            return again

        def again() -> None:
            if self._chat.chat_id != chat_id:
                self._chat.open(chat_id)
            self.delete_message(message_id)

        self.deeds.add(Words("A question and its answer are deleted."), undo)

    def duplicate(self, chat_id: int, how: str) -> None:
        """Copy a chat with all branches and show the copy. how: word added to its title."""
        self._turns.do_steps(self._copy(chat_id, how, None))

    def branch_off(self, message_id: int, how: str) -> None:
        """Copy a chat up to a message and show the copy. how: word added to its title."""
        with self.reporting():
            chat_id = self._store.messages.get(message_id).chat_id
            self._turns.do_steps(self._copy(chat_id, how, message_id))

    def _copy(self, chat_id: int, how: str, up_to: int | None) -> Iterator[None]:
        with self.reporting():
            copy = yield from self._store.chats.copy_in_steps(chat_id, how, up_to)
            self.refresh()
            self._chat.open(copy)

    def close(self) -> None:
        """Stop copying; the next start deletes unfinished copies."""
        self._turns.stop()

    # folders

    def new_folder(self, name: str, chat_ids: Sequence[int] = ()) -> Folder | None:
        """Create a folder with these chats, and list all chats; None if it failed."""
        self.query, self.shows_trash = "", False
        return self._do(lambda: self._store.folders.create(name, chat_ids))

    def rename_folder(self, folder: int, name: str) -> None:
        """Give a folder another name."""
        self._do(lambda: self._store.folders.rename(folder, name))

    def open_folder(self, folder: int, is_open: bool) -> None:
        """Show or hide the chats of a folder."""
        self._do(lambda: self._store.folders.open(folder, is_open))

    def remove_folder(self, folder: int) -> None:
        """Remove a folder; its chats stay."""
        folders = self._store.folders
        gone = self._do(lambda: folders.remove(folder))
        if gone is not None:

            def undo() -> Again | None:
                back = self._do(lambda: folders.give_back(gone))
                return None if back is None else lambda: self.remove_folder(back.id)

            self.deeds.add(Words("Removed the folder {name}", name=gone.folder.name), undo)

    def move(self, chat_ids: Sequence[int], folder: int | None) -> None:
        """Move chats into a folder, or out of their folders for None."""
        folders, before = self._store.folders, dict[int | None, list[int]]()

        def move() -> bool:
            for chat_id in chat_ids:
                before.setdefault(self._store.chats.get(chat_id).folder, []).append(chat_id)
            folders.move(chat_ids, folder)
            return before.keys() != {folder}

        def take_back() -> None:
            for old, moved in before.items():
                folders.move(moved, old)

        def undo() -> Again:
            self._do(take_back)
            return lambda: self.move(chat_ids, folder)

        if self._do(move):
            words = Words("{n:,} chats moved", "Chat moved", len(chat_ids))
            self.deeds.add(words, undo)

    # how it is done

    def _do_each(self, change: Callable[[int], object], chat_ids: Iterable[int]) -> bool:
        """Change all of these chats or none; False if it failed."""

        def change_all() -> bool:
            with self._store.database.transaction():
                for chat_id in chat_ids:
                    change(chat_id)
            return True

        return self._do(change_all) or False

    def _do(self, change: Callable[[], T]) -> T | None:
        """Change the store and reload the list; None if it failed."""
        made = None
        with self.reporting():
            made = change()
            self.report("")
            self.refresh()
            self._chat.look_again()
        return made

    def _groups(self, folders: Sequence[Folder]) -> tuple[ChatGroup, ...]:
        if self.shows_trash:
            return _one_group(Words("Trash"), self._store.chats.in_bin())
        if self.query:
            hits = self._store.search.find(self.query)
            return (ChatGroup(Words("Found"), hits),) if hits else ()
        return in_folders(self._store.chats.listed(), folders, self._clock())


def _one_group(heading: str, chats: Iterable[ChatSummary]) -> tuple[ChatGroup, ...]:
    listed = tuple(map(ListedChat, chats))
    return (ChatGroup(heading, listed),) if listed else ()


def in_folders(
    chats: Iterable[ChatSummary], folders: Iterable[Folder], now: float
) -> tuple[ChatGroup, ...]:
    """Group chats: pinned ones, folders with their chats, the others by day."""
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
    """Group chats in their order, by calendar days of `zone`, None for the local time zone."""
    today = datetime.fromtimestamp(now, zone).date()
    groups: dict[str, list[ListedChat]] = {}
    day = _Day("", 0, 0)
    for chat in chats:
        if not chat.pinned and not day.start <= chat.updated_at < day.end:
            day = _day_of(chat.updated_at, today, zone)
        groups.setdefault(PINNED if chat.pinned else day.heading, []).append(ListedChat(chat))
    return tuple(ChatGroup(heading, tuple(group)) for heading, group in groups.items())


class _Day(NamedTuple):
    """A calendar day from `start` up to `end`, seconds since 1970; kept for the next chat."""

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
