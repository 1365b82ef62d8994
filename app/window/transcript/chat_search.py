"""Finds text in the messages on show and marks it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QTextEdit

from app.window.transcript.code_text import CodeText
from app.window.transcript.drafted_spans import Tint, in_utf16
from app.window.transcript.look import Look
from app.window.transcript.prose_segment import ProseSegment

TextWidget = ProseSegment | CodeText


@dataclass(frozen=True, slots=True)
class Match:
    """Positions in a widget's document."""

    widget: TextWidget
    start: int
    end: int


class ChatSearch:
    """The matches of one query, from the top, and which of them is current."""

    def __init__(self) -> None:
        self._marked: list[TextWidget] = []
        self.matches: list[Match] = []
        self.current = -1

    def find(self, query: str, widgets: Iterable[TextWidget]) -> None:
        """Look for `query`, upper and lower case alike; keeps the current match if it can."""
        before = self.matches[self.current] if 0 <= self.current < len(self.matches) else None
        pattern = re.compile(re.escape(query), re.IGNORECASE) if query else None
        self.matches = []
        for widget in widgets if pattern else ():
            assert pattern
            text = widget.text().replace("\xa0", " ")
            found = [Tint(m.start(), m.end(), 0) for m in pattern.finditer(text)]
            self.matches += [Match(widget, t.start, t.end) for t in in_utf16(text, found)]
        self.current = self.matches.index(before) if before in self.matches else -1

    def step(self, by: int) -> Match | None:
        """Make the next match current, around the end; None if there is none."""
        if not self.matches:
            return None
        if self.current < 0:
            self.current = 0 if by > 0 else len(self.matches) - 1
        else:
            self.current = (self.current + by) % len(self.matches)
        return self.matches[self.current]

    def mark(self, look: Look) -> None:
        """Show the matches in their widgets, the current one stronger."""
        selections: dict[TextWidget, list[QTextEdit.ExtraSelection]] = {}
        for index, match in enumerate(self.matches):
            selections.setdefault(match.widget, []).append(
                _selection(match, look, index == self.current)
            )
        for widget in self._marked:
            if widget not in selections:
                widget.setExtraSelections([])
        for widget, found in selections.items():
            widget.setExtraSelections(found)
        self._marked = list(selections)

    def forget(self) -> None:
        """Drop all widgets, without touching them: they may be gone."""
        self._marked, self.matches, self.current = [], [], -1


def _selection(match: Match, look: Look, current: bool) -> QTextEdit.ExtraSelection:
    form = QTextCharFormat()
    form.setBackground(look.found(current))
    cursor = QTextCursor(match.widget.document())
    cursor.setPosition(match.start)
    cursor.setPosition(match.end, QTextCursor.MoveMode.KeepAnchor)
    selection = QTextEdit.ExtraSelection()
    selection.cursor = cursor
    selection.format = form
    return selection
