"""When the model in use leaves memory, which is loaded at the start, and which a chat had."""

from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.state.answers import Answers
from app.state.chat import ChatState
from app.state.compare import Comparison
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.app_settings import BUILT_IN, settings_of
from app.values.models import BUILT_IN_NAME
from app.window.controls.notice_bar import NoticeBar
from app.window.language import tr
from mlx_engine.values.words import Words

AT_START = Words("Not loaded yet. Your next message loads it")
EJECTED = Words("Ejected. Your next message loads it again")
ANSWERING = Words("An answer is being written: stop it, then eject the model.")
MINUTE_MS = 60_000
LONGEST_MS = 2**31 - 1
"""That a timer takes: 24 days."""


class RestController(QObject):
    """Decides when the engine's thread lets a model go."""

    def __init__(
        self,
        models: ModelState,
        answers: Answers,
        compare: Comparison,
        settings: KeptSettings,
        notice: NoticeBar,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._models, self._answers, self._compare = models, answers, compare
        self._settings, self._notice = settings, notice
        self.idle = QTimer(self, singleShot=True)
        self.idle.timeout.connect(self._let_go)
        for changed in (models.changed, answers.changed, compare.changed, settings.changed):
            changed.connect(self._watch)

    def load_last(self) -> None:
        """Load the model used last, or the built-in one."""
        recent = self._settings.value.recent_models
        last = recent[0] if recent and recent[0] != BUILT_IN else None
        if last is not None and not Path(last).exists():
            words = tr("{last} is no longer there; the built-in model is used instead.", last=last)
            self._notice.say(words)
            last = None
        if self._settings.value.load_at_start:
            self._models.load(last)
        else:
            self._models.load_later(last, AT_START)

    @property
    def _is_busy(self) -> bool:
        return bool(self._answers.chat_ids) or self._compare.is_running

    def _watch(self) -> None:
        """Count from now, while nothing is asked of a model that is there."""
        if not self._is_busy:
            self._notice.withdraw(ANSWERING)
        minutes, in_use = self._settings.value.idle_minutes, self._models.in_use
        may_go = in_use and not settings_of(self._settings.value, in_use.path).keep
        if minutes and may_go and not self._is_busy and not self._models.loading:
            self.idle.start(min(minutes * MINUTE_MS, LONGEST_MS))
        else:
            self.idle.stop()

    def _let_go(self) -> None:
        minutes = self._settings.value.idle_minutes
        words = Words(
            "Unloaded after {minutes} min idle. Your next message loads it again", minutes=minutes
        )
        self._models.rest(words)

    def eject(self) -> None:
        """Let the model in use go until the next question, unless it is answering."""
        if self._is_busy:
            self._notice.mention(ANSWERING)
        else:
            self._models.rest(EJECTED)


class ChatModelController(QObject):
    """Keeps the line true; loads only when it is asked to."""

    def __init__(
        self,
        line: NoticeBar,
        chat: ChatState,
        models: ModelState,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._line, self._chat, self._models = line, chat, models
        line.taken.connect(lambda _: self._load())
        chat.changed.connect(self.refresh)
        models.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Say what is so now; nothing while a model is being loaded."""
        chat, line = self._chat, self._line
        answer, path = chat.last_answer, chat.settings.model_path
        name = answer.model if answer else ""
        is_known = path is not None or name == BUILT_IN_NAME
        if not name or not is_known or self._is_in_use(name, path) or self._models.loading:
            line.hide()
        elif path is not None and Path(path).is_absolute() and not Path(path).exists():
            gone = tr(
                "This chat was answered by {name}, which is no longer at {path}. Any other model "
                "can go on with it.",
                name=name,
                path=path,
            )
            line.say(gone)
        else:
            line.offer(
                tr("This chat was answered by {name}.", name=name),
                path or "",
                tr("Load {name}", name=name),
            )

    def _is_in_use(self, name: str, path: str | None) -> bool:
        resting = self._models.resting
        current = self._models.in_use or (resting.request if resting else None)
        return current is not None and (current.path == path or self._models.model_name == name)

    def _load(self) -> None:
        settings = self._chat.settings
        self._models.load(settings.model_path)
        self.refresh()
