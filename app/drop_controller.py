"""What is dropped, opened or handed over: loaded, used as heads, downloaded, attached, refused."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from app.library.dropped import (
    Dropped,
    DroppedHeads,
    DroppedHubModel,
    DroppedModel,
    DroppedText,
    Refused,
    what_is,
)
from app.model_controller import ModelController
from app.model_values import drop_plan
from app.window.models.drop_overlay import DropOverlay


class DropController(QObject):
    """Shows the plan while something hovers, and carries it out when it is let go.

    Signals:
        model_offered: path of a model whose card is to be shown.
        heads_offered: path of heads for the model in use.
        hub_model_offered: a HubModel to download.
        attached: paths of text files.
        refused: why it cannot be used.
    """

    model_offered = Signal(str)
    heads_offered = Signal(str)
    hub_model_offered = Signal(object)
    attached = Signal(list)
    refused = Signal(str)

    def __init__(
        self, overlay: DropOverlay, models: ModelController, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._overlay = overlay
        self._models = models

    def hover(self, texts: Sequence[str]) -> None:
        """Say what letting go would do."""
        things = [what_is(text) for text in texts]
        self._overlay.show_plan(drop_plan(things, self._models.description))

    def leave(self) -> None:
        """Nothing hovers any more."""
        self._overlay.hide()

    def take(self, texts: Sequence[str]) -> None:
        """Carry out the plan."""
        things = [what_is(text) for text in texts]
        plan = drop_plan(things, self._models.description)
        if plan.kind == "refused":
            self.refused.emit(f"{plan.title}: {plan.detail}")
        elif plan.kind == "attach":
            self.attached.emit([str(t.path) for t in things if isinstance(t, DroppedText)])
        else:
            self._offer(things[0])

    def _offer(self, thing: Dropped) -> None:
        match thing:
            case DroppedModel():
                self.model_offered.emit(str(thing.path))
            case DroppedHeads():
                self.heads_offered.emit(str(thing.path))
            case DroppedHubModel():
                self.hub_model_offered.emit(thing.model)
            case DroppedText() | Refused():
                raise AssertionError(f"{thing} is no model")
