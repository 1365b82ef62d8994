"""The hub page: search, results, downloads of one model, and signing in."""

from collections.abc import Iterator

from PySide6.QtCore import QSignalBlocker, QUrl
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget
from typing_extensions import override

from app.state.card import OfferedModel
from app.state.downloads import Downloads
from app.state.hub import HubState
from app.values.models import Format, HubFind, HubOffer, suggested
from app.window.controls.choices import Option, Segments
from app.window.controls.fields import add_clear_button
from app.window.controls.labels import label, paragraph, say, set_role
from app.window.controls.layouts import STRETCH, Wide, column, row
from app.window.language import said, tr
from app.window.models.downloads import DOWNLOADED, RUNS
from app.window.models.model_table import ModelRow, ModelTable, goes_down
from mlx_engine.values.words import Words, size_words

FORMATS = (Option("", Words("All")), Option("GGUF", "GGUF"), Option("MLX", "MLX"))
ASKED_FOR: dict[str, Format] = {"GGUF": "GGUF", "MLX": "MLX"}
LOOKING = Words("Getting files and sizes")
TOKENS = "https://huggingface.co/settings/tokens"


class SignIn(QWidget):
    """Steps for models whose owners require accepting their terms."""

    def __init__(self) -> None:
        super().__init__()
        self._hub: HubState
        words = paragraph(
            tr(
                "This model needs a Hugging Face account. Accept its owners' terms on its page, "
                "then paste an access token of your account here. It is stored where all programs "
                "for Hugging Face on this computer look for it."
            ),
            "note",
        )
        self._page, self._tokens = QPushButton(tr("Open Its Page")), QPushButton(tr("Get a Token"))
        for button in (self._page, self._tokens):
            button.setProperty("role", "link")
        self._token = QLineEdit()
        self._token.setEchoMode(QLineEdit.EchoMode.Password)
        self._token.setAccessibleName(tr("Access token"))
        self._token.setPlaceholderText(tr("Access token, hf_…"))
        self._go = QPushButton(tr("Sign In"))
        self._go.setProperty("role", "primary")
        links = row(self._page, self._tokens, STRETCH, spacing=12)
        column(words, links, row(Wide(self._token), self._go, spacing=8), of=self, spacing=6)
        self._token.returnPressed.connect(self._sign_in)
        self._go.clicked.connect(self._sign_in)
        self._tokens.clicked.connect(lambda: QDesktopServices.openUrl(QUrl(TOKENS)))

    def watch(self, hub: HubState) -> None:
        """Sign in to this hub."""
        self._hub = hub
        self._page.clicked.connect(self._open_page)

    def _open_page(self) -> None:
        find = next(iter(self._hub.finds), None)
        QDesktopServices.openUrl(QUrl(f"https://huggingface.co/{find.hub_id if find else ''}"))

    def _sign_in(self) -> None:
        if token := self._token.text().strip():
            self._token.clear()
            self._hub.sign_in(token)


