"""What Escape ends: the answer on show, a comparison, or a load."""

from PySide6.QtCore import QObject, Signal

from app.control.chat import ChatController
from app.control.compare import CompareController
from app.control.models import ModelController


class StopController(QObject):
    """One thing at a time, what the user looks at first. Signal `changed`: there is more or less
    to stop.
    """

    changed = Signal()

    def __init__(
        self,
        chats: ChatController,
        compare: CompareController,
        models: ModelController,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._chats, self._compare, self._models = chats, compare, models
        compare.changed.connect(self.changed)
        for signal in (models.progressed, models.loaded, models.failed):
            signal.connect(lambda _: self.changed.emit())
        models.cancelled.connect(self.changed)

    @property
    def has_work(self) -> bool:
        """Whether anything can be stopped."""
        chats, models = self._chats, self._models
        is_loading = models.loading is not None
        return chats.running is not None or self._compare.is_running or is_loading

    def stop(self) -> None:
        """End it; what there is of an answer stays."""
        if self._compare.is_running:
            self._compare.stop()
        elif self._chats.running is not None:
            self._chats.stop()
        else:
            self._models.cancel()
