"""The attachments and pictures of an unsent message as chips, and files that were refused."""

import itertools
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget
from typing_extensions import override

from app.start.threads import LatestTask
from app.values.attached_text import AttachedText, Refused, tokens_about
from app.window.controls.icons import IconButton, Sign
from app.window.controls.labels import ShortLabel, label, paragraph, restyle, say, tabular
from app.window.controls.layouts import GAP, WIDEST, ChipFlow, Wide, column, row, scrolled
from app.window.language import said, tr
from app.window.pictures import Thumbnail
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import size_words


class AttachmentChip(QFrame):
    """An attachment with its tokens, None until they are counted. remove: its button."""

    tokens: int | None

    def __init__(self, attachment: AttachedText) -> None:
        super().__init__()
        self.attachment, self.tokens = attachment, None
        self.setProperty("role", "chip")
        self.setMaximumWidth(WIDEST)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        picture = Sign("file")
        self._name = ShortLabel()
        self._name.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._size = label("", "muted")
        tabular(self._size)
        self.remove = IconButton("close", tr("Remove {name}", name=attachment.name))
        parts = (picture, Wide(self._name), self._size, self.remove)
        row(*parts, of=self, margins=(8, 2, 2, 2), spacing=6)
        self._name.show_text(attachment.name)
        self.show_tokens(None)

    def show_tokens(self, tokens: int | None, is_too_long: bool = False) -> None:
        """Show the number of tokens, None for an estimate; red if too long for the model."""
        self.tokens, size = tokens, size_words(self.attachment.nbytes)
        if tokens is None:
            count = tr("about {count:,} tokens", count=tokens_about(self.attachment))
        else:
            count = tr("{n:,} tokens", "1 token", tokens)
        words = f"{said(size)} · {count}"
        self._size.setText(words)
        problem = tr(", longer than the model can read") if is_too_long else ""
        self.setAccessibleName(
            tr(
                "Attachment {name}, {words}{problem}",
                name=self.attachment.name,
                words=words,
                problem=problem,
            )
        )
        restyle(self, "bad", is_too_long)


class PictureChip(QFrame):
    """A picture of an unsent message. remove: its button."""

    def __init__(self, picture: Picture, number: int, disk: LatestTask) -> None:
        super().__init__()
        self.picture = picture
        self.setProperty("role", "chip")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        thumbnail = Thumbnail(picture, PICTURE_HEIGHT, number, disk, self)
        self.remove = IconButton("close", tr("Remove picture {number}", number=number))
        row(thumbnail, self.remove, of=self, margins=(2, 2, 2, 2), spacing=2)


class PictureRows(QWidget):
    """Pictures of an unsent message in rows, of which MOST_ROWS are in view."""

    def __init__(self) -> None:
        super().__init__()
        self._flow = ChipFlow()
        self._area = scrolled(self._flow)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(self._area, of=self)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._flow.installEventFilter(self)

    def add(self, chip: PictureChip) -> None:
        """Append a picture."""
        self._flow.add(chip)

    def drop(self, chip: PictureChip) -> None:
        """Remove a picture."""
        self._flow.drop(chip)

    def place(self) -> None:
        """Lay out the pictures and set the height."""
        self._flow.place()
        chips = self._flow.chips
        row_height = chips[0].sizeHint().height() + GAP if chips else 0
        self.setFixedHeight(min(self._flow.height(), round(MOST_ROWS * row_height)))

    # Qt

    @override
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.place()
        return super().eventFilter(watched, event)


MOST = 20
MOST_ROWS = 3.4
"""Rows of pictures in view: the last is cut, to show that more follow."""
MOST_PICTURES = 50
PICTURE_HEIGHT = 40
"""Pixels of a picture at a zoom of 1."""


