"""Models on the Hugging Face hub: a search, the files of one model, and the user's account."""

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from app.library.hub_search import is_signed_in, look_at, search, sign_in, sign_out
from app.library.machine import Machine, chosen_for
from app.start.threads import LatestTask
from app.state.downloads import Downloads
from app.state.state import State
from app.values.models import Format, HubFind, HubOffer
from mlx_engine.hub.repository import HubModel, read_hub_link
from mlx_engine.values.errors import DownloadFailed, SignInNeeded
from mlx_engine.values.words import Words

T = TypeVar("T")
CHOSEN = Words("Models with drafting heads, best for this Mac first")
SEARCHING, SIGNING_IN = Words("Searching"), Words("Signing in")
NO_ANSWER = Words(
    "Hugging Face does not answer. Check the network, then press Return to ask again."
)
PATIENCE_MS = 25_000


class HubState(State):
    """Asks the hub in a background thread; only the answer to the newest request counts.

    words: of the search. finds: its results. status: progress or problem, in words. open_id: model
    whose files are shown or requested. offers: its downloads, None until known. needs_sign_in: the
    last request failed for lack of an account. is_signed_in: None until known. Signals: `changed`,
    any of these; `wanted`, the hub's page is to be shown.
    """

    wanted = Signal()

    def __init__(
        self, downloads: Downloads, machine: Machine, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._downloads, self._machine = downloads, machine
        self._net, self._account = LatestTask(self), LatestTask(self)
        self._patience = QTimer(self, singleShot=True)
        self._patience.timeout.connect(lambda: self._fail(NO_ANSWER))
        self.words, self.open_id = "", ""
        self.offers: tuple[HubOffer, ...] | None = None
        self.needs_sign_in = False
        self.is_signed_in: bool | None = None
        self.finds: tuple[HubFind, ...] = ()
        self._again: Callable[[], object] = self._show_chosen
        self._show_chosen()

    def show(self, link: str) -> None:
        """Show the model that a link or `owner/name` names, and its files."""
        self.search(link)
        self.browse()

    def browse(self) -> None:
        """Show the page of the hub."""
        self.wanted.emit()

    def search(self, words: str, wanted: Format | None = None) -> None:
        """Find models by words, name or link; "" for those that suit this machine."""
        self.words, named = words, read_hub_link(words)
        self.needs_sign_in = False
        if not words:
            self._show_chosen()
        elif isinstance(named, HubModel):
            self.heading, self.finds = "", (HubFind(named.hub_id),)
            self._look_at(named)
        elif named is not None:
            self._say(named, is_problem=True)
        else:
            hub, machine = self._downloads.hub, self._machine
            self._again = lambda: self.search(words, wanted)
            if self.heading != CHOSEN:
                self.finds = ()  # those of other words
            self._ask(lambda: search(hub, words, machine, wanted), self._take_finds, SEARCHING)

    def look(self, hub_id: str) -> None:
        """Request the files of a model; those of another one are closed."""
        self.needs_sign_in = False
        if hub_id == self.open_id:
            self._open("")
        else:
            self._look_at(HubModel(hub_id))

    def sign_in(self, token: str) -> None:
        """Store a token, and repeat the request that failed without it."""

        def use(_: None) -> None:
            self.is_signed_in = True
            self._again()

        self._ask(lambda: sign_in(token), use, SIGNING_IN)

    def sign_out(self) -> None:
        """Remove the stored token."""
        try:
            sign_out()
        except OSError as error:
            self._say(str(error), is_problem=True)
        self.is_signed_in = False
        self.changed.emit()

    def look_up_account(self) -> None:
        """Find out whether a token is stored."""

        def use(is_known: bool) -> None:
            self.is_signed_in = is_known
            self.changed.emit()

        if self.is_signed_in is None:
            hub = self._downloads.hub
            self._account.run(lambda: is_signed_in(hub), use)

    def ask_sign_in(self, link: str) -> None:
        """Ask the user to sign in, after a download that failed without an account."""
        self.show(link)
        self._net.forget()
        self._patience.stop()
        self.needs_sign_in = True
        self._say("")

    def close(self) -> None:
        """Ignore all pending answers."""
        self._net.forget()
        self._account.forget()
        self._patience.stop()

    def _show_chosen(self) -> None:
        self._net.forget()
        self._patience.stop()
        self.heading, self.finds = CHOSEN, chosen_for(self._machine)
        self._open("")
        self._say("")

    def _take_finds(self, finds: tuple[HubFind, ...]) -> None:
        self.heading, self.finds = "", finds
        self._open("")
        nothing = Words("Nothing on Hugging Face matches “{words}”.", words=self.words)
        self._say("" if finds else nothing)

    def _look_at(self, model: HubModel) -> None:
        hub, machine = self._downloads.hub, self._machine
        self._again = lambda: self._look_at(model)
        self._open(model.hub_id)
        self._ask(lambda: look_at(hub, model, machine), self._take_offers)

    def _take_offers(self, offers: tuple[HubOffer, ...]) -> None:
        self.offers, self.needs_sign_in = offers, False
        self._say("")

    def _open(self, hub_id: str) -> None:
        self.open_id, self.offers = hub_id, None
        self.changed.emit()

    def _ask(self, ask: Callable[[], T], use: Callable[[T], object], words: str = "") -> None:
        """Make a request in the background, and use its answer or show the error.

        words: shown meanwhile.
        """

        def answer() -> T | DownloadFailed:
            try:
                return ask()
            except DownloadFailed as error:
                return error

        def take(answered: T | DownloadFailed) -> None:
            self._patience.stop()
            if isinstance(answered, DownloadFailed):
                self._fail(str(answered), needs_sign_in=isinstance(answered, SignInNeeded))
            else:
                use(answered)

        self._patience.start(PATIENCE_MS)
        self._net.run(answer, take)
        self._say(words)

    def _fail(self, words: str, *, needs_sign_in: bool = False) -> None:
        self._net.forget()
        self.needs_sign_in = self.needs_sign_in or needs_sign_in
        self._open("")
        self._say("" if needs_sign_in else words, is_problem=True)

    def _say(self, words: str, *, is_problem: bool = False) -> None:
        self.status, self.is_problem = words, is_problem
        self.changed.emit()
