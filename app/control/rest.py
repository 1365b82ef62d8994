"""When the model is not in memory: ejected, idle for long, or not loaded at the start."""

from PySide6.QtCore import QObject, QTimer

from app.control.answers import Answers
from app.control.compare import CompareController
from app.control.models import ModelController
from app.control.settings import KeptSettings
from app.values.app_settings import settings_of
from app.window.chat_page import HeadBar
from app.window.controls.notice_bar import NoticeBar
from mlx_engine.values.words import Words

AT_START = Words("Not loaded at the start, as you wished: the next question loads it")
EJECTED = Words("Ejected: the next question loads it again")
ANSWERING = Words("An answer is being written: stop it, then eject the model.")
MINUTE_MS = 60_000


class RestController(QObject):
    """The engine's thread lets a model go; this decides when, and the head bar says so."""

    def __init__(
        self,
        models: ModelController,
        answers: Answers,
        compare: CompareController,
        settings: KeptSettings,
        head: HeadBar,
        notice: NoticeBar,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._models, self._answers, self._compare = models, answers, compare
        self._settings, self._head, self._notice = settings, head, notice
        self.idle = QTimer(self, singleShot=True)
        self.idle.timeout.connect(self._let_go)
        for changed in (models.changed, answers.changed, compare.changed, settings.changed):
            changed.connect(self._watch)
        models.unloaded.connect(self._show)
        head.eject_wanted.connect(self._eject)

    @property
    def _is_busy(self) -> bool:
        return bool(self._answers.chat_ids) or self._compare.is_running

    def _watch(self) -> None:
        """Count from now, while nothing is asked of a model that is there."""
        minutes, in_use = self._settings.value.idle_minutes, self._models.in_use
        may_go = in_use and not settings_of(self._settings.value, in_use.path).keep
        if minutes and may_go and not self._is_busy and not self._models.loading:
            self.idle.start(minutes * MINUTE_MS)
        else:
            self.idle.stop()

    def _let_go(self) -> None:
        minutes = self._settings.value.idle_minutes
        words = Words(
            "Let go after {minutes} min without a question: the next question loads it again",
            minutes=minutes,
        )
        self._models.rest(words)

    def _eject(self) -> None:
        if self._is_busy:
            self._notice.mention(ANSWERING)
        else:
            self._models.rest(EJECTED)

    def _show(self, words: str) -> None:
        resting = self._models.resting
        if resting is None or words:
            self._head.show_model(None)
        else:
            self._head.show_resting(resting.name, resting.why)