class AttachmentRow(QWidget):
    """Chips of a message's attachments and pictures, and what was refused.

    too_long, unseen, reading: why the message cannot be sent, or "". stop_reading: button that
    stops reading files. Signal `changed`: other attachments.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._problem, self._reading = paragraph("", "problem"), paragraph("", "muted")
        self._flow, self._seen = ChipFlow(), PictureRows()
        self._chips: list[AttachmentChip] = []
        self._pictures: list[PictureChip] = []
        self._disk, self._numbers = LatestTask(self), itertools.count(1)
        self._refused = self.too_long = self.unseen = self.reading = self._blind = ""
        self._room: int | None = None
        self.stop_reading = IconButton("close", tr("Stop reading"))
        reading = row(Wide(self._reading), self.stop_reading)
        column(self._seen, self._flow, reading, self._problem, of=self, spacing=4)
        self.show_reading(())

    def attachments(self) -> tuple[AttachedText, ...]:
        """The attached texts."""
        return tuple(chip.attachment for chip in self._chips)

    def pictures(self) -> tuple[Picture, ...]:
        """The pictures."""
        return tuple(chip.picture for chip in self._pictures)

    def show_attachments(
        self, attachments: Sequence[AttachedText], pictures: Sequence[Picture] = ()
    ) -> None:
        """Replace all attachments and pictures."""
        for chip in list(self._chips):
            self._drop(chip)
        for shown in list(self._pictures):
            self._drop(shown)
        self._numbers = itertools.count(1)
        for attachment in attachments:
            self._add(attachment)
        for picture in pictures:
            self._add_picture(picture)
        self._refresh("")

    def attach(self, outcomes: Sequence[AttachedText | Picture | Refused]) -> None:
        """Add texts and pictures; files that were refused are named with the reason."""
        problems = []
        for outcome in outcomes:
            if isinstance(outcome, Refused):
                problems.append(said(outcome.words))
            elif isinstance(outcome, Picture):
                if len(self._pictures) < MOST_PICTURES:
                    self._add_picture(outcome)
                    continue
                most = tr("A message takes {most} pictures at most.", most=MOST_PICTURES)
                problems += [most] * (most not in problems)
            elif len(self._chips) >= MOST:
                problems.append(
                    tr(
                        "{name}: a message takes {most} attachments at most.",
                        name=outcome.name,
                        most=MOST,
                    )
                )
                break
            else:
                self._add(outcome)
        self._refresh("\n".join(problems[:3]))

    def tell(self, words: str) -> None:
        """Show a problem until there is another."""
        self._refused = words
        self._say()

    def show_reading(self, names: Sequence[str]) -> None:
        """Show the names of files that are still being read."""
        self.reading = tr("Reading {names}…", names=", ".join(names)) if names else ""
        say(self._reading, self.reading)
        self.stop_reading.setVisible(bool(names))
        self._say()

    def show_tokens(self, counts: Sequence[int | None], room: int | None) -> None:
        """Show the tokens of each attachment; room: tokens that the model can still read."""
        self._room = room
        for chip, count in zip(self._chips, counts, strict=False):
            chip.show_tokens(count, room is not None and count is not None and count >= room)
        self._say()

    def show_vision(self, why_not: str) -> None:
        """Say why the model sees no pictures, "" if it does."""
        if why_not != self._blind:
            self._blind = why_not
            self._say()

    def _say(self) -> None:
        counts, room = [chip.tokens for chip in self._chips], self._room
        self.too_long = "" if room is None else why_too_long(self.attachments(), counts, room)
        self.unseen = self._blind if self._pictures else ""
        words = "\n".join(filter(None, (self._refused, self.too_long, self.unseen)))
        say(self._problem, words)
        self._seen.setVisible(bool(self._pictures))
        self.setVisible(bool(self._chips or self._pictures or words or self.reading))

    def _add(self, attachment: AttachedText) -> None:
        chip = AttachmentChip(attachment)
        chip.remove.clicked.connect(lambda: self._remove(chip))
        self._chips.append(chip)
        self._flow.add(chip)

    def _add_picture(self, picture: Picture) -> None:
        chip = PictureChip(picture, next(self._numbers), self._disk)
        chip.remove.clicked.connect(lambda: self._remove(chip))
        self._pictures.append(chip)
        self._seen.add(chip)

    def _remove(self, chip: AttachmentChip | PictureChip) -> None:
        self._drop(chip)
        self._refresh("")
        self.setFocus()

    def _drop(self, chip: AttachmentChip | PictureChip) -> None:
        if isinstance(chip, PictureChip):
            self._pictures.remove(chip)
            self._seen.drop(chip)
        else:
            self._chips.remove(chip)
            self._flow.drop(chip)

    def _refresh(self, refused: str) -> None:
        self._refused = refused
        self._say()
        self._flow.place()
        self._seen.place()
        self.changed.emit()


def why_too_long(
    attachments: Sequence[AttachedText], counts: Sequence[int | None], room: int
) -> str:
    """Say why a model with room for so many tokens cannot read these, "" if it can."""
    for attachment, count in zip(attachments, counts, strict=False):
        if count is not None and count >= room:
            return tr(
                "{name} is longer than this model can read ({tokens:,} of {room:,} tokens): remove "
                "it, and paste the part that matters.",
                name=attachment.name,
                tokens=count,
                room=room,
            )
    together = sum(count or 0 for count in counts)
    if together < room:
        return ""
    return tr(
        "The attachments together are longer than this model can read ({tokens:,} of {room:,} "
        "tokens): remove some, and paste the parts that matter.",
        tokens=together,
        room=room,
    )
