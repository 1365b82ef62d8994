"""Find text in the messages of a chat: the search, its marks, and its bar."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple
from weakref import WeakKeyDictionary

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QTextEdit
from shiboken6 import isValid
from typing_extensions import override

from app.values.attached_text import said_with
from app.window.controls.fields import SearchField, on_key
from app.window.controls.icons import IconButton
from app.window.controls.labels import label, tabular
from app.window.controls.layouts import row
from app.window.language import tr
from app.window.look import look
from app.window.transcript.drafted_spans import Tint, in_utf16
from app.window.transcript.message_column import MessageColumn
from app.window.transcript.segment_column import TextWidget, searched
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.user_bubble import beginning_of


class Match(NamedTuple):
    """A match in a text widget, as document positions."""

    widget: TextWidget
    start: int
    end: int


class Place(NamedTuple):
    """A match: index of its message in the chat, and its number there, both from 0.

    thoughts: number of the message's matches in its thinking, which come first.
    """

    message: int
    number: int
    thoughts: int

    @property
    def is_in_thoughts(self) -> bool:
        """Whether the match is in the thinking."""
        return self.number < self.thoughts


MARKS = re.compile(
    r"^ *(?:`{3,}|~{3,})[^`\n]*$|[*_~`]+"
    r"|\[(?=[^\]\n]*\]\()|\]\([^)\s]*\)|^ {0,3}\[[^\]\n]+\]:[ \t].*",
    re.MULTILINE,
)
"""Markdown characters that are not rendered."""


def searched_text(message: ShownMessage) -> str:
    """Return the searchable text of a message, without Markdown."""
    if message.role == "user":
        return beginning_of(said_with(message.text).text)
    return MARKS.sub("", message.text)


def searched_thoughts(message: ShownMessage) -> str:
    """Return the searchable thinking of an answer, without Markdown."""
    return MARKS.sub("", message.thinking)


class ChatSearch(QObject):
    """The matches of a query in a chat, and which one is current.

    number: of the current match, from 1; 0 for none. total: of all matches, counted in the stored
    text. Signal `went`: another match is current, or none is.
    """

    went = Signal()

    def __init__(self, messages: MessageColumn, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._column = messages
        self._query = ""
        self._pattern: re.Pattern[str] | None = None
        self._stored_pattern = re.compile("")
        self._totals: list[int] = []
        self.number = 0
        self._marked = WeakKeyDictionary[TextWidget, tuple[object, ...]]()

    @property
    def total(self) -> int:
        """Number of matches in the chat."""
        return self._totals[-1] if self._totals else 0

    @property
    def place(self) -> Place | None:
        """Place of the current match, also in a message without widgets."""
        if not 0 < self.number <= self.total:
            return None
        message = bisect_left(self._totals, self.number)
        before = self._totals[message - 1] if message else 0
        return Place(message, self.number - before - 1, self._thoughts_at(message))

    @property
    def current(self) -> Match | None:
        """The current match in its widget; None if there is none, as in closed thinking."""
        place = self.place
        view = place and self._column.view_at(place.message)
        if not place or not view or not view.is_built:
            return None
        found = [match for text in view.texts() for match in self._matches(text)]
        number = place.number - (0 if view.shows_thoughts else place.thoughts)
        return found[min(number, len(found) - 1)] if found and number >= 0 else None

    def find(self, query: str, message: int = 0) -> None:
        """Search for another query, "" for none.

        The first match from the message at this index on is current, or for the same query the same
        match as before.
        """
        number = self.number if query == self._query else 0
        self._unmark()
        self._query = query
        self._pattern = re.compile(re.escape(query), re.IGNORECASE) if query else None
        unmarked = MARKS.sub("", query) or query
        self._stored_pattern = re.compile(re.escape(unmarked), re.IGNORECASE)
        self._totals = list(accumulate(self._counts())) if query else []
        is_named = 0 < message < len(self._totals)
        first = 1 + (self._totals[message - 1] + self._thoughts_at(message) if is_named else 0)
        self.number = min(number or first, self.total)
        self.went.emit()

    def _counts(self) -> Iterator[int]:
        """Yield the number of matches of each message."""
        for place, message in enumerate(self._column.messages):
            now = self._as_it_is(place, message)
            yield self._count(searched_thoughts(now)) + self._count(searched_text(now))

    def _thoughts_at(self, place: int) -> int:
        """Matches in what was thought before the answer at this place."""
        message = self._as_it_is(place, self._column.messages[place])
        return self._count(searched_thoughts(message))

    def _as_it_is(self, place: int, message: ShownMessage) -> ShownMessage:
        """Return a running answer in its present state."""
        view = self._column.view_at(place) if message.state == "live" else None
        if view is None:
            return message
        return replace(message, text=view.markdown(), thinking=view.thoughts())

    def _count(self, text: str) -> int:
        return len(self._stored_pattern.findall(_spaced(text))) if text else 0

    def step(self, by: int) -> None:
        """Go to the next (1) or previous (-1) match, wrapping around."""
        if self.total:
            self.number = (self.number - 1 + by) % self.total + 1
            self.went.emit()

    def mark(self) -> None:
        """Mark the matches in the texts in view, the current one stronger."""
        if not self._query:
            return
        current, now = self.current, look()
        in_view = [view for view in self._column.views if not view.visibleRegion().isEmpty()]
        for text in [text for view in in_view for text in view.texts()]:
            stronger = current if current and current.widget is text else None
            place = stronger and stronger[1:]
            state = (self._query, place, now, text.document().revision())
            if self._marked.get(text) != state:
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

    def _matches(self, widget: TextWidget) -> list[Match]:
        if self._pattern is None:
            return []
        text, places = searched(widget)
        ranges = [
            Tint(places[m.start()], places[m.end() - 1] + 1, 0)
            for m in self._pattern.finditer(_spaced(text))
        ]
        return [Match(widget, t.start, t.end) for t in in_utf16(widget.text(), ranges)]


class FindBar(QFrame):
    """A search field, the number of matches, and buttons. close_button: ends the search."""

    def __init__(self, search: ChatSearch) -> None:
        super().__init__()
        self._search = search
        self.field = SearchField(tr("Find in this chat"), tr("Find in this chat"))
        self.field.setMinimumWidth(120)
        self.field.textChanged.connect(search.find)
        self.count = label("", "muted")
        tabular(self.count)
        self.count.setMinimumWidth(64)
        self._previous = IconButton("chevron_up", tr("Previous match"))
        self._next = IconButton("chevron_down", tr("Next match"))
        self.close_button = IconButton("close", tr("Close"))
        self._previous.clicked.connect(lambda: search.step(-1))
        self._next.clicked.connect(lambda: search.step(1))
        search.went.connect(self._show_count)
        buttons = (self._previous, self._next, self.close_button)
        row(self.field, self.count, *buttons, of=self, margins=(20, 2, 20, 6), spacing=4)
        on_key(self, Qt.Key.Key_Escape, self.close_button.click)

    def _show_count(self) -> None:
        current, total = self._search.number, self._search.total
        words = (
            tr("{current} of {total}", current=current, total=total) if total else tr("no match")
        )
        self.count.setText(words if self.field.text() else "")
        for button in (self._previous, self._next):
            button.setEnabled(total > 0)

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            is_back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            self._search.step(-1 if is_back else 1)
        else:
            super().keyPressEvent(event)


def _spaced(text: str) -> str:
    """Replace no-break spaces by spaces."""
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
