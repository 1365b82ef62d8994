"""The card of a model that was dropped or chosen: its facts, its load, what went wrong."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject

from app.library.machine import Machine
from app.library.model_card import ModelCard
from app.library.read_card import NoCard
from app.model_controller import ModelController
from app.model_values import card_facts, model_name
from app.window.card_layer import CardLayer
from app.window.models.model_card_view import ModelCardView
from app.window.models.model_values import CardFacts
from app.worker.replies import LoadFailed, LoadProgress

ReadCard = Callable[[str | Path | None, Machine, str | Path | None], ModelCard | NoCard]


class CardController(QObject):
    """Shows one card at a time."""

    def __init__(
        self,
        card: ModelCardView,
        layer: CardLayer,
        models: ModelController,
        machine: Machine,
        read_card: ReadCard,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._card, self._layer = card, layer
        self._models, self._machine, self._read_card = models, machine, read_card
        self._path: str | None = None
        self._heads: str | None = None
        card.load_wanted.connect(self._load)
        card.cancel_wanted.connect(models.cancel)
        card.closed.connect(layer.hide)
        models.progressed.connect(self._progress)
        models.loaded.connect(lambda _: layer.hide())
        models.failed.connect(self._fail)
        models.cancelled.connect(self._offer_again)

    def offer(self, path: str | None) -> None:
        """Show what a model is, ready to be loaded; None is the built-in one."""
        self._show(path, None)

    def offer_heads(self, heads: str) -> None:
        """Show the model in use as it would be with these heads."""
        if self._models.in_use is not None:
            self._show(self._models.in_use.path, heads)

    def _show(self, path: str | None, heads: str | None) -> None:
        self._path, self._heads = path, heads
        card = self._read_card(path, self._machine, heads)
        if isinstance(card, NoCard):
            self._card.show_offered(_nothing_known(path))
            self._card.show_failed(card.words)
        else:
            self._card.show_offered(card_facts(card))
        self._layer.open()

    def _load(self) -> None:
        if self._heads is not None:
            self._models.load_heads(Path(self._heads))
        else:
            self._models.load_path(self._path)

    def _progress(self, progress: LoadProgress) -> None:
        if self._layer.isVisible():
            self._card.show_loading(progress.done, progress.total)

    def _fail(self, failed: LoadFailed) -> None:
        """A load that nobody watched opens the card too: its words say what to do."""
        if not self._layer.isVisible():
            self._show(failed.path, None)
        self._card.show_failed(failed.problem.words)

    def _offer_again(self) -> None:
        if self._layer.isVisible():
            self._show(self._path, self._heads)


def _nothing_known(path: str | None) -> CardFacts:
    """The card of something that cannot be read: "Try again" is possible, it may be repaired."""
    return CardFacts(model_name(path), "", "", "", "", "", "It cannot be loaded as it is.", False)
