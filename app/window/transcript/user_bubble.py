"""The user's message in a bubble: pictures above, long text cut, attachments as chips."""

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QPushButton, QWidget
from typing_extensions import override

from app.start.threads import LatestTask
from app.values.attached_text import AttachedText, said_with
from app.window.controls.labels import set_tip, unmarked
from app.window.controls.layouts import GAP, ChipFlow
from app.window.language import tr
from app.window.look import look
from app.window.pictures import Thumbnail
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.reader import LINE_HEIGHT, Reader, keeps_height
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import size_words

SHORT = 2_000
"""Characters of a long text that are shown at first."""
SHORT_LINES = 24
MOST = 100_000
"""Characters shown on demand; Copy and Edit always take all."""
PADDING_X, PADDING_Y = 16, 10
LONGEST_NAME = 36
"""Most characters of a file name on a chip."""
PICTURE_HEIGHT = 120
"""Pixels of a picture at a zoom of 1."""
SHARE = 0.85
"""Widest bubble, as a share of the column."""


class UserBubble(QWidget):
    """A message of the user, in a bubble as wide as its text."""

    def __init__(
        self, reader: Reader, text: str, width: int, pictures: Sequence[Picture] = ()
    ) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._said, self._width = reader, said_with(text), width
        self._opened: AttachedText | None = None
        self._box = QRect()
        self.prose = ProseSegment(reader, parent=self)
        self.prose.setAccessibleName(tr("Your message"))
        self._more = QPushButton(self)
        self._more.setProperty("role", "quiet")
        self._more.clicked.connect(lambda: self._show(is_whole=True))
        self._pictures, disk = ChipFlow(self), LatestTask(self)
        for number, picture in enumerate(pictures, 1):
            self._pictures.add(Thumbnail(picture, PICTURE_HEIGHT, number, disk, self._pictures))
        self._flow = ChipFlow(self)
        self._chips = [self._chip(attachment) for attachment in self._said.attachments]
        self._show(is_whole=False)

    def _chip(self, attachment: AttachedText) -> QPushButton:
        """Make the button of an attachment, which shows and hides its text."""
        name = attachment.name
        short = name if len(name) <= LONGEST_NAME else f"{name[:20]}…{name[-15:]}"
        chip = QPushButton(unmarked(f"{short} · {size_words(attachment.nbytes)}"))
        set_tip(chip, name)
        chip.setCheckable(True)
        chip.setAccessibleName(tr("Attachment {name}", name=attachment.name))
        chip.clicked.connect(lambda: self._open(attachment))
        self._flow.add(chip)
        return chip

    def _open(self, attachment: AttachedText) -> None:
        self._opened = None if attachment is self._opened else attachment
        for chip, other in zip(self._chips, self._said.attachments, strict=True):
            chip.setChecked(other is self._opened)
        self._show(is_whole=False)

    def _text(self) -> str:
        """Return the question with the opened attachment."""
        opened = self._opened.text if self._opened else ""
        return "\n\n".join(filter(None, (self._said.text, opened)))

    def fit(self, width: int) -> None:
        """Fit the bubble to its text, at the right of a column of this width."""
        self._width = width
        self._more.setVisible(self._is_cut)
        most = round(width * SHARE) - 2 * PADDING_X
        self.prose.fit(most)
        more = self._more.sizeHint() if self._is_cut else QSize(0, 0)
        chips = max(
            sum(chip.sizeHint().width() + GAP for chip in chips) - GAP
            for chips in (self._chips, self._pictures.chips)
        )
        ideal = max(round(self.prose.document().idealWidth()) + 2, more.width(), chips)
        needed = min(most, ideal)
        self.prose.fit(needed)  # what is read from the right begins at its right side
        left = width - needed - PADDING_X
        text_height = self.prose.height() if self.prose.isVisibleTo(self) else 0
        top = PADDING_Y
        if self._pictures.chips:
            self._pictures.setFixedWidth(needed)
            self._pictures.place()
            self._pictures.move(left, top)
            top += self._pictures.height() + (GAP if text_height else 0)
        lead = self.prose.fontMetrics().lineSpacing() * (LINE_HEIGHT - 100) // 200
        self.prose.setGeometry(left, top + lead, needed, text_height)  # in the middle
        self._more.setGeometry(left, top + text_height, more.width(), more.height())
        height = top + text_height + more.height() + PADDING_Y
        if self._chips:
            self._flow.setFixedWidth(needed)
            self._flow.place()
            self._flow.move(left, height - PADDING_Y + GAP)
            height += self._flow.height() + GAP
        self._box = QRect(left - PADDING_X, 0, needed + 2 * PADDING_X, height)
        self.setFixedHeight(height)
        self.update()

    def _show(self, is_whole: bool) -> None:
        """Show the text up to MOST characters, or its beginning."""
        text = self._text()
        shown, rest = beginning_of(text), len(text) - MOST
        self._is_cut = not is_whole and shown != text
        self._more.setText(tr("Show all of {size}", size=_size(len(text))))
        if is_whole:
            more = tr("… {size} more: Copy and Edit take all.", size=_size(rest))
            shown = f"{text[:MOST]}\n\n{more}" if rest > 0 else text[:MOST]
        self.prose.setVisible(bool(text))
        self.prose.show_html(_lines(shown), shown, ())
        self.fit(self._width)

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.prose.restyle(self.prose.width())
            self.fit(self._width)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(look().colour("bubble"))
            painter.drawRoundedRect(self._box, 14, 14)

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != self._width:
            self._reader.fit(self, self.fit)


def beginning_of(text: str) -> str:
    """Return the beginning of a text that is shown at first."""
    shown = "\n".join(text[:SHORT].split("\n", SHORT_LINES)[:SHORT_LINES])
    return shown if len(shown) == len(text) else shown + " …"


def _lines(text: str) -> str:
    """Join lines as paragraphs, since many are laid out faster than one long one."""
    style = "margin:0; white-space:pre-wrap"
    empty = f'<p style="-qt-paragraph-type:empty; {style}"><br></p>'
    return "".join(
        f'<p style="{style}">{escape(line)}</p>' if line else empty for line in text.split("\n")
    )


def _size(letters: int) -> str:
    """Format a size: "2.0 MB" or "4,321 characters"."""
    if letters < 20_000:
        return tr("{letters:,} characters", letters=letters)
    return (
        tr("{size:.1f} MB", size=letters / 1e6)
        if letters >= 1e6
        else tr("{size:.0f} kB", size=letters / 1e3)
    )
