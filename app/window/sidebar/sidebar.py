"""The sidebar: search, new chat, the list of chats, the Trash and the models."""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSignalBlocker, Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QPushButton, QWidget
from typing_extensions import override

from app.state.answers import Answers
from app.state.chat import ChatState
from app.state.chat_list import ChatListState
from app.state.downloads import Downloads
from app.window.controls.dialogs import confirm
from app.window.controls.fields import SearchField, on_key
from app.window.controls.icons import IconButton, icon
from app.window.controls.labels import label, set_tip
from app.window.controls.layouts import Wide, column, row
from app.window.controls.notice_bar import UndoBar
from app.window.language import percent, tr
from app.window.look import look
from app.window.sidebar.chat_list import ChatList, Export

NARROWEST, WIDEST = 180, 420
"""Least and most width of the sidebar, in pixels at a zoom of 1."""
SEARCH_PAUSE_MS = 120
RING, RING_PEN = 12, 2


class Sidebar(QFrame):
    """new, models: buttons of commands of the window."""

    _chats: ChatListState

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "sidebar")
        self.list = ChatList()
        self._search = SearchField(tr("Search"), tr("Search in chats"))
        self.new = RowButton(tr("New chat"), "new_chat")
        self.models = RowButton(tr("Models"), "library")
        self._trash = RowButton(tr("Trash"), "delete")
        self._trash.setCheckable(True)
        self._empty = label("", "muted")
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._empty.setContentsMargins(18, 12, 18, 0)
        self.undo = UndoBar()
        self._pause = QTimer(self, singleShot=True, interval=SEARCH_PAUSE_MS)
        folder = IconButton("new_folder", tr("New folder"))
        news = row(Wide(self.new), folder, spacing=4)
        back = RowButton(tr("Back to Chats"), "chevron_left")
        self._empty_trash = IconButton("delete", tr("Empty Trash…"))
        self._in_trash = QWidget()
        row(Wide(back), self._empty_trash, of=self._in_trash, spacing=4)
        self._in_trash.hide()
        top = column(self._search, news, self._in_trash, margins=(8, 8, 8, 0), spacing=4)
        foot = row(Wide(self.models), self._trash, margins=(8, 4, 8, 8), spacing=4)
        column(top, self._empty, Wide(self.list), self.undo, foot, of=self, spacing=0)
        self._search.textChanged.connect(lambda _: self._pause.start())
        self._pause.timeout.connect(self._look)
        on_key(self._search, Qt.Key.Key_Escape, self._leave_search)
        self._search.returnPressed.connect(self._open_first)
        folder.clicked.connect(lambda: self.list.make_folder(self.list.several))
        back.clicked.connect(lambda: self._chats.show_trash(False))
        self._empty_trash.clicked.connect(self._ask_to_empty_trash)
        self._fit()

    def watch(
        self,
        chats: ChatListState,
        chat: ChatState,
        answers: Answers,
        downloads: Downloads,
        export: Export,
    ) -> None:
        """Show this list of chats, and the progress of downloads."""
        self._chats = chats
        self.list.watch(chats, chat, answers, export)
        self.undo.watch(chats.deeds)
        downloads.changed.connect(lambda: self.models.show_fraction(downloads.fraction))
        self._trash.toggled.connect(chats.show_trash)
        chats.changed.connect(self._show)
        chats.went_on.connect(self._empty.hide)

    def _fit(self) -> None:
        zoom = max(1.0, look().zoom)
        self.setMinimumWidth(round(NARROWEST * zoom))
        self.setMaximumWidth(round(WIDEST * zoom))

    def _show(self) -> None:
        """Update the words above the list: empty, searched, or the Trash, which is focused when
        opened.
        """
        if not self._pause.isActive() and self._search.text().strip() != self._chats.query:
            with QSignalBlocker(self._search):
                self._search.setText(self._chats.query)
        self._empty.setText(self._words_for_nothing())
        self._empty.setVisible(not self._chats.groups)
        with QSignalBlocker(self._trash):
            self._trash.setChecked(self._chats.shows_trash)
        self._empty_trash.setEnabled(bool(self._chats.groups))
        if self._chats.shows_trash and self._in_trash.isHidden():
            self.list.setFocus()
        elif not self._chats.shows_trash and self._in_trash.isVisible():
            focus = self.window().focusWidget()
            if focus is self.list or self._in_trash.isAncestorOf(focus):
                self.window().setFocus()
        self._in_trash.setVisible(self._chats.shows_trash)

    def _words_for_nothing(self) -> str:
        if self._chats.shows_trash:
            return tr("The Trash is empty. Deleted chats stay here for 30 days.")
        if self._chats.query:
            return tr("Nothing found in titles or messages.")
        return tr("Your chats will be listed here.")

    def _ask_to_empty_trash(self) -> None:
        """Ask before the chats in the Trash are deleted."""
        count = sum(len(group.chats) for group in self._chats.groups)
        question = tr("Delete {n:,} chats for good?", "Delete 1 chat for good?", count)
        details, verb = tr("This cannot be undone."), tr("Empty Trash")
        confirm(self, question, details, verb, self._chats.empty_trash)

    def start_search(self) -> None:
        """Focus the search field."""
        self._search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._search.selectAll()

    def clear_search(self) -> None:
        """Clear the search at once."""
        self._search.clear()
        self._look()

    def _look(self) -> None:
        self._pause.stop()
        self._chats.search(self._search.text())

    def _open_first(self) -> None:
        """Search for what is typed, and open the first chat."""
        if self._pause.isActive():
            self._look()
        self.list.choose_at(0)

    def _leave_search(self) -> None:
        self.clear_search()
        self.window().setFocus()

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()


class RowButton(QPushButton):
    """A button as wide as the sidebar, with a progress ring at its right."""

    def __init__(self, words: str, picture: str) -> None:
        super().__init__(icon(picture), words)
        self._fraction: float | None = None
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setProperty("role", "row")
        self.setFlat(True)

    def show_fraction(self, fraction: float | None) -> None:
        """Show progress, None for no ring."""
        self._fraction = fraction
        words = "" if fraction is None else tr("Downloading: {done}", done=percent(fraction))
        set_tip(self, words)
        self.setAccessibleDescription(words)
        self.update()

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._fraction is not None:
            place = QRectF(0, 0, RING, RING)
            place.moveCenter(QPointF(self.width() - RING, self.height() / 2))
            with QPainter(self) as painter:
                painter.setRenderHint(QPainter.RenderHint.Antialiasing)
                painter.setPen(QPen(look().colour("line"), RING_PEN))
                painter.drawEllipse(place)
                painter.setPen(QPen(look().colour("accent"), RING_PEN))
                painter.drawArc(place, 90 * 16, round(-self._fraction * 360 * 16))
