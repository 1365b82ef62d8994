"""The card of a model: a description from its headers, and the options to load it with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, QTimer

from app.library.machine import Machine
from app.start.threads import LatestTask
from app.state.models import ModelState, Refused, model_name
from app.state.settings import KeptSettings
from app.state.state import State
from app.values.app_settings import ModelSettings, settings_of
from app.values.models import ModelCard
from mlx_engine.values.words import Words

ReadCard = Callable[[str | Path | None, Machine, ModelSettings], ModelCard | str]
Phase = Literal["closed", "reading", "offered", "failed", "unreadable"]
PATIENCE_MS = 120
"""Milliseconds to wait for the headers before the card opens without them."""
UNREADABLE = Words("It cannot be loaded as it is.")


class OfferedModel(State):
    """The model whose card is open; its headers are read in a background thread.

    path: None for the built-in model. own: settings to load it with. facts: None until the headers
    are read. problem: why it could not be loaded, in words. Signal `changed`: any of these.
    """

    def __init__(
        self,
        models: ModelState,
        settings: KeptSettings,
        machine: Machine,
        read_card: ReadCard,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._models, self._settings = models, settings
        self._machine, self._read_card = machine, read_card
        self.phase: Phase = "closed"
        self.path: str | None = None
        self.own = ModelSettings()
        self.facts: ModelCard | None = None
        self.problem = ""
        self._disk = LatestTask(self)
        self._slow = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._slow.timeout.connect(lambda: self._show("reading"))
        models.load_failed.connect(self._offer_refused)

    @property
    def name(self) -> str:
        """The model's name, made of its path until its headers are read."""
        return self.facts.name if self.facts and self.path else model_name(self.path)

    @property
    def is_too_large(self) -> bool:
        """Whether the model does not fit into memory."""
        memory = self.facts.memory if self.facts else None
        return memory is not None and memory.fit_in_memory == "too-large"

    @property
    def is_hopeless(self) -> bool:
        """Whether the model is so large that it is not even loaded on request."""
        memory = self.facts.memory if self.facts else None
        return memory is not None and memory.is_hopeless

    def offer(
        self, path: str | None, heads: Path | None = None, vision: Path | None = None
    ) -> None:
        """Open the card of a model. heads, vision: files of MTP heads and of a vision tower to load
        it with.
        """
        own = settings_of(self._settings.value, path)
        load = replace(own.load, heads=heads or own.load.heads, vision=vision or own.load.vision)
        own = own if load == own.load else replace(own, load=load)
        self._open(path, own, "")

    def change(self, own: ModelSettings) -> None:
        """Set the settings for the load."""
        self.own, self.problem = own, ""
        self._look()

    def load(self) -> None:
        """Load the model, and close the card: the window's header shows progress."""
        load = replace(self.own.load, anyway=self.is_too_large or self.own.load.anyway)
        self.close()
        self._models.load(self.path, own=replace(self.own, load=load))

    def close(self) -> None:
        """Close the card, also while headers are read."""
        self._disk.forget()
        self._slow.stop()
        self._show("closed")

    def _open(self, path: str | None, own: ModelSettings, problem: str) -> None:
        self.path, self.own, self.problem, self.facts = path, own, problem, None
        self._slow.start()
        self._look()

    def _offer_refused(self, refused: Refused) -> None:
        """Open the card of a model whose load failed, with the reason."""
        own = refused.own or settings_of(self._settings.value, refused.path)
        self._open(refused.path, own, refused.problem.words)

    def _look(self) -> None:
        path, own = self.path, self.own
        self._disk.run(lambda: self._read_card(path, self._machine, own), self._take)

    def _take(self, card: ModelCard | str) -> None:
        self._slow.stop()
        if isinstance(card, ModelCard):
            self.facts = replace(card, name=card.name if self.path else model_name(None))
            self._show("failed" if self.problem else "offered")
        else:
            self.facts = ModelCard(model_name(self.path), "", "", "", "", UNREADABLE, False)
            self.problem = self.problem or card  # a load that failed says more
            self._show("unreadable")

    def _show(self, phase: Phase) -> None:
        self.phase = phase
        self.changed.emit()
