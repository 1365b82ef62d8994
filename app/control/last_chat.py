"""Which chat is open: the same at the next start, unless showing it ended the program."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.start.threads import Turns
from app.state.chat import ChatState
from app.state.settings import KeptSettings
from app.values.app_settings import AppSettings
from app.window.language import tr
from mlx_engine.values.words import Words

ENDED_SUDDENLY = Words(
    "Headstart came to a sudden end while it showed the chat “{title}”. It is in the list, and "
    "nothing of it is lost; this is a new chat."
)
CALM_MS = 1000
"""A chat that could not be shown would have stopped the window by then."""
KEPT_AFTER_MS = 500
"""A chat is laid out and painted first."""


class LastChat(QObject):
    """Keeps the chat on show in the settings."""

    def __init__(
        self,
        chat: ChatState,
        layout: Turns,
        settings: KeptSettings,
        being_shown: Path,
        parent: QObject | None = None,
    ) -> None:
        """layout: the work of the transcript. being_shown: a file that names the chat that is being
        laid out or answered, so that one whose showing ends the program is not shown at each start.
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
        """The chat on show is the last one."""
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
        """Show it, if it is still there, else a new chat. chats: titles of those not in the bin.
        Words of the chat that was being shown when the program died, and is not opened.
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
        """Nothing is kept any more."""
        self._later.stop()
        self._forget_being_shown()
