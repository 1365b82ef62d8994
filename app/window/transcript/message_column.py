"""The column of messages; only those near the viewport have widgets."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QCoreApplication, QEvent, Qt, QTimer, Slot
from PySide6.QtGui import QGuiApplication, QMouseEvent, QResizeEvent
from typing_extensions import override

from app.window.controls.layouts import STRETCH, column
from app.window.look import look
from app.window.transcript.message_view import MessageView
from app.window.transcript.pinned_scroll import PinnedScroll
from app.window.transcript.reader import GAP, MARGIN, Reader
from app.window.transcript.shown_message import ShownMessage, ShownMessages

NEARBY_MS = 50
"""Milliseconds without scrolling before a message near the viewport is built."""
SECTION = 240
"""Messages laid out around the first one on show."""
MORE = 60
"""Messages added at an end of the section that is nearly in view."""
MOST_PLACED = 1200
"""Most messages laid out; more are dropped at the other end, since each makes layouts slower."""


class MessageColumn(PinnedScroll):
    """The messages of a chat, by id.

    Of very many messages only a section is laid out. messages: all of the chat.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self._reader = reader
        self.messages = ShownMessages()
        self._views: list[MessageView] = []
        self._start = 0
        self._live: MessageView | None = None
        self._is_arranging = False
        self._column = column(STRETCH, of=self.content, spacing=GAP)
        self._nearby = QTimer(self, singleShot=True, interval=NEARBY_MS)
        self._nearby.timeout.connect(self._make_nearby)
        self.verticalScrollBar().rangeChanged.connect(self._hold_the_end)
        reader.edit_begun.connect(self._stay_with_the_editor)
        self.scrolled.connect(self._make_in_view)
        self.scrolled.connect(self._extend)
        self.content.resized.connect(self._make_in_view)
        reader.selection.belong_to(
            self,
            lambda: [view.parts() for view in self._views if view.is_built],
            lambda: "\n\n".join(message.text.strip("\n") for message in self.messages),
        )
        self._set_margins()

    @property
    def views(self) -> list[MessageView]:
        """The views of all messages, or of the section."""
        return self._views

    @property
    def _stop(self) -> int:
        """Index after the last message in the section."""
        return self._start + len(self._views)

    def view(self, message_id: int) -> MessageView | None:
        """Return the view of a message, None if it is not in the section."""
        views = (*self._views, self._live) if self._live else self._views
        return next((view for view in reversed(views) if view.message.id == message_id), None)

    def _is_whole_below(self) -> bool:
        """Whether the section ends with the last message of the chat."""
        return self._stop == len(self.messages)

    def view_at(self, place: int) -> MessageView | None:
        """Return the view at an index, None if it is not in the section."""
        return self._views[place - self._start] if self._start <= place < self._stop else None

    def show_messages(self, messages: Sequence[ShownMessage], first: int | None = None) -> None:
        """Show another chat, from the message at `first` on, None for its end."""
        self._drop_from(0)
        self._drop_live()
        self.messages = ShownMessages(messages)
        if first is None:
            self.follow()
        else:
            self.go_to_place(first)

    def follow(self) -> None:
        """Scroll to the end and stay there."""
        self.show_end()
        super().follow()

    def show_end(self) -> None:
        """Make the section of the last messages."""
        if not self._is_whole_below() or not self._views:
            self._show_section(len(self.messages))
            self._is_arranging = False

    def go_to_place(self, place: int) -> None:
        """Scroll to the message at an index, or to the end if all after it is in view."""
        if self.view_at(place) is None:
            self._show_section(place)
        rest = self._views[place - self._start :]
        self._make(rest)
        self._set_pinned(False)
        if (
            sum(view.sizeHint().height() for view in rest if view.is_built)
            < self.viewport().height()
        ):
            self.follow()
        else:
            self.go_to_top(rest[0])
        self._is_arranging = False
        self._make_in_view()

    def _show_section(self, place: int) -> None:
        """Make the section around a message, and build what will be in view.

        Until `_is_arranging` ends, scroll positions are not final.
        """
        self._is_arranging = True
        self.content.hide()  # what is added to what is seen is shown one by one, which takes longer
        self._drop_from(0)
        self._start = max(0, min(place - SECTION // 2, len(self.messages) - SECTION))
        self._views += self._inserted(0, self.messages[self._start : self._start + SECTION])
        self._mark_last()
        first = place - self._start
        self._make([*self._views[first:], *reversed(self._views[:first])])
        self.content.show()
        self.lay_out()

    def _make(self, views: Iterable[MessageView]) -> None:
        """Build as many views as fill the viewport."""
        room = max(self.viewport().height(), 400)
        for view in views:
            view.build(self._width())
            room -= view.sizeHint().height()
            if room < 0:
                break

    def _mark_last(self) -> None:
        for view in self._views[-2:]:
            view.show_as_last(view is self._views[-1] and self._is_whole_below())

    def lay_out(self) -> None:
        """Lay out the messages now."""
        self._column.activate()
        QCoreApplication.sendEvent(self, QEvent(QEvent.Type.LayoutRequest))
        self._column.activate()

    def _add_below(self, count: int) -> None:
        added = self.messages[self._stop : self._stop + count]
        self._views += self._inserted(len(self._views), added)
        self._mark_last()

    def _extend(self) -> None:
        """Extend the section at an end that is nearly in view."""
        bar, near = self.verticalScrollBar(), self.viewport().height()
        above = self._start > 0 and bar.value() < near
        below = not self._is_whole_below() and bar.maximum() - bar.value() < near
        if self._is_arranging or not (above or below):
            return
        self._is_arranging = True
        self.stay()
        if above:
            start = max(0, self._start - MORE)
            self._views[:0] = self._inserted(0, self.messages[start : self._start])
            self._start = start
            self._drop_from(MOST_PLACED)
        else:
            self._add_below(MORE)
            surplus = max(0, len(self._views) - MOST_PLACED)
            self._drop(self._views[:surplus], 0)
            self._start += surplus
        self.lay_out()
        self._keep_place()  # also where the content is as high as before
        self._is_arranging = False

    def replace_from(self, place: int, messages: Sequence[ShownMessage]) -> None:
        """Replace all messages from an index on, as for another branch."""
        if not self._start <= place <= self._stop:
            self.messages.replace_from(place, messages)
            self.follow()
            return
        self.content.setMinimumHeight(self.content.height())  # until these are as high
        self._drop_from(place - self._start)
        self._drop_live()
        self.messages.replace_from(place, messages)
        self._add_below(SECTION)
        self._make(self._views[place - self._start :])
        self.content.setMinimumHeight(0)
        self.lay_out()
        self._hold_the_end()

    def add(self, message: ShownMessage) -> None:
        """Add a message at the end and scroll to it."""
        self.follow()
        for last in self._views[-1:]:
            last.end_being_last()
            self.messages.replace_from(len(self.messages) - 1, [last.message])
        self.messages.replace_from(len(self.messages), [message])
        self._add_below(1)
        self._views[-1].build(self._width())
        self.follow()

    def finish(self, message: ShownMessage) -> None:
        """Show the final text of an answer."""
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
        """Stay at the end if it is in view."""
        bar = self.verticalScrollBar()
        if self._is_whole_below() and bar.value() == bar.maximum():
            self._set_pinned(True)

    def _stay_with_the_editor(self) -> None:
        """Keep an open editor in place above a growing answer."""
        if any(view.message.state == "live" for view in self._views[-1:]):
            self.stay()

    def _unmade_within(self, distance: int) -> list[MessageView]:
        """Return views within `distance` pixels of the viewport that are not built."""
        top = self.verticalScrollBar().value() - distance
        bottom = top + self.viewport().height() + 2 * distance
        near = (v for v in self._views if v.y() <= bottom and v.y() + v.height() > top)
        return [view for view in near if not view.is_built]

    def _make_in_view(self) -> None:
        """Build the views in the viewport now, and those near it soon."""
        self._nearby.start()
        if self._is_arranging:
            return
        self._is_arranging = True
        while unmade := self._unmade_within(0):
            unmade[0].build(self._width())
            self.lay_out()
        self._is_arranging = False

    def _make_nearby(self) -> None:
        for view in self._unmade_within(self.viewport().height())[:1]:
            view.build(self._width())
            self._nearby.start()

    def view_made_at(self, place: int) -> MessageView:
        """Return the view at an index, and build it."""
        if self.view_at(place) is None:
            self._show_section(place)
        view = self._views[place - self._start]
        self.make(view)
        self.lay_out()
        self._is_arranging = False
        return view

    def make(self, view: MessageView) -> None:
        """Build a view."""
        view.build(self._width())

    def _inserted(self, row: int, messages: Iterable[ShownMessage]) -> list[MessageView]:
        now, added = look(), list[MessageView]()
        for message in messages:
            if self._live is not None and self._live.message.id == message.id:
                view, self._live = self._live, None
            else:
                view = MessageView(message, self._reader, now)
            self._column.insertWidget(row + len(added), view)
            view.show()  # now, not once Qt comes to it: until then a layout takes it for empty
            added.append(view)
        return added

    def _drop_from(self, index: int) -> None:
        self._drop(self._views[index:], index)

    def _drop(self, views: list[MessageView], index: int) -> None:
        """Remove views from an index on; that of a running answer is kept aside."""
        for view in views:
            self._column.takeAt(index)  # removeWidget would take ten times as long
            view.hide()
            if view.message.state == "live":
                self._live = view
            else:
                view.deleteLater()
        del self._views[index : index + len(views)]

    def _drop_live(self) -> None:
        """Delete the view of a running answer that was kept aside."""
        if self._live is not None:
            self._live.deleteLater()
            self._live = None

    def fit_text(self) -> None:
        """Apply another text width."""
        self._set_margins()

    def _width(self) -> int:
        return max(120, min(self._widest, self.viewport().width() - 2 * MARGIN))

    @property
    def _widest(self) -> int:
        return round(self._reader.text_width * max(1.0, look().zoom))

    def _set_margins(self) -> None:
        side = max(MARGIN, (self.viewport().width() - self._widest) // 2)
        self._column.setContentsMargins(side, MARGIN, side, MARGIN)

    # Qt

    @Slot()
    def selectAll(self) -> None:  # noqa: N802
        """Select the whole chat."""
        self._reader.selection.select_all(None)

    @Slot()
    def copy(self) -> None:
        """Copy the selection."""
        data = self._reader.selection.copied()
        if data is not None:
            QGuiApplication.clipboard().setMimeData(data)

    @override
    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._reader.selection.clear()
        super().mousePressEvent(event)

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            now = look()
            self._set_margins()
            for view in self._views:
                view.guess_height(now)

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        self._set_margins()
        super().resizeEvent(event)
        self._make_in_view()
