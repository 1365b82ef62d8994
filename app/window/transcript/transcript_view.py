"""The transcript: shows messages, grows the live one, finds text, and says what the user wants."""

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.window.controls.icons import icon
from app.window.transcript.chat_search import ChatSearch, Match
from app.window.transcript.draft_legend import DraftLegend
from app.window.transcript.find_bar import FindBar
from app.window.transcript.message_column import MessageColumn
from app.window.transcript.model_offer import ModelOffer
from app.window.transcript.reader import Reader
from app.window.transcript.shown_message import ShownMessage
from mlx_engine.values.events import TextPiece

EDGE = 12
"""Pixels between the floating parts and the edge."""
ROOM = 80
"""Pixels kept free above and below a match that is scrolled to."""


class TranscriptView(QWidget):
    """Messages come in with `show_messages`, `add_message`, `append_pieces` and `finish`.

    reader: has the signals of what the user wants.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader(self)
        self._found: Match | None = None
        self._arrive = QTimer(self)
        self._arrive.setSingleShot(True)
        self._arrive.setInterval(0)
        self._arrive.timeout.connect(self._scroll_to_match)
        self.column = MessageColumn(self.reader)
        self.column.setAccessibleName("Transcript")
        self._search = ChatSearch(self.column.make, self)
        self._search.found.connect(self._show_found)
        self._mark_soon = QTimer(self, singleShot=True, interval=0)
        self._mark_soon.timeout.connect(self._search.mark)
        self.column.made.connect(self._mark_soon.start)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        self.offer = ModelOffer()
        layout.addWidget(self.offer)
        self.find_bar = FindBar()
        layout.addWidget(self.find_bar, 0, Qt.AlignmentFlag.AlignRight)
        layout.addWidget(self.column, 1)
        self.legend = DraftLegend()
        layout.addWidget(self.legend, 0, Qt.AlignmentFlag.AlignHCenter)
        self.find_bar.query_changed.connect(self._find)
        self.find_bar.step_wanted.connect(self._step)
        self.find_bar.closed.connect(self.close_find)
        self.jump = QPushButton(icon("chevron_down"), "Jump to latest", self)
        self.jump.clicked.connect(self.column.follow)
        self.column.pinned_changed.connect(self._offer_jump)
        for hidden in (self.legend, self.find_bar, self.jump):
            hidden.hide()
        self._place()

    def show_messages(self, messages: Iterable[ShownMessage]) -> None:
        """Show another chat, from its end; what is not near stays unmade until it is."""
        self._forget_search()
        self.column.show_messages(messages)

    def clear(self) -> None:
        """Show nothing."""
        self.show_messages(())

    def add_message(self, message: ShownMessage) -> None:
        """Show one more message, `state` "live" for an answer that begins, and go to it."""
        self.column.add(message)

    def append_pieces(self, message_id: int, pieces: Sequence[TextPiece]) -> None:
        """Grow a live answer by a batch of pieces; costs the same however long it is."""
        self.column.append_pieces(message_id, pieces)

    def finish_thinking(self, message_id: int, seconds: float | None) -> None:
        """The thinking of a live answer took this long."""
        self.column.finish_thinking(message_id, seconds)

    def finish(self, message: ShownMessage) -> None:
        """An answer is complete, stopped or failed: its final text, figures and state."""
        self.column.finish(message)
        if self.find_bar.isVisible():
            self._find(self.find_bar.field.text())

    def set_drafted_shown(self, shown: bool) -> None:
        """Tint drafted words, or not."""
        self.reader.shows_drafted = shown
        self.column.viewport().update()
        self.legend.setVisible(shown)
        self._place()

    def open_find(self) -> None:
        """Show the bar to find text."""
        self.find_bar.show()
        self.find_bar.field.setFocus()
        self.find_bar.field.selectAll()
        self._find(self.find_bar.field.text())

    def close_find(self) -> None:
        """Hide the bar and its marks."""
        self.find_bar.hide()
        self._search.find("", ())
        self._search.mark()
        self.column.setFocus()

    def copy_last_answer(self) -> None:
        """Copy the last answer on show, if there is one."""
        for message in reversed(self.column.messages()):
            view = self.column.view(message.id)
            if message.role == "assistant" and view is not None:
                view.copy()
                return

    def edit_last_prompt(self) -> None:
        """Let the user change what they wrote last."""
        for message in reversed(self.column.messages()):
            view = self.column.view(message.id)
            if message.role == "user" and view is not None:
                view.edit()
                self.column.ensureWidgetVisible(view)
                return

    def _forget_search(self) -> None:
        self._search.forget()
        self._found = None
        self.find_bar.hide()

    def _find(self, query: str) -> None:
        self._search.find(query, self.column.views())

    def _step(self, by: int) -> None:
        self._search.step(by)
        self._arrive.start()

    def _show_found(self) -> None:
        search, before = self._search, self._found
        self._found = search.current
        self.find_bar.show_count(search.number, search.total, search.is_whole)
        self._mark_soon.start()
        if self._found not in (None, before):
            self._arrive.start()

    def _scroll_to_match(self) -> None:
        """Once messages that were only just made have their places."""
        match = self._search.current
        if match is None:
            return
        cursor = match.widget.textCursor()
        cursor.setPosition(match.start)
        inside = match.widget.cursorRect(cursor).center()
        place = match.widget.viewport().mapTo(self.column.content, inside)
        self.column.ensureVisible(place.x(), place.y(), 0, ROOM)

    def _offer_jump(self, pinned: bool) -> None:
        self.jump.setVisible(not pinned)
        self._place()

    def _place(self) -> None:
        """Put the floating button above the lower edge."""
        self.jump.adjustSize()
        below = self.column.geometry().bottom() - self.jump.height() - EDGE
        self.jump.move((self.width() - self.jump.width()) // 2, below)
        self.jump.raise_()

    # Qt

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """What floats keeps its place; what was found is marked in the colours of now."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._place()
            self._mark_soon.start()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """The floating button keeps to its edge."""
        super().resizeEvent(event)
        self._place()
