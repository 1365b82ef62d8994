"""The left side of the window: search, new chat, the list of chats, the bin and the library."""

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QLineEdit, QPushButton

from app.values.chats import ChatGroup, Folder, ListedChat
from app.window.controls.fields import SearchField
from app.window.controls.icons import IconButton, icon
from app.window.controls.labels import label
from app.window.controls.layouts import Wide, column, row
from app.window.controls.notice_bar import UndoBar
from app.window.language import tr
from app.window.look import look
from app.window.sidebar.chat_list import ChatList

WIDTH = 232
SEARCH_PAUSE_MS = 120


class Sidebar(QFrame):
    """Shows what it is given; `list` has the signals of single chats, `undo` takes deeds back.

    Signals:
        search_changed: the text in the search field, once the user pauses.
        new_wanted, folder_wanted, library_wanted: a new chat, a new folder, the page of models.
        bin_wanted: show the bin (True), or the chats again.
        search_left: Escape was pressed in the search field, which is empty now.
    """

    search_changed = Signal(str)
    new_wanted = Signal()
    folder_wanted = Signal()
    library_wanted = Signal()
    bin_wanted = Signal(bool)
    search_left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "sidebar")
        self.list = ChatList()
        self._search = SearchField(tr("Search"), tr("Search in chats"))
        self._search.addAction(icon("search", "muted"), QLineEdit.ActionPosition.LeadingPosition)
        new, library = _row_button(tr("New chat"), "new_chat"), _row_button(tr("Models"), "library")
        self._bin = _row_button(tr("Trash"), "delete")
        self._bin.setCheckable(True)
        self._empty = label("", "muted")
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._empty.setContentsMargins(18, 12, 18, 0)
        self.undo = UndoBar()
        self._pause = QTimer(self, singleShot=True, interval=SEARCH_PAUSE_MS)
        folder = IconButton("new_folder", tr("New folder"))
        news = row(Wide(new), folder, spacing=4)
        top = column(self._search, news, margins=(8, 8, 8, 0), spacing=4)
        foot = row(Wide(library), self._bin, margins=(8, 4, 8, 8), spacing=4)
        column(top, self._empty, Wide(self.list), self.undo, foot, of=self, spacing=0)
        self._search.textChanged.connect(lambda _: self._pause.start())
        self._pause.timeout.connect(lambda: self.search_changed.emit(self._search.text()))
        self._search.left.connect(self._leave_search)
        self._search.returnPressed.connect(self._open_first)
        new.clicked.connect(self.new_wanted)
        folder.clicked.connect(self.folder_wanted)
        library.clicked.connect(self.library_wanted)
        self._bin.toggled.connect(self.bin_wanted)
        self._fit()

    def _fit(self) -> None:
        self.setFixedWidth(round(WIDTH * max(1.0, look().zoom)))

    def show_groups(
        self, groups: Iterable[ChatGroup], folders: Iterable[Folder] = (), *, is_bin: bool = False
    ) -> None:
        """List these chats; say so when there are none. folders: all that chats can go into."""
        shown = tuple(groups)
        self.list.show_groups(shown, folders, is_bin=is_bin)
        self._empty.setText(self._words_for_nothing(is_bin=is_bin))
        self._empty.setVisible(not shown)
        with QSignalBlocker(self._bin):
            self._bin.setChecked(is_bin)

    def show_first(self, heading: str, listed: ListedChat) -> None:
        """A chat was changed just now: list it first under this heading."""
        self.list.show_first(heading, listed)
        self._empty.hide()

    def _words_for_nothing(self, *, is_bin: bool) -> str:
        if is_bin:
            return tr("The Trash is empty. Deleted chats stay here for 30 days.")
        if self._search.text().strip():
            return tr("Nothing found in titles or messages.")
        return tr("Your chats will be listed here.")

    def start_search(self) -> None:
        """Put the cursor into the search field."""
        self._search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._search.selectAll()

    def clear_search(self) -> None:
        """List all chats again, at once."""
        self._search.clear()
        self._pause.stop()
        self.search_changed.emit("")

    def _open_first(self) -> None:
        """What was typed counts now, not after a pause."""
        if self._pause.isActive():
            self._pause.stop()
            self.search_changed.emit(self._search.text())
        self.list.choose_first()

    def _leave_search(self) -> None:
        self.clear_search()
        self.search_left.emit()

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        """As wide as the text wants it."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()


def _row_button(words: str, picture: str) -> QPushButton:
    button = QPushButton(icon(picture), words)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.setProperty("role", "row")
    button.setFlat(True)
    return button
