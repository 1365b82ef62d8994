"""Joins the page of the hub with searches, looks at files, and downloads."""

from collections.abc import Callable
from typing import TypeVar

from PySide6.QtCore import QObject, QTimer

from app.library.hub_search import look_at, search
from app.library.machine import Machine, chosen_for
from app.start.threads import Beside
from app.state.downloads import Downloads
from app.values.hub import Format, HubFind
from app.window.language import tr
from app.window.models.hub_view import HubView
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import HubModel, read_hub_link
from mlx_engine.values.errors import DownloadFailed
from mlx_engine.values.words import Words

T = TypeVar("T")
FORMATS: dict[str, Format] = {"GGUF": "GGUF", "MLX": "MLX"}
CHOSEN = Words("Models with drafting heads, best for this Mac first")
NO_ANSWER = Words(
    "Hugging Face does not answer. Check the network, then press Return to ask again."
)
PATIENCE_MS = 25_000


class HubController(QObject):
    """The hub is asked beside the window; an answer that nobody waits for any more is dropped."""

    def __init__(
        self,
        view: HubView,
        hub: Hub,
        machine: Machine,
        downloads: Downloads,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._view, self._hub, self._machine = view, hub, machine
        self._net = Beside(self)
        self._patience = QTimer(self, singleShot=True)
        self._patience.timeout.connect(self._give_up)
        view.search_wanted.connect(self._search)
        view.list.look_wanted.connect(lambda hub_id: self._look(HubModel(hub_id)))
        view.download_wanted.connect(downloads.resume)
        self._show_chosen()

    def show(self, model: HubModel) -> None:
        """What a link names: all that its repository holds, or the one file."""
        self._view.show_words(model.link)
        self._view.list.show_finds("", (HubFind(model.hub_id),))
        self._look(model)

    def close(self) -> None:
        """The program ends."""
        self._net.forget()
        self._patience.stop()

    def _search(self, words: str, wanted: str) -> None:
        named = read_hub_link(words)
        if not words:
            self._show_chosen()
        elif isinstance(named, HubModel):
            self.show(named)
        elif named is not None:
            self._view.say(named, is_problem=True)
        else:
            self._view.say(tr("Searching"))
            self._ask(
                lambda: search(self._hub, words, self._machine, FORMATS.get(wanted)),
                lambda finds: self._show_finds(words, finds),
            )

    def _show_chosen(self) -> None:
        self._net.forget()
        self._patience.stop()
        self._view.say("")
        self._view.list.show_finds(CHOSEN, chosen_for(self._machine))

    def _show_finds(self, words: str, finds: tuple[HubFind, ...]) -> None:
        self._view.say(
            "" if finds else tr("Nothing on Hugging Face matches “{words}”.", words=words)
        )
        self._view.list.show_finds("", finds)

    def _look(self, model: HubModel) -> None:
        self._view.say("")
        self._view.list.open(model.hub_id)
        self._ask(
            lambda: look_at(self._hub, model, self._machine),
            lambda offers: self._view.list.show_offers(model.hub_id, offers),
        )

    def _ask(self, ask: Callable[[], T], use: Callable[[T], object]) -> None:
        """Use the answer, or say what is wrong with it."""

        def answer() -> T | str:
            try:
                return ask()
            except DownloadFailed as error:
                return str(error)

        def take(answered: T | str) -> None:
            self._patience.stop()
            if isinstance(answered, str):
                self._fail(answered)
            else:
                use(answered)

        self._patience.start(PATIENCE_MS)
        self._net.run(answer, take)

    def _give_up(self) -> None:
        self._net.forget()
        self._fail(NO_ANSWER)

    def _fail(self, words: str) -> None:
        self._view.list.open("")
        self._view.say(words, is_problem=True)
