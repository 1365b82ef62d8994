"""The messages of a chat from the top, made of widgets only near the part in view."""

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget
from shiboken6 import isValid

from app.window.controls.layouts import STRETCH, column
from app.window.look import look
from app.window.transcript.message_view import MessageView
from app.window.transcript.reader import GAP, MARGIN, Reader
from app.window.transcript.shown_message import ShownMessage

SLACK = 4
"""Pixels from the end that still count as being there, on the way down."""


class Content(QWidget):
    """What is scrolled. Signal `resized`: its children have their new places."""

    resized = Signal()

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Say so."""
        super().resizeEvent(event)
        self.resized.emit()


class PinnedScroll(QScrollArea):
    """At the end it stays at the end; anywhere else what the reader looks at keeps its place.

    Any move up lets go, be it a pixel; coming down to the end takes hold again. Signals
    `pinned_changed`(bool), and `scrolled`: other parts are in view.
    """

    pinned_changed = Signal(bool)
    scrolled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.pinned = True
        self._anchor: QWidget | None = None
        self._anchor_y = 0
        self._last = 0
        self._moving = False
        self.content = Content()
        self.content.resized.connect(self._keep_place)
        self.setWidget(self.content)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalScrollBar().valueChanged.connect(self._moved)
        self.verticalScrollBar().rangeChanged.connect(self._grew)

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._set_pinned(True)
        self._grew()

    def go_to(self, widget: QWidget, place: QPoint, room: int) -> None:
        """Scroll to a place in a widget, with so many pixels above and below it; that widget is
        what must not move while others around it get their widgets.
        """
        inside = widget.mapTo(self.content, place)
        self.ensureVisible(inside.x(), inside.y(), 0, room)
        self._hold(widget)

    def stay(self) -> None:
        """Let what is in view keep its place, though it be the end."""
        self._remember()
        self._set_pinned(False)

    def go_to_top(self, widget: QWidget) -> None:
        """Scroll to where a widget begins, now or once it has its place."""
        self._set_pinned(False)
        self._anchor, self._anchor_y = widget, MARGIN
        self._keep_place()

    def _moved(self, value: int) -> None:
        bar = self.verticalScrollBar()
        down = value >= self._last
        self._last = value
        self.scrolled.emit()
        if self._moving:
            return
        at_end = value >= bar.maximum() - (SLACK if down else 0)
        self._set_pinned(at_end)
        self._remember()

    def _grew(self) -> None:
        if self.pinned:
            self._move(self.verticalScrollBar().maximum())

    def _move(self, value: int) -> None:
        self._moving = True
        self.verticalScrollBar().setValue(value)
        self._moving = False

    def _set_pinned(self, pinned: bool) -> None:
        if pinned != self.pinned:
            self.pinned = pinned
            self.pinned_changed.emit(pinned)

    def _remember(self) -> None:
        """What stands at the top of the view is what must not move."""
        top = QPoint(self.content.width() // 2, self.verticalScrollBar().value())
        self._hold(self.content.childAt(top) or self.content.childAt(top + QPoint(0, 24)))

    def _hold(self, widget: QWidget | None) -> None:
        self._anchor = widget
        if widget is not None:
            self._anchor_y = self._top_of(widget) - self.verticalScrollBar().value()

    def _top_of(self, widget: QWidget) -> int:
        return widget.mapTo(self.content, QPoint(0, 0)).y()

    def _keep_place(self) -> None:
        if self.pinned or self._anchor is None:
            return
        if isValid(self._anchor) and self.content.isAncestorOf(self._anchor):
            self._move(self._top_of(self._anchor) - self._anchor_y)
        else:
            self._remember()


NEARBY_MS = 50
"""After so long without scrolling the messages next to those in view are made."""
AT_ONCE = 60
"""So many messages of another chat get their places in one turn, in a few milliseconds."""
AT_FIRST = 600
"""So many have places before a chat is shown; those above get theirs when they are scrolled to."""


class MessageColumn(PinnedScroll):
    """The messages on show; each has its own id.

    is_filling: the messages that are seen first are still being made.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader
        self._views: list[MessageView] = []
        self._earlier: list[ShownMessage] = []
        self._dropped: list[MessageView] = []
        self._first: int | None = None
        self._goes_to_first = False
        self.is_filling = False
        self._column = column(STRETCH, of=self.content, spacing=GAP)
        self._nearby = QTimer(self, singleShot=True, interval=NEARBY_MS)
        self._nearby.timeout.connect(self._make_nearby)
        self.verticalScrollBar().rangeChanged.connect(self._hold_the_end)
        self.scrolled.connect(self._nearby.start)
        reader.edit_begun.connect(self._stay_with_the_editor)
        self.scrolled.connect(lambda: reader.turns.do(self._make_in_view))
        self.scrolled.connect(lambda: reader.turns.do(self._add_above))
        self._set_margins()

    @property
    def placed(self) -> list[MessageView]:
        """The messages that have their places, from the top: all, or the last of very many."""
        return self._views

    @property
    def views(self) -> list[MessageView]:
        """All messages from the top; those of another chat that have no place yet get it now."""
        self._add_earlier(len(self._earlier))
        return self._views

    def view(self, message_id: int) -> MessageView | None:
        """The widget of a message; the last have their places first."""
        while True:
            for view in reversed(self._views):
                if view.message.id == message_id:
                    return view
            if not self._earlier:
                return None
            self._add_earlier(AT_ONCE)

    def show_messages(self, messages: Iterable[ShownMessage]) -> None:
        """Show another chat, from its end."""
        self.content.hide()  # what is added to what is seen is shown one by one, which takes longer
        self._drop_from(0)
        self._earlier = list(messages)
        self._add_earlier(AT_ONCE)
        self._fill(None)
        self.follow()

    def _add_earlier(self, count: int) -> None:
        """Give places to so many messages above those that have theirs."""
        if self._earlier and count:
            self._earlier, last = self._earlier[:-count], self._earlier[-count:]
            self._views[:0] = self._inserted(0, last)
        self.content.setVisible(not self._lacks_places())

    def _lacks_places(self) -> bool:
        """Whether some are to be placed before any are shown."""
        return bool(self._earlier) and len(self._views) < AT_FIRST

    def _add_above(self) -> None:
        """Those above, once the first ones are nearly in view."""
        near = self.verticalScrollBar().value() < self.viewport().height()
        if self._earlier and near and not self.is_filling:
            self.stay()
            self._add_earlier(AT_ONCE)

    def go_to_message(self, message_id: int) -> None:
        """Show the chat from this message on."""
        self._fill(message_id)
        self._goes_to_first = True

    def _fill(self, first: int | None) -> None:
        """Make what will be in view, a part of a message a turn, before any of it is shown: from
        this message on or, None, from the end.
        """
        self._first, self._goes_to_first, self.is_filling = first, False, True
        self.viewport().setUpdatesEnabled(False)
        self._reader.turns.do(self._make_next)

    def _make_next(self) -> None:
        wanted = (message.id == self._first for message in self._earlier)
        if self._lacks_places() or (self._first is not None and any(wanted)):
            self._add_earlier(AT_ONCE)
        elif view := self._next_in_view():
            self.make_some(view)
        else:
            self._end_filling()
            return
        self._reader.turns.do(self._make_next)

    def _next_in_view(self) -> MessageView | None:
        """The first that is not made of those that will be in view."""
        first, room = self._place_of(self._first), max(self.viewport().height(), 400)
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
        if self._goes_to_first:
            rest = self._views[self._place_of(self._first) :]
            made = sum(view.sizeHint().height() for view in rest if view.is_built)
            if made > self.viewport().height():
                self.go_to_top(rest[0])
            else:
                self.follow()

    def _place_of(self, message_id: int | None) -> int:
        """Its number, or that of a message to come."""
        ids = [view.message.id for view in self._views]
        return ids.index(message_id) if message_id in ids else len(ids)

    def replace_from(self, message_id: int, messages: Iterable[ShownMessage]) -> None:
        """Show another branch: from this message on, these instead; the place is kept."""
        self.view(message_id)
        self.content.setMinimumHeight(self.content.height())  # until these are as high
        self._drop_from(self._place_of(message_id))
        added = self._add(messages)
        self._fill(added[0].message.id if added else None)

    def add(self, message: ShownMessage) -> None:
        """Show one more message and go to it; it is made in turns of its own."""
        for last in self._views[-1:]:
            last.end_being_last()
        [view] = self._add([message])
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
        if view is not None and not view.finish(message):
            index = self._views.index(view)
            later = [v.message for v in self._views[index + 1 :]]
            self.replace_from(message.id, [message, *later])

    def _hold_the_end(self) -> None:
        """Where it is in view; until what is in view is made, nobody knows."""
        bar = self.verticalScrollBar()
        if not self.is_filling and bar.value() == bar.maximum():
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

    def _add(self, messages: Iterable[ShownMessage]) -> list[MessageView]:
        added = self._inserted(len(self._views), messages)
        self._views += added
        return added

    def _inserted(self, place: int, messages: Iterable[ShownMessage]) -> list[MessageView]:
        now = look()
        added = [MessageView(message, self._reader, now) for message in messages]
        for row, view in enumerate(added, place):
            self._column.insertWidget(row, view)
        return added

    def _drop_from(self, index: int) -> None:
        for view in self._views[index:]:
            self._column.takeAt(index)  # removeWidget would take ten times as long
            view.give_up()
        self._dropped = sorted(self._dropped + self._views[index:], key=lambda view: view.is_built)
        del self._views[index:]
        self._nearby.start()

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
        if event.type() == QEvent.Type.FontChange:
            now = look()
            for view in self._views:
                view.guess_height(now)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The column stays in the middle."""
        self._set_margins()
        super().resizeEvent(event)
        self._nearby.start()
