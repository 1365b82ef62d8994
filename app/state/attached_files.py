"""Files, pictures and pages of PDFs that are being read to be attached to messages."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from app.library.document_reader import read_pages
from app.library.picture_file import checked_picture, read_attachment
from app.start.threads import LatestTask
from app.state.chat import ChatState
from app.state.drafts import NEW, Drafts
from app.state.models import ModelState
from app.state.state import State
from app.values.attached_text import AttachedPdf, AttachedText, Refused, SaidWith
from mlx_engine.values.picture import Picture

Outcome = AttachedText | AttachedPdf | Picture | Refused


class _Reading(NamedTuple):
    """Files for a chat, None for a new one. unwanted: set to cancel the reading."""

    chat_id: int | None
    names: tuple[str, ...]
    unwanted: Event


class AttachedFiles(State):
    """Reads files in a background thread, for the chat that was on show, and stores pictures.

    Signal `arrived`: texts, PDFs, pictures and refusals for the message of the chat on show.
    """

    arrived = Signal(object)

    def __init__(
        self,
        chat: ChatState,
        models: ModelState,
        drafts: Drafts,
        as_png: Callable[[bytes], bytes],
        parent: QObject | None = None,
    ) -> None:
        """as_png: converts a picture that the system reads, to b"" if it does not."""
        super().__init__(parent)
        self._as_png, self._models = as_png, models
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

        as_png, sees = self._as_png, self._models.may_see

        def look(is_wanted: Callable[[], bool]) -> list[Outcome]:
            return [read_attachment(path, as_png, is_wanted, sees) for path in paths if is_wanted()]

        if paths:
            self._begin(tuple(path.name for path in paths), look)

    def read_pasted(self, name: str, png: Callable[[], bytes]) -> None:
        """Attach a picture to the message of the chat on show. png: makes its file."""
        self._begin((name,), lambda _: [checked_picture(png(), name)])

    def read_pages(self, pdf: AttachedPdf) -> None:
        """Attach the pages of a PDF as pictures, in the place of its text."""
        self._begin((pdf.name,), lambda is_wanted: [read_pages(pdf, is_wanted)])

    def _begin(
        self, names: tuple[str, ...], look: Callable[[Callable[[], bool]], list[Outcome]]
    ) -> None:
        reading = _Reading(self._chat.chat_id, names, Event())
        self._readings.append(reading)
        self.changed.emit()

        def read_and_store() -> list[Outcome]:
            outcomes = look(lambda: not reading.unwanted.is_set())
            for outcome in outcomes:
                for picture in _pictures_in(outcome):
                    self._drafts.write_ahead(picture)
            return outcomes

        self._disk.run_each(read_and_store, lambda outcomes: self._take(reading, outcomes))

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
            for outcome in outcomes:
                unsent = _with(unsent, outcome, self._models.may_see)
            self._drafts.keep(chat_id, unsent)
            outcomes = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        self.changed.emit()
        if outcomes:
            self.arrived.emit(outcomes)


def _pictures_in(outcome: Outcome) -> Sequence[Picture]:
    match outcome:
        case Picture():
            return (outcome,)
        case AttachedPdf(pages=pages):
            return pages
    return ()


def _with(said: SaidWith, outcome: Outcome, sees: bool) -> SaidWith:
    """Add what was read to an unsent message; pages come too late for a PDF that is there."""
    match outcome:
        case AttachedText():
            return said._replace(attachments=(*said.attachments, outcome))
        case Picture():
            return said._replace(pictures=(*said.pictures, outcome))
        case AttachedPdf() if all(pdf.path != outcome.path for pdf in said.pdfs):
            return said.with_pdf(outcome, sees)
    return said
