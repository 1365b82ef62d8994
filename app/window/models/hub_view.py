"""Models on the hub: a search, what was found, and what one of them would bring."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QListWidgetItem, QPushButton, QWidget

from app.values.hub import HubFind, HubOffer, suggested
from app.values.models import DownloadFigures
from app.window.controls.choices import Option, Segments
from app.window.controls.fields import add_clear_button
from app.window.controls.labels import paragraph, say, set_role
from app.window.controls.layouts import Wide, column, row
from app.window.language import tr
from app.window.models.downloads import DOWNLOADED, RUNS
from app.window.models.two_line_list import (
    ENTRY,
    Row,
    T,
    TwoLineList,
    TwoLines,
    goes_down,
    heading_item,
)
from mlx_engine.values.words import Words, size_words

FORMATS = (Option("", Words("All")), Option("GGUF", "GGUF"), Option("MLX", "MLX"))
ROOMY = "QPushButton { padding: 4px 10px; }"
"""For segments that are not short of room."""

LOOKING = TwoLines(Words("Getting files and sizes"), "", "", is_faint=True, indent=1)


class HubList(TwoLineList):
    """What was found, one of them opened with a row for each model in it.

    Signals: `look_wanted`(id on the hub): its files are to be asked for. `picked`(HubOffer, None
    for no choice). `wanted`(HubOffer): by Return or a double click.
    """

    look_wanted = Signal(str)
    picked = Signal(object)
    wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__(tr("Models on Hugging Face"))
        self._heading = ""
        self._finds: tuple[HubFind, ...] = ()
        self._open = ""
        self._offers: tuple[HubOffer, ...] | None = None
        self.taken.connect(self._take)
        self.currentItemChanged.connect(lambda *_: self.picked.emit(self.offer))
        self.itemDoubleClicked.connect(lambda _: self.want())

    @property
    def offer(self) -> HubOffer | None:
        """The one that is chosen."""
        item = self.currentItem()
        entry = item.data(ENTRY) if item is not None else None
        return entry if isinstance(entry, HubOffer) else None

    def show_finds(self, heading: str, finds: Sequence[HubFind]) -> None:
        """Show these, none of them opened."""
        self._heading, self._finds = heading, tuple(finds)
        self.open("")
        self.scrollToTop()

    def open(self, hub_id: str) -> None:
        """Show that one is being looked at; "" closes the one that is open."""
        self._open, self._offers = hub_id, None
        self._refresh(None)

    def show_offers(self, hub_id: str, offers: tuple[HubOffer, ...]) -> None:
        """Show what there is in one, with what most would take as the choice."""
        if hub_id == self._open:
            self._offers = offers
            self._refresh(suggested(offers))

    def _take(self, item: QListWidgetItem) -> None:
        """Open a repository, or close it; a model in it is chosen by that alone."""
        entry = item.data(ENTRY)
        if not isinstance(entry, HubFind):
            return
        if entry.hub_id == self._open:
            self.open("")
        else:
            self.look_wanted.emit(entry.hub_id)

    def _refresh(self, chosen: HubOffer | None) -> None:
        """The row that was current stays, unless an offer is chosen."""
        current = self.currentItem()
        kept = chosen or (current.data(ENTRY) if current is not None else None)
        offset = self.verticalScrollBar().value()
        self.clear()
        if self._heading:
            self.addItem(heading_item(self._heading))
        for find in self._finds:
            self._add(find, lambda find: TwoLines(find.hub_id, find.detail, find.second), kept)
            if find.hub_id != self._open:
                continue
            if self._offers is None:
                self._add(None, lambda _: LOOKING, kept)
            for offer in self._offers or ():
                self._add(offer, _lines_of_offer, kept)
        self.verticalScrollBar().setValue(offset)
        if chosen is not None:
            self.scrollToItem(self.currentItem())
        self.picked.emit(self.offer)

    def _add(self, entry: T, lines_of: Callable[[T], TwoLines], kept: object) -> None:
        item = Row(entry, lines_of)
        self.addItem(item)
        if entry is None:
            item.setFlags(Qt.ItemFlag.NoItemFlags)
        elif entry == kept:
            self.setCurrentItem(item)

    def want(self) -> None:
        """Have the one that is chosen."""
        if self.offer is not None:
            self.wanted.emit(self.offer)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Return on a model begins its download, or offers to load it."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.offer is not None:
            self.want()
        else:
            super().keyPressEvent(event)


def _lines_of_offer(offer: HubOffer) -> TwoLines:
    return TwoLines(
        offer.label, offer.detail, offer.second, is_faint=offer.fit == "too-large", indent=1
    )


class HubView(QWidget):
    """Signals: `search_wanted`(words, format or ""); words may be a name or a link too.
    `download_wanted`(link of a model), `load_wanted`(path of one that is on this disk).

    `list` says which models are to be looked at.
    """

    search_wanted = Signal(str, str)
    download_wanted = Signal(str)
    load_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Hugging Face")
        self._words = QLineEdit()
        self._words.setAccessibleName(tr("Search Hugging Face"))
        self._words.setPlaceholderText(tr("Search, owner/name or a link"))
        add_clear_button(self._words)
        self._format = Segments(tr("Format"))
        self._format.show_options(FORMATS, "")
        self._format.setStyleSheet(ROOMY)
        self._state = paragraph("", "muted")
        self._what = paragraph("", "muted")
        self._get = QPushButton()
        self._get.setProperty("role", "primary")
        self._downloads: dict[str, DownloadFigures] = {}
        self.list = HubList()
        self.setFocusProxy(self._words)
        goes_down(self._words, self.list)
        top = row(Wide(self._words, 3), self._format, spacing=8)
        foot = row(Wide(self._what), self._get, spacing=8)
        column(top, self._state, Wide(self.list), foot, of=self, spacing=8)
        self._words.returnPressed.connect(self._ask)
        self._words.textChanged.connect(lambda text: None if text else self._ask())
        self._format.chosen.connect(lambda _: self._ask())
        self.list.picked.connect(self._show_pick)
        self.list.wanted.connect(self._take)
        self._get.clicked.connect(self.list.want)
        self._show_pick(None)
        self.say("")

    def show_words(self, words: str) -> None:
        """What is looked for, where it was not typed here."""
        with QSignalBlocker(self._words):
            self._words.setText(words)

    def say(self, words: str, *, is_problem: bool = False) -> None:
        """What is being done or what is wrong, "" for nothing."""
        set_role(self._state, "problem" if is_problem else "muted")
        say(self._state, words)

    def _ask(self) -> None:
        self.search_wanted.emit(self._words.text().strip(), str(self._format.value or ""))

    def show_downloads(self, downloads: Sequence[DownloadFigures]) -> None:
        """What is in the queue is not offered again; what came is there to be loaded."""
        self._downloads = {figures.key: figures for figures in downloads}
        self._show_pick(self.list.offer)

    def _path_of(self, offer: HubOffer) -> str:
        figures = self._downloads.get(offer.link)
        return figures.path if figures and figures.phase == "done" else offer.path

    def _take(self, offer: HubOffer) -> None:
        if path := self._path_of(offer):
            self.load_wanted.emit(path)
        elif offer.has_room:
            self.list.setFocus()  # the button is of no use until it has come
            self.download_wanted.emit(offer.link)

    def _show_pick(self, offer: HubOffer | None) -> None:
        self._get.setVisible(offer is not None)
        path = self._path_of(offer) if offer else ""
        is_refused = offer is not None and not offer.has_room and not path
        words = tr(DOWNLOADED, size=size_words(offer.nbytes)) if offer and path else ""
        say(self._what, words or (offer.words if offer else ""))
        set_role(self._what, "problem" if is_refused else "muted")
        figures = self._downloads.get(offer.link) if offer else None
        self._get.setText(tr("Load…") if path else tr("Download"))
        self._get.setEnabled(not is_refused and (figures is None or figures.phase not in RUNS))
