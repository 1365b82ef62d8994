"""Restore the last session, unload idle models, and keep the machine awake."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.start.threads import IdleQueue
from app.state.answers import Answers
from app.state.chat import ChatState
from app.state.compare import Comparison
from app.state.models import ModelState
from app.state.server import ServerState
from app.state.settings import KeptSettings
from app.values.app_settings import BUILT_IN, AppSettings, settings_of
from app.values.models import BUILT_IN_NAME
from app.window.controls.notice_bar import NoticeBar
from app.window.language import tr
from mlx_engine.values.words import Words

AT_START = Words("Not loaded yet. Your next message loads it")
EJECTED = Words("Ejected until your next message")
GONE = Words("{last} is no longer there; the built-in model is used instead.")
ANSWERING = Words("An answer is being written: stop it, then eject the model.")
MINUTE_MS = 60_000
LONGEST_MS = 2**31 - 1
"""Longest time of a QTimer: 24 days."""


class RestController(QObject):
    """Unloads an idle model, and keeps the machine awake while answers are written."""

    def __init__(
        self,
        models: ModelState,
        answers: Answers,
        compare: Comparison,
        settings: KeptSettings,
        server: ServerState,
        notice: NoticeBar,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.awake = Awake(this_systems_command())
        self._models, self._answers, self._compare = models, answers, compare
        self._settings, self._server, self._notice = settings, server, notice
        self._gone = ""
        self.idle = QTimer(self, singleShot=True)
        self.idle.timeout.connect(self._let_go)
        for changed in (models.changed, answers.changed, compare.changed, settings.changed):
            changed.connect(self._watch)
        server.changed.connect(self._watch)

    def load_last(self) -> None:
        """Load the model used last, or the built-in one."""
        recent = self._settings.value.recent_models
        last = recent[0] if recent and recent[0] != BUILT_IN else None
        if last is not None and not Path(last).exists():
            self._gone = Words(GONE.template, last=last)
            self._notice.say(self._gone)
            last = None
        if self._settings.value.load_at_start:
            self._models.load(last)
        else:
            self._models.load_later(last, AT_START)

    @property
    def _is_busy(self) -> bool:
        return bool(self._answers.chat_ids) or self._compare.is_running

    def _watch(self) -> None:
        """Restart the idle timer; keep the machine awake while answers are written."""
        self.awake.hold(self._is_busy)
        if not self._is_busy:
            self._notice.withdraw(ANSWERING)
        minutes, in_use = self._settings.value.idle_minutes, self._models.in_use
        if in_use and in_use.path is not None:
            self._notice.withdraw(self._gone)
        may_go = in_use and not settings_of(self._settings.value, in_use.path).keep
        is_busy = self._is_busy or self._server.requests > 0
        if minutes and may_go and not is_busy and not self._models.loading:
            self.idle.start(min(minutes * MINUTE_MS, LONGEST_MS))
        else:
            self.idle.stop()

    def _let_go(self) -> None:
        minutes = self._settings.value.idle_minutes
        words = Words("Unloaded after {minutes} min idle, until your next message", minutes=minutes)
        self._models.rest(words)

    def eject(self) -> None:
        """Unload the model until the next question, unless it is answering."""
        if self._is_busy:
            self._notice.mention(ANSWERING)
        else:
            self._models.rest(EJECTED)


class ChatModelController(QObject):
    """Offers to load the model that answered the chat on show, if another one is in use."""

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
        """Update the offer; there is none while a model is loading."""
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
        current = self._models.current
        return current is not None and (current.path == path or self._models.model_name == name)

    def _load(self) -> None:
        settings = self._chat.settings
        self._models.load(settings.model_path)
        self.refresh()


CAFFEINATE = "/usr/bin/caffeinate"
"""`-i`: no idle sleep; `-w`: until the process with this id ends."""


def this_systems_command() -> Sequence[str]:
    """Return the command line that keeps this machine awake; empty for none."""
    return (CAFFEINATE, "-i", "-w", str(os.getpid())) if Path(CAFFEINATE).exists() else ()


class Awake:
    """Runs `command` while the machine must stay awake; an empty command does nothing."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, is_needed: bool) -> None:
        """Keep the machine awake, or let it sleep."""
        if self._process is not None and not is_needed:
            self._process.terminate()
            self._process.wait()
            self._process = None
        elif self._process is None and is_needed and self._command:
            with suppress(OSError):
                self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)


ENDED_SUDDENLY = Words(
    "Headstart came to a sudden end while it showed the chat “{title}”. It is in the list, and "
    "nothing of it is lost; this is a new chat."
)
CALM_MS = 1000
"""Milliseconds after which a chat counts as shown without a crash."""
KEPT_AFTER_MS = 500
"""Milliseconds in which a chat is laid out and painted before its id is stored."""


class LastChat(QObject):
    """Remembers the chat on show for the next start."""

    def __init__(
        self,
        chat: ChatState,
        layout: IdleQueue,
        settings: KeptSettings,
        being_shown: Path,
        parent: QObject | None = None,
    ) -> None:
        """layout: queue of the transcript's layout work. being_shown: a file with the id of the
        chat that is being laid out or answered; a chat that crashed the program is not opened at
        the next start.
        """
        super().__init__(parent)
        self._chat, self._layout, self._settings = chat, layout, settings
        self._being_shown = being_shown
        self._calm = QTimer(self, interval=CALM_MS)
        self._calm.timeout.connect(self._forget_if_shown)
        self._later = QTimer(self, singleShot=True, interval=KEPT_AFTER_MS)
        self._later.timeout.connect(self.keep)
        chat.changed.connect(self._mark_being_shown)

    def keep(self) -> None:
        """Store the chat on show as the last one."""
        self._settings.change(replace(self._settings.value, last_chat=self._chat.chat_id))

    def _mark_being_shown(self) -> None:
        self._later.start()
        chat_id = self._chat.chat_id
        with suppress(OSError):
            if chat_id is None:
                self._being_shown.unlink(missing_ok=True)
            else:
                self._being_shown.write_text(str(chat_id))
                self._calm.start()

    def _forget_if_shown(self) -> None:
        if not self._layout.is_busy and self._chat.running is None:
            self._forget_being_shown()

    def _forget_being_shown(self) -> None:
        self._calm.stop()
        with suppress(OSError):
            self._being_shown.unlink(missing_ok=True)

    def restore(self, kept: AppSettings, chats: Mapping[int, str]) -> str:
        """Show the chat of the last session if it still exists, else a new one.

        chats: titles of the chats that are not in the trash. Return a sentence about the chat that
        was being shown when the program crashed, which is not opened.
        """
        is_risky = self._was_being_shown(kept.last_chat)
        self._chat.begin(kept.new_chat)
        if kept.last_chat is None or kept.last_chat not in chats:
            return ""
        if is_risky:
            return tr(ENDED_SUDDENLY, title=chats[kept.last_chat] or tr("New chat"))
        self._chat.open(kept.last_chat)
        return ""

    def _was_being_shown(self, chat_id: int | None) -> bool:
        try:
            with self._being_shown.open("rb") as file:
                return file.read(20) == str(chat_id).encode()
        except OSError:
            return False

    def close(self) -> None:
        """Stop storing the chat on show."""
        self._later.stop()
        self._forget_being_shown()
