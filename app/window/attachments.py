"""The attachments and pictures of an unsent message as chips, and files that were refused."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QAbstractButton, QFrame, QPushButton, QSizePolicy, QWidget
from typing_extensions import override

from app.start.threads import LatestTask
from app.values.attached_text import AttachedPdf, AttachedText, Refused, tokens_about
from app.window.controls.icons import IconButton, Sign
from app.window.controls.labels import ShortLabel, label, paragraph, restyle, say, tabular
from app.window.controls.layouts import GAP, WIDEST, ChipFlow, Item, Wide, column, row, scrolled
from app.window.language import said, tr
from app.window.pictures import Thumbnail
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import Words, size_words


class AttachmentChip(QFrame):
    """An attachment with its tokens, None until they are counted. remove: its button."""

    tokens: int | None
    goes_as_pictures = False

    def __init__(self, attachment: AttachedText, *buttons: QWidget) -> None:
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
        before: list[Item] = [picture, Wide(self._name), self._size]
        row(*before, *buttons, self.remove, of=self, margins=(8, 2, 2, 2), spacing=6)
        self._name.show_text(attachment.name)
        self.show_tokens(None)

    def show_tokens(self, tokens: int | None, is_too_long: bool = False) -> None:
        """Show the number of tokens, None for an estimate; red if too long for the model."""
        self.tokens, size = tokens, size_words(self.attachment.nbytes)
        if tokens is None:
            count = tr("about {count:,} tokens", count=tokens_about(self.attachment))
        else:
            count = tr("{n:,} tokens", "1 token", tokens)
        self._say(f"{said(size)} · {count}", is_too_long)

    def _say(self, words: str, is_too_long: bool = False) -> None:
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


class PdfChip(AttachmentChip):
    """A PDF, as its text or as pictures of its pages. switch: button for the other."""

    def __init__(self, pdf: AttachedPdf) -> None:
        self.pdf, self.switch = pdf, QPushButton()
        self.switch.setProperty("role", "link")
        super().__init__(pdf.text, self.switch)

    def show_pdf(self, pdf: AttachedPdf, sees: bool) -> None:
        """Show as what the PDF goes to a model that sees pictures or not."""
        self.pdf, self.goes_as_pictures = pdf, pdf.goes_as_pictures(sees)
        can_switch = bool(pdf.text.text) and sees
        self.switch.setVisible(can_switch)
        if self.goes_as_pictures:
            self.switch.setText(tr("As text"))
            self.switch.setAccessibleName(tr("Attach {name} as text", name=pdf.name))
        else:
            self.switch.setText(tr("As pictures"))
            self.switch.setAccessibleName(tr("Attach {name} as pictures", name=pdf.name))
        self.show_tokens(None)

    @override
    def show_tokens(self, tokens: int | None, is_too_long: bool = False) -> None:
        shown, count = len(self.pdf.pages), self.pdf.page_count
        if not self.goes_as_pictures:
            super().show_tokens(tokens, is_too_long)
            return
        if shown < count:
            words = tr("{shown:,} of {count:,} pages as pictures", shown=shown, count=count)
        else:
            words = tr("{n:,} pages as pictures", "1 page as a picture", count)
        told = [] if tokens is None else [tr("{n:,} tokens", "1 token", tokens)]
        self._say(" · ".join([words, *told]), is_too_long)


class PictureChip(QFrame):
    """A picture of an unsent message, or of a PDF, with its tokens once counted. remove: button."""

    tokens: int | None = None

    def __init__(
        self, picture: Picture, number: int, disk: LatestTask, pdf: PdfChip | None
    ) -> None:
        super().__init__()
        self.picture, self.pdf = picture, pdf
        self.setProperty("role", "chip")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.thumbnail = Thumbnail(picture, PICTURE_HEIGHT, number, disk, self)
        self.remove = IconButton("close", tr("Remove picture {number}", number=number))
        row(self.thumbnail, self.remove, of=self, margins=(2, 2, 2, 2), spacing=2)

    def show_tokens(self, tokens: int | None) -> None:
        """Show the number of tokens, None if it is not known."""
        self.tokens = tokens
        self.thumbnail.show_tokens(tokens)


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


MOST, MOST_TOLD = 20, 3
MOST_ROWS = 3.4
"""Rows of pictures in view: the last is cut, to show that more follow."""
MOST_PICTURES = 50
PICTURE_HEIGHT = 40
"""Pixels of a picture at a zoom of 1."""


class AttachmentRow(QWidget):
    """Chips of a message's attachments and pictures, and what was refused.

    too_long, unseen, reading: why the message cannot be sent, or "". stop_reading: button that
    stops reading files. Signals: `changed`: other attachments. `pages_wanted`(AttachedPdf): pages
    are to be read as pictures.
    """

    changed = Signal()
    pages_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._problem, self._reading = paragraph("", "problem"), paragraph("", "muted")
        self._flow, self._seen = ChipFlow(), PictureRows()
        self._chips: list[AttachmentChip] = []
        self._pictures: list[PictureChip] = []
        self._disk, self._numbers = LatestTask(self), itertools.count(1)
        self._refused = self.too_long = self.unseen = self.reading = ""
        self._blind = self._blind_to_chat = ""
        self._room: int | None = None
        self.stop_reading = IconButton("close", tr("Stop reading"))
        reading = row(Wide(self._reading), self.stop_reading)
        column(self._seen, self._flow, reading, self._problem, of=self, spacing=4)
        self.show_reading(())

    def attachments(self) -> tuple[AttachedText, ...]:
        """The attached texts, also of PDFs."""
        return tuple(chip.attachment for chip in self._texts)

    @property
    def _texts(self) -> list[AttachmentChip]:
        return [chip for chip in self._chips if not chip.goes_as_pictures]

    def pictures(self) -> tuple[Picture, ...]:
        """The pictures, also of pages."""
        return tuple(chip.picture for chip in self._pictures)

    def pdfs(self) -> tuple[AttachedPdf, ...]:
        """The PDFs to which some of the texts and pictures belong."""
        return tuple(chip.pdf for chip in self._chips if isinstance(chip, PdfChip))

    def show_attachments(
        self,
        attachments: Sequence[AttachedText],
        pictures: Sequence[Picture] = (),
        pdfs: Sequence[AttachedPdf] = (),
    ) -> None:
        """Replace all attachments and pictures. pdfs: to which some of them belong."""
        for chip in list(self._chips):
            self._drop(chip)
        for shown in list(self._pictures):
            self._drop(shown)
        self._numbers = itertools.count(1)
        for attachment in attachments:
            if all(attachment is not pdf.text for pdf in pdfs):
                self._add(AttachmentChip(attachment))
        pages = {id(page) for pdf in pdfs for page in pdf.pages}
        for picture in pictures:
            if id(picture) not in pages:
                self._add_picture(picture)
        for pdf in pdfs:
            self._show_pdf(pdf)
        self._refresh("")

    def attach(self, outcomes: Sequence[AttachedText | AttachedPdf | Picture | Refused]) -> None:
        """Add texts, PDFs and pictures; files that were refused are named with the reason."""
        problems = []
        for outcome in outcomes:
            if isinstance(outcome, Refused):
                problems.append(said(outcome.words))
            elif isinstance(outcome, Picture):
                if len(self._pictures) < MOST_PICTURES:
                    self._add_picture(outcome)
                    continue
                problems.append(_too_many())
            elif isinstance(outcome, AttachedPdf) and not self._has_room(outcome):
                problems.append(_too_many())
            elif isinstance(outcome, AttachedPdf) and self._chip_of(outcome):
                self._show_pdf(outcome)
            elif isinstance(outcome, AttachedPdf) and outcome.as_pictures and outcome.text.text:
                pass  # it was removed while its pages were read
            elif len(self._chips) >= MOST:
                problems.append(
                    tr(
                        "{name}: a message takes {most} attachments at most.",
                        name=outcome.name,
                        most=MOST,
                    )
                )
                break
            elif isinstance(outcome, AttachedPdf):
                self._show_pdf(outcome)
            else:
                self._add(AttachmentChip(outcome))
        self._refresh(_told(list(dict.fromkeys(problems))))

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

    def show_tokens(
        self, counts: Sequence[int | None], room: int | None, of_pictures: Sequence[int | None] = ()
    ) -> None:
        """Show the tokens of each attachment and picture; room: tokens that the model can read."""
        self._room = room

        def show(chip: AttachmentChip, count: int | None) -> None:
            chip.show_tokens(count, room is not None and count is not None and count >= room)

        for chip, count in zip(self._texts, counts, strict=False):
            show(chip, count)
        for picture, count in zip(self._pictures, of_pictures, strict=False):
            picture.show_tokens(count)
        for chip in self._chips:
            if chip.goes_as_pictures:
                pages = [page.tokens for page in self._pages_of(chip)]
                show(chip, None if None in pages else sum(filter(None, pages)))
        self._say()

    def show_vision(self, why_not: str, of_chat: str = "") -> None:
        """Say why the model sees no pictures of the message, and of the chat; "" if it does."""
        if (why_not, of_chat) != (self._blind, self._blind_to_chat):
            self._blind, self._blind_to_chat = why_not, of_chat
            for pdf in (pdfs := self.pdfs()):
                self._show_pdf(pdf)
            if pdfs:
                self._refresh(self._refused)
            else:
                self._say()

    def _say(self) -> None:
        counts, room = [chip.tokens for chip in self._texts], self._room
        seen = sum(chip.tokens or 0 for chip in self._pictures)
        self.too_long = "" if room is None else why_too_long(self.attachments(), counts, room, seen)
        self.unseen = self._blind_to_chat or (self._blind if self._pictures else "")
        words = "\n".join(filter(None, (self._refused, self.too_long, self.unseen)))
        say(self._problem, words)
        self._seen.setVisible(bool(self._pictures))
        self.setVisible(bool(self._chips or self._pictures or words or self.reading))

    def _add(self, chip: AttachmentChip) -> None:
        chip.remove.clicked.connect(lambda: self._remove(chip))
        self._chips.append(chip)
        self._flow.add(chip)

    def _add_picture(self, picture: Picture, pdf: PdfChip | None = None) -> None:
        chip = PictureChip(picture, next(self._numbers), self._disk, pdf)
        chip.remove.clicked.connect(lambda: self._remove(chip))
        self._pictures.append(chip)
        self._seen.add(chip)

    def _chip_of(self, pdf: AttachedPdf) -> PdfChip | None:
        return next(
            (c for c in self._chips if isinstance(c, PdfChip) and c.pdf.path == pdf.path), None
        )

    def _show_pdf(self, pdf: AttachedPdf) -> None:
        """Add a PDF, or show it anew in its place."""
        chip = self._chip_of(pdf)
        if chip is None:
            chip = added = PdfChip(pdf)
            chip.switch.clicked.connect(
                lambda: self._switch(replace(added.pdf, as_pictures=not added.goes_as_pictures))
            )
            self._add(chip)
        for page in self._pages_of(chip):
            self._drop(page)
        chip.show_pdf(pdf, sees=not self._blind)
        if chip.goes_as_pictures:
            for picture in pdf.pages:
                self._add_picture(picture, chip)

    def _switch(self, pdf: AttachedPdf) -> None:
        """Let a PDF go as its text or as pictures, once its pages are read."""
        if pdf.as_pictures and not pdf.pages:
            self.pages_wanted.emit(pdf)
        else:
            self.attach([pdf])

    def _has_room(self, pdf: AttachedPdf) -> bool:
        """Return whether a message with this PDF has at most MOST_PICTURES pictures."""
        others = [page for page in self._pictures if page.pdf is not self._chip_of(pdf)]
        pages = len(pdf.pages) if pdf.goes_as_pictures(sees=not self._blind) else 0
        return not pages or len(others) + pages <= MOST_PICTURES

    def _remove(self, chip: AttachmentChip | PictureChip) -> None:
        pdf_chip = chip.pdf if isinstance(chip, PictureChip) else None
        self._drop(chip)
        if pdf_chip is not None:
            left = tuple(page.picture for page in self._pages_of(pdf_chip))
            pdf_chip.show_pdf(replace(pdf_chip.pdf, pages=left), sees=True)
            if not left:
                self._drop(pdf_chip)
        self._refresh("")
        self.setFocus()

    def _drop(self, chip: AttachmentChip | PictureChip) -> None:
        if isinstance(chip, PictureChip):
            self._pictures.remove(chip)
            self._seen.drop(chip)
            return
        for page in self._pages_of(chip):
            self._drop(page)
        self._chips.remove(chip)
        self._flow.drop(chip)

    def _pages_of(self, chip: AttachmentChip) -> list[PictureChip]:
        return [page for page in self._pictures if page.pdf is chip]

    def _refresh(self, refused: str) -> None:
        self._refused = refused
        self._say()
        # Qt would put new buttons behind all of the window, where Tab does not come
        before: QWidget = self.focusProxy() or self.stop_reading
        for chip in (*self._pictures, *self._chips):
            for button in chip.findChildren(QAbstractButton):
                self.setTabOrder(before, button)
                before = button
        self._flow.place()
        self._seen.place()
        self.changed.emit()


def _too_many() -> str:
    return tr("A message takes {most} pictures at most.", most=MOST_PICTURES)


BLIND = Words("{words} Leave the pictures out, or use a model that sees them.")


def why_blind(model: ModelDescription | None) -> str:
    """Say why a model sees no pictures and what to do, "" if it does or there is none."""
    return tr(BLIND, words=model.vision.words) if model and model.vision else ""


def _told(problems: Sequence[str]) -> str:
    """Join problems; of many the first MOST_TOLD, and how many more there are."""
    left = len(problems) - MOST_TOLD
    more = [tr("{n:,} more files were refused.", "1 more file was refused.", left)]
    return "\n".join([*problems[:MOST_TOLD], *(more if left > 0 else ())])


def why_too_long(
    attachments: Sequence[AttachedText], counts: Sequence[int | None], room: int, of_pictures: int
) -> str:
    """Say why a model with room for so many tokens cannot read these and pictures, "" if it can.

    of_pictures: tokens of all pictures together.
    """
    for attachment, count in zip(attachments, counts, strict=False):
        if count is not None and count >= room:
            return tr(
                "{name} is longer than this model can read ({tokens:,} of {room:,} tokens): remove "
                "it, and paste the part that matters.",
                name=attachment.name,
                tokens=count,
                room=room,
            )
    together = sum(count or 0 for count in counts) + of_pictures
    if together < room:
        return ""
    return tr(
        "The attachments together are longer than this model can read ({tokens:,} of {room:,} "
        "tokens): remove some, and paste the parts that matter.",
        tokens=together,
        room=room,
    )
