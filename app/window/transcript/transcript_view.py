"""The transcript: shows messages, streams the running answer, finds text."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint, QRectF, QSignalBlocker, QSize, Qt, QTimer
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget
from typing_extensions import override

from app.state.chat import ChatState
from app.state.chat_list import ChatListState
from app.state.drafts import Drafts
from app.state.running_answer import Growth
from app.values.app_settings import TextWidth
from app.window.controls.icons import icon
from app.window.controls.layouts import Wide, column
from app.window.controls.notice_bar import NoticeBar
from app.window.language import tr
from app.window.look import DEEPEST_TINT, look
from app.window.transcript.find import ChatSearch, FindBar
from app.window.transcript.message_column import MessageColumn
from app.window.transcript.message_view import MessageView
from app.window.transcript.page_boxes import RADIUS
from app.window.transcript.reader import TEXT_WIDTHS, Reader
from app.window.transcript.shown_message import (
    Role,
    ShownMessage,
    shown_message,
    shown_messages,
)
from mlx_engine.values.conversation import TextPiece
from mlx_engine.values.words import Words

LEGEND_TITLE = Words("Guessed so many tokens ahead")
LEGEND_REST = Words("no color: not guessed")
SAMPLE_GAP = 8


class DraftLegend(QWidget):
    """A line with a tinted sample for each depth that can be told apart."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(
            tr(
                "{title} 1 to {deepest}: a deeper tint; {rest}",
                title=LEGEND_TITLE,
                deepest=DEEPEST_TINT,
                rest=LEGEND_REST,
            )
        )

    def _sample(self) -> int:
        """Pixels from one sample to the next."""
        return QFontMetrics(look().small_font()).horizontalAdvance("4+") + 14

    def _width(self, *words: str) -> int:
        """Return the width of the samples and these words."""
        metrics = QFontMetrics(look().small_font())
        beside = (metrics.horizontalAdvance(text) + SAMPLE_GAP for text in words if text)
        return DEEPEST_TINT * self._sample() + sum(beside)

    def shown(self) -> tuple[str, str]:
        """Return the words before and after the samples, "" if there is no room."""
        title, rest = tr(LEGEND_TITLE), tr(LEGEND_REST)
        if self._width(title, rest) <= self.width():
            return title, rest
        return (title if self._width(title) <= self.width() else "", "")

    # Qt

    @override
    def sizeHint(self) -> QSize:
        high = QFontMetrics(look().small_font()).height()
        return QSize(self._width(tr(LEGEND_TITLE), tr(LEGEND_REST)), high + 12)

    @override
    def minimumSizeHint(self) -> QSize:
        return QSize(self._width(), self.sizeHint().height())

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        now = look()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(now.small_font())
            title, rest = self.shown()
            step, middle = self._sample(), Qt.AlignmentFlag.AlignVCenter
            painter.setPen(now.colour("muted"))
            painter.translate((self.width() - self._width(title, rest)) / 2, 0)
            painter.drawText(self.rect(), middle, title)
            left = self._width(title) - DEEPEST_TINT * step
            after = self.rect().adjusted(self._width(title) + SAMPLE_GAP - 4, 0, 0, 0)
            painter.drawText(after, middle, rest)
            high = painter.fontMetrics().height() + 2
            box = QRectF(left, (self.height() - high) / 2, step - 4, high)
            for depth in range(1, DEEPEST_TINT + 1):
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(now.tint(depth))
                painter.drawRoundedRect(box, RADIUS, RADIUS)
                painter.setPen(now.colour("text"))
                words = str(depth) if depth < DEEPEST_TINT else f"{depth}+"
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)
                box.translate(step, 0)


EDGE = 12
"""Pixels between floating parts and the edge."""
ROOM = 80
"""Pixels above and below a match that is scrolled to."""


