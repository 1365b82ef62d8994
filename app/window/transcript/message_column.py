"""The messages of a chat from the top, made of widgets only near the part in view."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QEvent, QTimer
from PySide6.QtGui import QResizeEvent

from app.window.controls.layouts import STRETCH, column
from app.window.look import look
from app.window.transcript.message_view import MessageView
from app.window.transcript.pinned_scroll import PinnedScroll
from app.window.transcript.reader import GAP, MARGIN, Reader
from app.window.transcript.shown_message import ShownMessage, ShownMessages

NEARBY_MS = 50
"""After so long without scrolling the messages next to those in view are made."""
AT_ONCE = 60
"""So many messages get their places in one turn, in a few milliseconds."""
SECTION = 600
"""So many have places before a chat is shown; the others get theirs when they are scrolled to."""
MOST_PLACED = 1200
"""Beyond so many, those at the other end lose their places: a layout takes a time for each."""


class MessageColumn(PinnedScroll):
    """The messages on show; each has its own id. Of very many only a section has widgets.

    messages: all of the chat. is_filling: those that are seen first are still being made.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader
        self.messages = ShownMessages()
        self._views: list[MessageView] = []
        self._start = 0
        self._section = range(0)
        self._live: MessageView | None = None
        self._dropped: list[MessageView] = []
        self._target = 0
        self._goes_to_target = False
        self.is_filling = False
        self._column = column(STRETCH, of=self.content, spacing=GAP)
        self._nearby = QTimer(self, singleShot=True, interval=NEARBY_MS)
        self._nearby.timeout.connect(self._make_nearby)
        self.verticalScrollBar().rangeChanged.connect(self._hold_the_end)
        self.scrolled.connect(self._nearby.start)
        reader.edit_begun.connect(self._stay_with_the_editor)
        self.scrolled.connect(lambda: reader.turns.do(self._make_in_view))
        self.scrolled.connect(lambda: reader.turns.do(self._extend))
        self._set_margins()

    @property
    def views(self) -> list[MessageView]:
        """The messages that have their places, from the top: all, or a section of very many."""
        return self._views

    @property
    def _stop(self) -> int:
        """The place after the last message that has its widget."""
        return self._start + len(self._views)

    def view(self, message_id: int) -> MessageView | None:
        """The widget of a message that has its place, or is being written."""
        views = (*self._views, self._live) if self._live else self._views
        return next((view for view in reversed(views) if view.message.id == message_id), None)

    def _is_whole_below(self) -> bool:
        """Whether the last message of the chat has its place."""
        return self._stop == len(self.messages)

    def view_at(self, place: int) -> MessageView | None:
        """The widget of the message at a place in the chat, if it has one."""
        return self._views[place - self._start] if self._start <= place < self._stop else None

    def show_messages(self, messages: Sequence[ShownMessage], first: int | None = None) -> None:
        """Show another chat, from the message at the place `first` on or, None, from its end."""
        self._drop_from(0)
        self._drop_live()
        self.messages = ShownMessages(messages)
        if first is None:
            self._show_section(len(messages))
            self.follow()
        else:
            self.go_to_place(first)

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.show_end()
        super().follow()

    def show_end(self) -> None:
        """Give the last messages their places."""
        if not self._is_whole_below():
            self._show_section(len(self.messages))

    def go_to_place(self, place: int) -> None:
        """Show the chat from the message at this place on, which may have no widget yet."""
        self._show_section(place)
        self._goes_to_target = True
        self._set_pinned(False)

    def _show_section(self, place: int) -> None:
        """Give places to the messages around this one only."""
        self.content.hide()  # what is added to what is seen is shown one by one, which takes longer
        self._drop_from(0)
        self._start = place
        self._fill(place)

    def _fill(self, place: int) -> None:
        """Make what will be in view, a part of a message a turn, before any of it is shown: from
        the message at this place on or, if there is none, from the end.
        """
        count = len(self.messages)
        first = max(0, min(place - SECTION // 2, count - SECTION))
        last = min(count, max(place + SECTION // 2, SECTION))
        self._section = range(min(first, self._start), max(last, self._stop))
        self._target, self._goes_to_target, self.is_filling = place, False, True
        self.viewport().setUpdatesEnabled(False)
        self._add_to_section()
        self._reader.turns.do(self._make_next)

    def _add_to_section(self) -> None:
        """Some of those that are to have places before any is shown."""
        before = len(self._views)
        self._add_below(AT_ONCE, self._section.stop)
        self._add_above(AT_ONCE - (len(self._views) - before), self._section.start)
        self.content.setVisible(not self._lacks_places())

    def _lacks_places(self) -> bool:
        return self._stop < self._section.stop or self._start > self._section.start

    def _add_above(self, count: int, first: int = 0) -> None:
        """Give places to so many messages above the section, up to the place `first`."""
        start = min(self._start, max(first, self._start - count))
        self._views[:0] = self._inserted(0, self.messages[start : self._start])
        self._start = start

    def _add_below(self, count: int, stop: int) -> None:
        added = self.messages[self._stop : min(stop, self._stop + count)]
        self._views += self._inserted(len(self._views), added)

    def _extend(self) -> None:
        """Where the edge of the section is nearly in view."""
        bar, near = self.verticalScrollBar(), self.viewport().height()
        above = self._start > 0 and bar.value() < near
        below = not self._is_whole_below() and bar.maximum() - bar.value() < near
        if self.is_filling or not (above or below):
            return
        self.stay()
        if above:
            self._add_above(AT_ONCE)
        else:
            self._add_below(AT_ONCE, len(self.messages))
        self._reader.turns.do(self._trim_below if above else self._trim_above)

    def _trim_below(self) -> None:
        if len(self._views) > MOST_PLACED:
            self._remember()
            self._drop_from(len(self._views) - AT_ONCE)

    def _trim_above(self) -> None:
        if len(self._views) <= MOST_PLACED:
            return
        self._remember()
        lower = self._views[AT_ONCE].y() - self._views[0].y()
        self._drop(self._views[:AT_ONCE], 0)
        self._start += AT_ONCE
        self._move(self.verticalScrollBar().value() - lower)  # before its range ends there

    def _make_next(self) -> None:
        if self._lacks_places():
            self._add_to_section()
        elif view := self._next_in_view():
            self.make_some(view)
        else:
            self._end_filling()
            return
        self._reader.turns.do(self._make_next)

    def _next_in_view(self) -> MessageView | None:
        """The first that is not made of those that will be in view."""
        first, room = self._target - self._start, max(self.viewport().height(), 400)
        for view in (*self._views[first:], *reversed(self._views[:first])):
            if not view.is_built:
                return view
            room -= view.sizeHint().height()
            if room < 0:
                break
        return None

    def _end_filling(self) -> None:
        self.is_filling = False
        self.content.setMinimumHeight(0)
        self.viewport().setUpdatesEnabled(True)
        self._nearby.start()
        self._reader.turns.do(self._hold_the_end)
        if self._goes_to_target:
            rest = self._views[self._target - self._start :]
            made = sum(view.sizeHint().height() for view in rest if view.is_built)
            if made > self.viewport().height():
                self.go_to_top(rest[0])
            else:
                self.follow()

    def replace_from(self, place: int, messages: Sequence[ShownMessage]) -> None:
        """Show another branch: from the message at this place on, these instead."""
        if not self._start <= place <= self._stop:
            self.messages.replace_from(place, messages)
            self.follow()
            return
        self.content.setMinimumHeight(self.content.height())  # until these are as high
        self._drop_from(place - self._start)
        self._drop_live()
        self.messages.replace_from(place, messages)
        self._fill(place)

    def add(self, message: ShownMessage) -> None:
        """Show one more message and go to it; it is made in turns of its own."""
        self.follow()
        for last in self._views[-1:]:
            last.end_being_last()
            self.messages.replace_from(len(self.messages) - 1, [last.message])
        self.messages.replace_from(len(self.messages), [message])
        self._add_below(1, len(self.messages))
        view = self._views[-1]
        self._reader.turns.do(lambda: self._make_added(view))
        self.follow()

    def _make_added(self, view: MessageView) -> None:
        """Unless another chat has come on show since."""
        if view in self._views and not view.is_built:
            self.make_some(view)
            self._reader.turns.do(lambda: self._make_added(view))

    def finish(self, message: ShownMessage) -> None:
        """An answer is complete."""
        view = self.view(message.id)
        if view is None:
            return
        is_placed = view in self._views
        place = self._start + self._views.index(view) if is_placed else len(self.messages) - 1
        later = self.messages[place + 1 :]
        self.messages.replace_from(place, [message, *later])
        if not is_placed:
            self._drop_live()
        elif not view.finish(message):
            self.replace_from(place, [message, *later])

    def _hold_the_end(self) -> None:
        """Where it is in view; until what is in view is made, nobody knows."""
        bar = self.verticalScrollBar()
        if not self.is_filling and self._is_whole_below() and bar.value() == bar.maximum():
            self._set_pinned(True)

    def _stay_with_the_editor(self) -> None:
        """It would run away from the user with an answer that grows below it."""
        if any(view.message.state == "live" for view in self._views[-1:]):
            self.stay()

    def _unmade_within(self, distance: int) -> list[MessageView]:
        """The messages in view and so many pixels above and below that have no widgets yet.

        Until all are laid out and the content has grown to them, their places mean nothing.
        """
        if self.is_filling:
            return []
        is_new = any(view.isHidden() for view in self._views)
        if is_new or self.content.height() < self._column.totalMinimumSize().height():
            self._nearby.start()
            return []
        self._column.activate()
        top = self.verticalScrollBar().value() - distance
        bottom = top + self.viewport().height() + 2 * distance
        near = (v for v in self._views if v.y() <= bottom and v.y() + v.height() > top)
        return [view for view in near if not view.is_built]

    def _make_in_view(self) -> None:
        """What is in view is needed now, what is near it soon; a part of a message a turn."""
        for view in self._unmade_within(0)[:1]:
            self.make_some(view)
            self._reader.turns.do(self._make_in_view)

    def _make_nearby(self) -> None:
        """It waits until nothing else is to do. What is not on show any more goes first."""
        if self._reader.turns.is_busy:
            self._nearby.start()
            return
        if self._dropped:
            self._dropped.pop().deleteLater()
            self._reader.turns.do(self._make_nearby)
            return
        for view in (self._unmade_within(0) or self._unmade_within(self.viewport().height()))[:1]:
            self.make_some(view)
            self._reader.turns.do(self._make_nearby)

    def make_at(self, place: int) -> None:
        """A part of the widgets of the message at a place; all around it where it has none."""
        view = self.view_at(place)
        if view is None:
            self.go_to_place(place)
        else:
            self.make_some(view)

    def make(self, view: MessageView) -> None:
        """Give one of its messages its widgets, if it has none yet."""
        view.build(self._width())

    def make_some(self, view: MessageView) -> None:
        """A part of that: `is_built` tells whether it was the last.

        What is not on show any more goes as fast, however quickly chats change.
        """
        view.build_some(self._width())
        if self._dropped:
            self._dropped.pop().deleteLater()

    def _inserted(self, row: int, messages: Iterable[ShownMessage]) -> list[MessageView]:
        now, added = look(), list[MessageView]()
        for message in messages:
            if self._live is not None and self._live.message.id == message.id:
                view, self._live = self._live, None
                view.show()
            else:
                view = MessageView(message, self._reader, now)
            self._column.insertWidget(row + len(added), view)
            added.append(view)
        return added

    def _drop_from(self, index: int) -> None:
        self._drop(self._views[index:], index)

    def _drop(self, views: list[MessageView], index: int) -> None:
        """Take away these, the first of which has this index; an answer that is being written goes
        on without a place.
        """
        for view in views:
            self._column.takeAt(index)  # removeWidget would take ten times as long
            if view.message.state == "live":
                view.hide()
                self._live = view
            else:
                view.give_up()
        gone = [view for view in views if view is not self._live]
        self._dropped = sorted(self._dropped + gone, key=lambda view: view.is_built)
        del self._views[index : index + len(views)]
        self._nearby.start()

    def _drop_live(self) -> None:
        """What is being written is not shown any more."""
        if self._live is not None:
            self._live.give_up()
            self._dropped.append(self._live)
            self._live = None

    def fit_text(self) -> None:
        """The reader wants text of another width."""
        self._set_margins()
        self._nearby.start()

    def _width(self) -> int:
        return max(120, min(self._reader.text_width, self.viewport().width() - 2 * MARGIN))

    def _set_margins(self) -> None:
        side = max(MARGIN, (self.viewport().width() - self._reader.text_width) // 2)
        self._column.setContentsMargins(side, MARGIN, side, MARGIN)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        """Larger text will be higher."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            now = look()
            for view in self._views:
                view.guess_height(now)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The column stays in the middle."""
        self._set_margins()
        super().resizeEvent(event)
        self._nearby.start()
