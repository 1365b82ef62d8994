"""The model in use, in the window's head and on the start page; what is chosen there is loaded."""

from PySide6.QtCore import QObject

from app.control.models import ModelController, model_name
from app.values.models import FoundModel
from app.window.chat_page import HeadBar
from app.window.language import tr
from app.window.models.first_run_view import FirstRunView
from app.worker.replies import LoadProgress


class HeadController(QObject):
    """Keeps both true through loads, failures and what is learnt of a model later."""

    def __init__(
        self,
        head: HeadBar,
        start: FirstRunView,
        models: ModelController,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._head, self._start, self._models = head, start, models
        models.progressed.connect(self._show_progress)
        for known_now in (models.loaded, models.failed, models.described):
            known_now.connect(lambda _: self._show_model())
        models.cancelled.connect(self._show_model)
        models.unloaded.connect(lambda _: start.show_model(""))
        head.cancel_wanted.connect(models.cancel)
        head.recent_chosen.connect(self._load_again)
        start.built_in_wanted.connect(lambda: models.switch_to(None))

    def _show_model(self) -> None:
        self._head.show_model(self._models.description)
        self._start.show_model(self._models.model_name)

    def _show_progress(self, progress: LoadProgress) -> None:
        name = model_name(progress.path)
        verb = tr("Downloading") if progress.fetches else tr("Loading")
        self._head.show_loading(name, progress.done, progress.total, verb)

    def _load_again(self, entry: FoundModel) -> None:
        self._models.switch_to(None if entry.is_built_in else str(entry.path))
