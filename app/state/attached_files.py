"""Files and pictures that are being read to be attached to messages."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.library.picture_file import checked_picture, read_attachment
from app.start.threads import LatestTask
from app.state.chat import ChatState
from app.state.drafts import NEW, Drafts
from app.state.state import State
from app.values.attached_text import AttachedText, Refused, SaidWith
from mlx_engine.values.picture import Picture

Outcome = AttachedText | Picture | Refused


class _Reading(NamedTuple):
    """Files for a chat, None for a new one. unwanted: set to cancel the reading."""

    chat_id: int | None
    names: tuple[str, ...]
    unwanted: Event


class AttachedFiles(State):
    """Reads files in a background thread, for the chat that was on show.

    Signal `arrived`: texts, pictures and refusals for the message of the chat on show.
    """

    arrived = Signal(object)

    def __init__(
        self,
        chat: ChatState,
        drafts: Drafts,
        as_png: Callable[[bytes], bytes],
        parent: QObject | None = None,
    ) -> None:
        """as_png: converts a picture that the system reads, to b"" if it does not."""
        super().__init__(parent)
        self._as_png = as_png
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

        def look(is_wanted: Callable[[], bool]) -> list[Outcome]:
            as_png = self._as_png
            return [read_attachment(path, as_png, is_wanted) for path in paths if is_wanted()]

        if paths:
            self._begin(tuple(path.name for path in paths), look)

    def read_pasted(self, name: str, png: Callable[[], bytes]) -> None:
        """Attach a picture to the message of the chat on show. png: makes its file."""
        self._begin((name,), lambda _: [checked_picture(png(), name)])

    def _begin(
        self, names: tuple[str, ...], look: Callable[[Callable[[], bool]], list[Outcome]]
    ) -> None:
        reading = _Reading(self._chat.chat_id, names, Event())
        self._readings.append(reading)
        self.changed.emit()
        self._disk.run_each(
            lambda: look(lambda: not reading.unwanted.is_set()),
            lambda outcomes: self._take(reading, outcomes),
        )

    def give_up(self) -> None:
        """Stop reading files for the chat on show."""
        for reading in self._here:
            reading.unwanted.set()
            self._readings.remove(reading)
        self.changed.emit()

    def _take(self, reading: _Reading, outcomes: list[Outcome]) -> None:
        """Add texts and pictures for another chat to its unsent text; refusals are told at once."""
        if reading.unwanted.is_set():
            return
        self._readings.remove(reading)
        if reading.chat_id != self._chat.chat_id:
            chat_id = reading.chat_id or NEW
            unsent = self._drafts.of_chat(chat_id)
            texts = (outcome for outcome in outcomes if isinstance(outcome, AttachedText))
            pictures = (outcome for outcome in outcomes if isinstance(outcome, Picture))
            kept = (*unsent.attachments, *texts), (*unsent.pictures, *pictures)
            self._drafts.keep(chat_id, SaidWith(unsent.text, *kept))
            outcomes = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        self.changed.emit()
        if outcomes:
            self.arrived.emit(outcomes)
