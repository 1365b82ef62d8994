"""States of models whose engine, disk and hub are the test."""

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from app.library.machine import Machine
from app.state.card import OfferedModel, Phase
from app.state.downloads import Downloads
from app.state.hub import HubState
from app.state.known_models import KnownModels
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.models import DownloadFigures, FoundModel, HubFind, HubOffer, ModelCard
from app.worker.requests import Request
from mlx_engine.hub.client import Hub
from mlx_engine.values.memory_plan import MemoryFit, MemoryPlan

MACHINE = Machine(48 * 10**9)
FACTS = ModelCard(
    "Qwen", "qwen", "4 B", "4-bit", "32k", "1 drafting head", True,
    MemoryFit(MemoryPlan(4096, 60, cache=20), MemoryPlan(32768, 60, cache=30), 100, 32768),
)  # fmt: skip


class SteadyDownloads(Downloads):
    """On a disk whose free space does not change."""

    def free_bytes(self) -> int:
        return 60 * 10**9


class StatedModels:
    """All states of models, and what they asked of the engine."""

    def __init__(
        self,
        card: ModelCard | str = FACTS,
        request: Callable[[Request], None] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.settings = KeptSettings(Path(mkdtemp()) / "settings.json")
        self.models = ModelState(request or self.requests.append, self.settings)
        self.offered = OfferedModel(self.models, self.settings, MACHINE, lambda *_: card)
        nowhere = Hub(Path("/models/of/the/hub"), "http://127.0.0.1:1", token=False)
        self.downloads = SteadyDownloads(nowhere, self.settings)
        self.known = KnownModels(self.models, self.downloads, self.settings, MACHINE)
        self.hub = HubState(self.downloads, MACHINE)

    @property
    def watched(self) -> tuple[KnownModels, ModelState, OfferedModel, Downloads, HubState]:
        """What the page of models and the start page watch."""
        return self.known, self.models, self.offered, self.downloads, self.hub

    def find(self, *models: FoundModel) -> None:
        """As if these had been found on the disk."""
        self.known.models = models
        self.known.changed.emit()

    def show_finds(self, *finds: HubFind) -> None:
        """As if a search had found these."""
        self.hub.heading, self.hub.finds, self.hub.open_id = "", finds, ""
        self.hub.changed.emit()

    def show_offers(self, hub_id: str, *offers: HubOffer) -> None:
        """As if these were the files of a model."""
        self.hub.open_id, self.hub.offers = hub_id, offers
        self.hub.changed.emit()

    def show_downloads(self, *figures: DownloadFigures) -> None:
        """As if the processes had reported these."""
        self.downloads._figures = {one.key: one for one in figures}
        self.downloads.changed.emit()

    def show_card(
        self, facts: ModelCard | None, phase: Phase = "offered", problem: str = ""
    ) -> None:
        """As if these had been read."""
        offered = self.offered
        offered.path, offered.phase = f"/models/{facts.name if facts else 'model'}", phase
        offered.facts, offered.problem = facts, problem
        offered.changed.emit()
