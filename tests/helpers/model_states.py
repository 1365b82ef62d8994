"""States of models whose engine, disk and hub are the test."""

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from app.library.machine import Machine
from app.state.card import OfferedModel, Phase
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.models import ModelCard
from app.worker.requests import Request
from mlx_engine.values.memory_plan import MemoryFit, MemoryPlan

MACHINE = Machine(48 * 10**9)
FACTS = ModelCard(
    "Qwen", "qwen", "4 B", "4-bit", "32k", "1 MTP head", True,
    MemoryFit(MemoryPlan(4096, 60, cache=20), MemoryPlan(32768, 60, cache=30), 100, 32768),
)  # fmt: skip


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

    def show_card(
        self, facts: ModelCard | None, phase: Phase = "offered", problem: str = ""
    ) -> None:
        """As if these had been read."""
        offered = self.offered
        offered.path, offered.phase = f"/models/{facts.name if facts else 'model'}", phase
        offered.facts, offered.problem = facts, problem
        offered.changed.emit()