class TranscriptView(QWidget):
    """The messages of the chat on show. reader: context of all parts."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader(self)
        self.column = MessageColumn(self.reader)
        self.column.setAccessibleName(tr("Transcript"))
        self.column.setMinimumHeight(
            1
        )  # where there is no room for all, it is what can be scrolled
        self._search = ChatSearch(self.column, self)
        self._search.went.connect(self._go_to_match)
        self._marking = QTimer(self, singleShot=True, interval=0)
        self._marking.timeout.connect(self._search.mark)
        self.column.content.resized.connect(self._marking.start)
        self.column.scrolled.connect(self._marking.start)
        self.offer = NoticeBar(tr("Model of this chat"), can_close=False)
        self.find_bar, self.legend = FindBar(self._search), DraftLegend()
        parts = (self.offer, self.find_bar, Wide(self.column), self.legend)
        lines = column(*parts, of=self, spacing=0)
        lines.setAlignment(self.find_bar, Qt.AlignmentFlag.AlignRight)
        lines.setAlignment(self.legend, Qt.AlignmentFlag.AlignHCenter)
        self.find_bar.close_button.clicked.connect(self.close_find)
        self.jump = QPushButton(icon("chevron_down"), tr("Jump to latest"), self)
        self.jump.clicked.connect(self.column.follow)
        self.column.pinned_changed.connect(self._offer_jump)
        for hidden in (self.legend, self.find_bar, self.jump):
            hidden.hide()
        self._place()

    def watch(self, chat: ChatState, chats: ChatListState, drafts: Drafts) -> None:
        """Show this chat. chats, drafts: for the buttons of messages."""
        self.reader.chat, self.reader.chats, self.reader.drafts = chat, chats, drafts
        self.reader.edits = drafts.edits
        chat.opened.connect(lambda first: self._open(chat, first))
        chat.replaced.connect(lambda place: self._replace(chat, place))
        chat.added.connect(lambda place: self._add(shown_messages(chat, place)))
        chat.grown.connect(lambda message_id, growth: self._grow(chat, message_id, growth))
        chat.ended.connect(lambda message_id: self._end(chat, message_id))

    def _open(self, chat: ChatState, first: int | None) -> None:
        """Show another chat, and mark the searched words."""
        self.show_messages(shown_messages(chat), first)
        if first is not None and chat.found:
            self.show_hit(chat.turns.ids[first], chat.found)
            if not self._search.total:
                self.close_find()

    def _replace(self, chat: ChatState, place: int) -> None:
        """Replace messages from an index on, and follow a running answer there."""
        self.replace_from(place, shown_messages(chat, place))
        if chat.running is not None:
            self.column.follow()

    def _add(self, messages: Sequence[ShownMessage]) -> None:
        for message in messages:
            self.add_message(message)

    def _grow(self, chat: ChatState, message_id: int, growth: Growth) -> None:
        if growth.pieces:
            self.append_pieces(message_id, growth.pieces)
        view, place = self.column.view(message_id), chat.place(message_id)
        if growth.uses and view is not None and place is not None:
            view.show_uses(shown_message(chat, place))
        if growth.ends_thinking and chat.running is not None:
            self.finish_thinking(message_id, chat.running.thinking_seconds)

    def _end(self, chat: ChatState, message_id: int) -> None:
        place = chat.place(message_id)
        if place is not None:
            self.finish(shown_message(chat, place))

    def show_messages(self, messages: Sequence[ShownMessage], first: int | None = None) -> None:
        """Show another chat, from the message at `first` on, None for its end.

        Only what is near the viewport is built.
        """
        self._search.find("")
        self.find_bar.hide()
        self.reader.formulas.forget_wanted()
        self.column.show_messages(messages, first)

    def replace_from(self, place: int, messages: Sequence[ShownMessage]) -> None:
        """Replace all messages from an index on; the scroll position stays."""
        self.column.stay()
        self.column.replace_from(place, messages)
        self._find_again()

    def add_message(self, message: ShownMessage) -> None:
        """Append a message, `state` "live" for a running answer, and scroll to it."""
        self.column.add(message)

    def append_pieces(self, message_id: int, pieces: Sequence[TextPiece]) -> None:
        """Append pieces to a running answer; takes the same time at any length."""
        view = self.column.view(message_id)
        if view is not None:
            view.append(pieces)
            self._marking.start()

    def finish_thinking(self, message_id: int, seconds: float | None) -> None:
        """Show the seconds that a running answer has thought."""
        view = self.column.view(message_id)
        if view is not None:
            self.column.make(view)
            if view.answer is not None:
                view.answer.finish_thinking(seconds)

    def finish(self, message: ShownMessage) -> None:
        """Show the final text, figures and state of an answer."""
        self.column.finish(message)
        self._find_again()

    def _find_again(self) -> None:
        if self.find_bar.isVisible():
            self._search.find(self.find_bar.field.text())

    def show_hit(self, message_id: int, text: str) -> None:
        """Go to the first match of a text from a message on, and open the find bar with it."""
        place = self.reader.chat.place(message_id)
        self.find_bar.show()
        with QSignalBlocker(self.find_bar.field):
            self.find_bar.field.setText(text)
        self._search.find("")
        self._search.find(text, place or 0)

    def show_model(self, name: str) -> None:
        """Set the name of the model in use; answers of other models show theirs."""
        if name != self.reader.model:
            self.reader.model = name
            for view in self.column.views:
                view.show_state()

    def set_drafted_shown(self, shown: bool) -> None:
        """Show or hide the tints of drafted words."""
        self.reader.shows_drafted = shown
        self.column.viewport().update()
        self.legend.setVisible(shown)
        self._place()

    def set_text_width(self, wish: TextWidth) -> None:
        """Set the widest line."""
        if self.reader.text_width != TEXT_WIDTHS[wish]:
            self.reader.text_width = TEXT_WIDTHS[wish]
            self.column.fit_text()

    def open_find(self) -> None:
        """Show the find bar."""
        self.find_bar.show()
        self.find_bar.field.setFocus()
        self.find_bar.field.selectAll()
        self._find_again()

    def find_further(self, by: int) -> None:
        """Go to the next (1) or previous (-1) match; open the find bar without a query."""
        if self.find_bar.isVisible() and self.find_bar.field.text():
            self._search.step(by)
        else:
            self.open_find()

    def close_find(self) -> None:
        """Hide the find bar and its marks."""
        self.find_bar.hide()
        self._search.find("")
        self.window().setFocus()

    def copy_last_answer(self) -> None:
        """Copy the last answer on show, if there is one."""
        view = self._last("assistant")
        if view is not None:
            view.copy()

    def edit_last_prompt(self) -> None:
        """Open the editor for the user's last message."""
        view = self._last("user")
        if view is not None:
            self.column.make(view)
            view.edit()
            self.column.ensureWidgetVisible(view)

    def _last(self, role: Role) -> MessageView | None:
        self.column.show_end()
        return next((v for v in reversed(self.column.views) if v.message.role == role), None)

    def _go_to_match(self) -> None:
        search = self._search
        if search.place is not None:
            self.reader.selection.clear()  # it would hide the marks
            view = self.column.view_made_at(search.place.message)
            if search.place.is_in_thoughts:
                view.open_thoughts()
                self.column.lay_out()
            match = search.current
            if match is None:
                self.column.go_to(view, QPoint(), ROOM)
            else:
                cursor = match.widget.textCursor()
                cursor.setPosition(match.start)
                inside = match.widget.cursorRect(cursor).center()
                self.column.go_to(match.widget.viewport(), inside, ROOM)
        self._marking.start()

    def _offer_jump(self, pinned: bool) -> None:
        self.jump.setVisible(not pinned)
        self._place()

    def _place(self) -> None:
        """Place the floating button above the lower edge."""
        self.jump.adjustSize()
        below = self.column.geometry().bottom() - self.jump.height() - EDGE
        self.jump.move((self.width() - self.jump.width()) // 2, below)
        self.jump.raise_()

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._place()
            self._marking.start()

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()
