"""Finds text in the messages on show, a few at a time, and marks it; the bar to do it in."""

import re
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QLabel, QTextEdit
from shiboken6 import isValid

from app.start.threads import Turns
from app.window.controls.fields import SearchField, keep_key
from app.window.controls.icons import IconButton
from app.window.controls.labels import label, tabular
from app.window.controls.layouts import row
from app.window.language import tr
from app.window.look import look
from app.window.transcript.drafted_spans import Tint, in_utf16
from app.window.transcript.message_column import MessageColumn
from app.window.transcript.message_view import searched_text
from app.window.transcript.segment_column import TextWidget, searched
from app.window.transcript.shown_message import ShownMessage


class FindBar(QFrame):
    """Signals `query_changed`(str), `step_wanted`(+1 or -1), `closed`."""

    query_changed = Signal(str)
    step_wanted = Signal(int)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.field = SearchField(tr("Find in this chat"), tr("Find in this chat"))
        self.field.left.connect(self.closed)
        self.field.setMinimumWidth(120)
        self.field.textChanged.connect(self.query_changed)
        self.count: QLabel = label("", "muted")
        tabular(self.count)
        self.count.setMinimumWidth(64)
        self._previous = IconButton("chevron_up", tr("Previous match"))
        self._next = IconButton("chevron_down", tr("Next match"))
        self._close = IconButton("close", tr("Close"))
        self._previous.clicked.connect(lambda: self.step_wanted.emit(-1))
        self._next.clicked.connect(lambda: self.step_wanted.emit(1))
        self._close.clicked.connect(self.closed)
        buttons = (self._previous, self._next, self._close)
        row(self.field, self.count, *buttons, of=self, margins=(20, 2, 20, 6), spacing=4)
        keep_key(self, Qt.Key.Key_Escape)

    def show_count(self, current: int, total: int, is_whole: bool) -> None:
        """Match `current` (from 1) of `total`, or of more; nothing without a query."""
        more = "" if is_whole else "…"
        words = (
            tr("{current} of {total}{more}", current=current, total=total, more=more)
            if total
            else more or tr("no match")
        )
        self.count.setText(words if self.field.text() else "")
        for button in (self._previous, self._next):
            button.setEnabled(total > 0)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return goes on, Shift-Return back, Escape closes."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            self.step_wanted.emit(-1 if back else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)


SLICE_S = 0.008
"""Counting gives way to everything else after so long."""


class Match(NamedTuple):
    """Positions in a widget's document."""

    widget: TextWidget
    start: int
    end: int


class Place(NamedTuple):
    """The place of a message in the chat, and the number of one of its matches, both from 0."""

    message: int
    number: int


