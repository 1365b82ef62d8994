"""Files that are being read to be attached to messages."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.library.text_file import read_text_file
from app.start.threads import LatestTask
from app.state.chat import ChatState
from app.state.drafts import NEW, Drafts
from app.state.state import State
from app.values.attached_text import AttachedText, Refused, SaidWith


class _Reading(NamedTuple):
    """Files for a chat, None for a new one. unwanted: set to cancel the reading."""

    chat_id: int | None
    names: tuple[str, ...]
    unwanted: Event


class AttachedFiles(State):
    """Reads files in a background thread, for the chat that was on show.

    Signal `arrived`: texts and refusals for the message of the chat on show.
    """

    arrived = Signal(object)

    def __init__(self, chat: ChatState, drafts: Drafts, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._chat, self._drafts, self._disk = chat, drafts, LatestTask(self)
        self._readings: list[_Reading] = []

    @property
    def names(self) -> list[str]:
        """Names of the files that are being read for the chat on show."""
        return [name for reading in self._here for name in reading.names]

    @property
    def _here(self) -> list[_Reading]:
        return [one for one in self._readings if one.chat_id == self._chat.chat_id]

    def read(self, paths: Sequence[Path]) -> None:
        """Attach files to the message of the chat on show."""
        if not paths:
            return
        reading = _Reading(self._chat.chat_id, tuple(path.name for path in paths), Event())
        self._readings.append(reading)
        self.changed.emit()

        def is_wanted() -> bool:
            return not reading.unwanted.is_set()

        self._disk.run_each(
            lambda: [read_text_file(path, is_wanted) for path in paths if is_wanted()],
            lambda outcomes: self._take(reading, outcomes),
        )

    def give_up(self) -> None:
        """Stop reading files for the chat on show."""
        for reading in self._here:
            reading.unwanted.set()
            self._readings.remove(reading)
        self.changed.emit()

    def _take(self, reading: _Reading, outcomes: list[AttachedText | Refused]) -> None:
        """Add texts for another chat to its unsent text; refusals are told at once."""
        if reading.unwanted.is_set():
            return
        self._readings.remove(reading)
        if reading.chat_id != self._chat.chat_id:
            chat_id = reading.chat_id or NEW
            unsent = self._drafts.of_chat(chat_id)
            texts = (outcome for outcome in outcomes if isinstance(outcome, AttachedText))
            self._drafts.keep(chat_id, SaidWith(unsent.text, (*unsent.attachments, *texts)))
            outcomes = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        self.changed.emit()
        if outcomes:
            self.arrived.emit(outcomes)
