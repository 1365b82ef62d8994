"""What is dropped, opened or handed over: loaded, used as heads, downloaded, attached, refused."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.control.model_values import drop_plan
from app.control.models import ModelController
from app.library.dropped import (
    Dropped,
    DroppedHeads,
    DroppedHubModel,
    DroppedModel,
    DroppedModels,
    DroppedText,
    Refused,
    all_of,
)
from app.start.beside import Beside
from app.window.models.drop_overlay import DropOverlay
from app.window.models.model_values import DropPlan

PATIENCE_MS = 120
"""How long a look at the disk may take before the overlay says that it takes a while."""

LOOKING = DropPlan("looking", "Looking at it", "What it is decides what will be done with it.")


class DropController(QObject):
    """Shows the plan while something hovers, and carries it out when it is let go.

    What things are is told from their files, beside the window, for disks may be slow.

    Signals:
        model_offered: path of a model whose card is to be shown.
        heads_offered: path of heads for the model in use.
        folder_offered: path of a folder with several models, for the library.
        hub_model_offered: a HubModel to download.
        attached: paths of text files.
        refused: why it cannot be used.
    """

    model_offered = Signal(str)
    heads_offered = Signal(str)
    folder_offered = Signal(str)
    hub_model_offered = Signal(object)
    attached = Signal(list)
    refused = Signal(str)

    def __init__(
        self, overlay: DropOverlay, models: ModelController, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._overlay = overlay
        self._models = models
        self._disk = Beside(self)
        self._slow = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._slow.timeout.connect(lambda: overlay.show_plan(LOOKING))

    def hover(self, texts: Sequence[str]) -> None:
        """Say what letting go would do."""
        self._disk.run(lambda: all_of(texts), self._show_plan)
        self._slow.start()

    def leave(self) -> None:
        """Nothing hovers any more."""
        self._disk.forget()
        self._slow.stop()
        self._overlay.hide()

    def take(self, texts: Sequence[str]) -> None:
        """Carry out the plan."""
        self._disk.run_each(lambda: all_of(texts), self._carry_out)

    def _show_plan(self, things: Sequence[Dropped]) -> None:
        self._slow.stop()
        self._overlay.show_plan(drop_plan(things, self._models.description))

    def _carry_out(self, things: Sequence[Dropped]) -> None:
        plan = drop_plan(things, self._models.description)
        if plan.kind == "refused":
            self.refused.emit(f"{plan.title}: {plan.detail}")
            return
        for thing in things:
            self._offer(thing)
        texts = [str(thing.path) for thing in things if isinstance(thing, DroppedText)]
        if texts:
            self.attached.emit(texts)

    def _offer(self, thing: Dropped) -> None:
        match thing:
            case DroppedModel():
                self.model_offered.emit(str(thing.path))
            case DroppedModels():
                self.folder_offered.emit(str(thing.path))
            case DroppedHeads():
                self.heads_offered.emit(str(thing.path))
            case DroppedHubModel():
                self.hub_model_offered.emit(thing.model)
            case Refused():
                self.refused.emit(thing.words)
            case DroppedText():
                pass  # all of them together