class ChatSearch(QObject):
    """The matches of one query in a chat, from the top, and which of them is current.

    Messages without widgets are searched as text. number: of the current match, from 1; 0 for none.

    Signals: `counted`, more of them; `went`, another match is current, or there is none.
    """

    counted = Signal()
    went = Signal()

    def __init__(
        self, messages: MessageColumn, turns: Turns, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._column = messages
        self._turns = turns
        self._pattern: re.Pattern[str] | None = None
        self._count = 0
        self._totals: list[int] = []
        self._texts: dict[int, tuple[ShownMessage, Sequence[str]]] = {}
        self._sought: int | None = None
        self.number = 0
        self._marked = WeakKeyDictionary[TextWidget, tuple[object, ...]]()

    @property
    def total(self) -> int:
        """Matches found so far."""
        return self._totals[-1] if self._totals else 0

    @property
    def is_whole(self) -> bool:
        """Whether all messages have been searched."""
        return len(self._totals) == self._count

    @property
    def place(self) -> Place | None:
        """Where the current match stands, also in a message without widgets."""
        if not 0 < self.number <= self.total:
            return None
        message = bisect_left(self._totals, self.number)
        before = self._totals[message - 1] if message else 0
        return Place(message, self.number - 1 - before)

    @property
    def current(self) -> Match | None:
        """The current match, once its message is made."""
        view = None if self.place is None else self._column.view_at(self.place.message)
        if self.place is None or view is None:
            return None
        matches = [match for text in view.texts() for match in self._matches(text)]
        return matches[self.place.number] if self.place.number < len(matches) else None

    def find(self, query: str) -> None:
        """Look for `query`, upper and lower case alike; the same query keeps its current match."""
        pattern = re.compile(re.escape(query), re.IGNORECASE) if query else None
        is_same = pattern is not None and pattern == self._pattern
        self._sought = self.number or None if is_same else None
        if not is_same:
            self._unmark()
        self._pattern, self._count = pattern, len(self._column.messages) if query else 0
        self._totals, self.number = [], 0
        if not query:
            self._texts.clear()
        self.went.emit()
        self._count_some()

    def step(self, by: int) -> None:
        """Make the next (1) or the previous (-1) match current, around the end, once found."""
        if self.place is not None:
            self._sought = by + (self.number if self._sought is None else self._sought)
            self._count_some()

    def mark(self) -> None:
        """Show the matches in the texts in view, the current one stronger; the rest is marked once
        it is scrolled to.
        """
        current, now = self.current, look()
        in_view = [view for view in self._column.views if not view.visibleRegion().isEmpty()]
        for text in [text for view in in_view for text in view.texts()]:
            stronger = current if current and current.widget is text else None
            place = stronger and stronger[1:]
            state = (self._pattern, place, now, text.document().revision())
            if self._marked.get(text) != state and not text.visibleRegion().isEmpty():
                strong, weak = now.colour("warning", 0.5), now.colour("warning", 0.25)
                found = self._matches(text)
                text.setExtraSelections(
                    [_selection(match, strong if match == stronger else weak) for match in found]
                )
                self._marked[text] = state

    def _unmark(self) -> None:
        for text in self._marked:
            if isValid(text):
                text.setExtraSelections([])
        self._marked.clear()

    def _count_some(self) -> None:
        end = time.monotonic() + SLICE_S
        while not self.is_whole and time.monotonic() < end:
            self._count_next()
        if self._sought is not None and (self.is_whole or 0 < self._sought <= self.total):
            number, self._sought = self._sought, None
            if self.total:
                self._go_to((number - 1) % self.total + 1)
        if not self.is_whole:
            self._turns.do(self._count_some)
        self.counted.emit()

    def _count_next(self) -> None:
        assert self._pattern
        texts = self._searched(len(self._totals))
        found = sum(len(self._pattern.findall(_spaced(text))) for text in texts)
        self._totals.append(self.total + found)
        if found and not self.number and self._sought is None:
            self._go_to(1)

    def _searched(self, place: int) -> Sequence[str]:
        """Texts of the message at a place, from the top; those without widgets are kept."""
        view, message = self._column.view_at(place), self._column.messages[place]
        if view is not None and view.is_built:
            return view.searched()
        kept = self._texts.get(place)
        if kept is None or kept[0] is not message:
            kept = self._texts[place] = message, searched_text(message)
        return kept[1]

    def _go_to(self, number: int) -> None:
        self.number = number
        self.counted.emit()
        self.went.emit()

    def _matches(self, widget: TextWidget) -> list[Match]:
        if self._pattern is None:
            return []
        text, places = searched(widget)
        ranges = [
            Tint(places[m.start()], places[m.end() - 1] + 1, 0)
            for m in self._pattern.finditer(_spaced(text))
        ]
        return [Match(widget, t.start, t.end) for t in in_utf16(widget.text(), ranges)]


def _spaced(text: str) -> str:
    """A space that does not break is one for a reader."""
    return text.replace("\xa0", " ")


def _selection(match: Match, colour: QColor) -> QTextEdit.ExtraSelection:
    form = QTextCharFormat()
    form.setBackground(colour)
    cursor = QTextCursor(match.widget.document())
    cursor.setPosition(match.start)
    cursor.setPosition(match.end, QTextCursor.MoveMode.KeepAnchor)
    selection = QTextEdit.ExtraSelection()
    selection.cursor = cursor
    selection.format = form
    return selection