class HubView(QWidget):
    """A search on the hub; the downloads of one model are listed below it."""

    _hub: HubState

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Hugging Face")
        self._words = QLineEdit()
        self._words.setAccessibleName(tr("Search Hugging Face"))
        self._words.setPlaceholderText(tr("Search, owner/name or a link"))
        add_clear_button(self._words)
        self._format = Segments(tr("Format"))
        self._format.show_options(FORMATS, "")
        self._heading, self._state = paragraph("", "muted"), paragraph("", "muted")
        self._sign_in = SignIn()
        self.table = ModelTable(tr("Models on Hugging Face"))
        self._what = paragraph("", "muted")
        self._get = QPushButton(tr("Download"))
        self._get.setProperty("role", "primary")
        self._account = label(tr("Signed in to Hugging Face"), "muted")
        self._sign_out = QPushButton(tr("Sign Out"))
        self._sign_out.setProperty("role", "link")
        self.setFocusProxy(self._words)
        goes_down(self._words, self.table)
        top = row(Wide(self._words, 3), self._format, spacing=8)
        foot = row(Wide(self._what), self._account, self._sign_out, self._get, spacing=8)
        lines = (self._state, self._sign_in, self._heading, Wide(self.table))
        column(top, *lines, foot, of=self, spacing=8)

    def watch(self, hub: HubState, downloads: Downloads, offered: OfferedModel) -> None:
        """Search and download there, and load what is on this disk."""
        self._hub, self._downloads, self._offered = hub, downloads, offered
        self._sign_in.watch(hub)
        hub.changed.connect(self._refresh)
        downloads.changed.connect(self._show_pick)
        self._words.returnPressed.connect(self._ask)
        self._words.textChanged.connect(lambda text: None if text else self._ask())
        self._format.chosen.connect(lambda _: self._ask())
        self.table.picked.connect(self._show_pick)
        self.table.taken.connect(self._take)
        self.table.wanted.connect(self._want)
        self._get.clicked.connect(self._want)
        self._sign_out.clicked.connect(hub.sign_out)
        self._shown: object = None
        self._refresh()

    @property
    def offer(self) -> HubOffer | None:
        """The selected download."""
        entry = self.table.entry
        return entry if isinstance(entry, HubOffer) else None

    def _ask(self) -> None:
        self._hub.search(self._words.text().strip(), ASKED_FOR.get(str(self._format.value or "")))

    def _refresh(self) -> None:
        hub = self._hub
        if hub.words != self._words.text().strip():
            with QSignalBlocker(self._words):
                self._words.setText(hub.words)
        set_role(self._state, "problem" if hub.is_problem else "muted")
        say(self._state, hub.status)
        say(self._heading, hub.heading)
        self._sign_in.setVisible(hub.needs_sign_in)
        self._account.setVisible(bool(hub.is_signed_in))
        self._sign_out.setVisible(bool(hub.is_signed_in))
        shown = hub.finds, hub.open_id, hub.offers
        if shown != self._shown:
            self._shown = shown
            self.table.show_rows(self._rows(), suggested(hub.offers) if hub.offers else None)

    def _rows(self) -> Iterator[ModelRow]:
        for find in self._hub.finds:
            rows: tuple[ModelRow, ...] = ()
            if find.hub_id == self._hub.open_id:
                offers = self._hub.offers
                rows = (
                    (ModelRow(LOOKING, LOOKING, is_faint=True),)
                    if offers is None
                    else tuple(map(_row_of_offer, offers))
                )
            about = said(find.about)
            yield ModelRow(
                find,
                find.hub_id.removesuffix(f"-{find.format}"),
                "",
                find.parameters,
                find.format or "",
                find.nbytes,
                find.heads,
                find.fit,
                about,
                tip="\n".join((find.hub_id, about or tr("Click to see files and sizes"))),
                rows=rows,
            )

    def _take(self, entry: object) -> None:
        """Show or hide the downloads of a model."""
        if isinstance(entry, HubFind):
            self._hub.look(entry.hub_id)

    def _path_of(self, offer: HubOffer) -> str:
        figures = self._downloads.of(offer.link)
        return figures.path if figures and figures.phase == "done" else offer.path

    def _want(self) -> None:
        """Download the selected model, or open its card if it is on this disk."""
        offer = self.offer
        if offer is None:
            return
        figures = self._downloads.of(offer.link)
        if path := self._path_of(offer):
            self._offered.offer(path)
        elif offer.has_room and not (figures and figures.phase in RUNS):
            self.table.setFocus()  # the button is of no use until it has come
            self._downloads.resume(offer.link)

    def _show_pick(self) -> None:
        offer = self.offer
        self._get.setVisible(offer is not None)
        path = self._path_of(offer) if offer else ""
        is_refused = offer is not None and not offer.has_room and not path
        words = tr(DOWNLOADED, size=size_words(offer.nbytes)) if offer and path else ""
        say(self._what, words or (offer.words if offer else ""))
        set_role(self._what, "problem" if is_refused else "muted")
        figures = self._downloads.of(offer.link) if offer else None
        self._get.setText(tr("Load…") if path else tr("Download"))
        self._get.setEnabled(not is_refused and (figures is None or figures.phase not in RUNS))

    # Qt

    @override
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._hub.look_up_account()


def _row_of_offer(offer: HubOffer) -> ModelRow:
    return ModelRow(
        offer,
        offer.label,
        nbytes=offer.nbytes,
        heads=offer.heads,
        fit=offer.fit,
        is_faint=offer.fit == "too-large",
    )
