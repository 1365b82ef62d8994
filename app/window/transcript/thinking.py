"""What a model thought before it answered: a line that opens to all of it."""

from collections.abc import Iterable

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.values.chats import DraftedSpan
from app.window.controls.icons import paint_icon
from app.window.controls.layouts import column
from app.window.language import tr
from app.window.look import look
from app.window.transcript.reader import QuietButton, Reader, keeps_height
from app.window.transcript.segment_column import SegmentColumn, TextWidget
from app.window.transcript.selection import Part

HEIGHT = 28
GAP = 6


class ThinkingHead(QuietButton):
    """Checked while the thinking is on show."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    # Qt

    def sizeHint(self) -> QSize:
        """The chevron and the words."""
        words = QFontMetrics(self.font()).horizontalAdvance(self.text())
        return QSize(look().icon_size + GAP + words + 8, HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002
        """The chevron and the words."""
        size = look().icon_size
        with QPainter(self) as painter:
            name = "chevron_down" if self.isChecked() else "chevron_right"
            top = (self.height() - size) // 2
            paint_icon(painter, QRect(0, top, size, size), name, self.colour())
            self.paint_words(painter, self.text(), size + GAP, inset=2)


INSET = 16


class ThinkingSegment(QWidget):
    """Closed it holds only its `text`; the widgets for it are made when it is opened."""

    def __init__(self, reader: Reader, width: int) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._width = reader, width
        self.text = ""
        self._spans: list[DraftedSpan] = []
        self._seconds: float | None = None
        self._finished = False
        self._body: SegmentColumn | None = None
        self.head = ThinkingHead()
        self.head.toggled.connect(self._open)
        self._column = column(self.head, of=self, spacing=4)
        self._column.setAlignment(self.head, Qt.AlignmentFlag.AlignLeft)
        self._say()

    @property
    def is_open(self) -> bool:
        """Whether the thoughts are on show."""
        return self.head.isChecked()

    def append(self, text: str, spans: Iterable[DraftedSpan] = ()) -> None:
        """Add text that continues; spans count from the beginning of all thoughts."""
        new = list(spans)
        self.text += text
        self._spans.extend(new)
        if self._body is not None:
            self._body.append(text, new)

    def finish(self, seconds: float | None) -> None:
        """The thinking is over; `seconds` it took, None leaves what was said before."""
        if self._body is not None:
            self._body.finish()
        self._finished = True
        if seconds is not None:
            self._seconds = seconds
        self._say()

    def texts(self) -> list[TextWidget]:
        """What of it can be searched: nothing while it is closed."""
        return self._body.texts() if self._body is not None and self.is_open else []

    def parts(self) -> list[Part]:
        """What of it can be selected."""
        return self._body.parts() if self._body is not None and self.is_open else []

    def words(self) -> str:
        """What its line says."""
        if not self._finished:
            return tr("Thinking…")
        if self._seconds is None:
            return tr("Thought")
        if self._seconds < 60:
            return tr("Thought for {seconds:.1f} s", seconds=self._seconds)
        minutes, seconds = divmod(round(self._seconds), 60)
        return tr("Thought for {minutes} min {seconds} s", minutes=minutes, seconds=seconds)

    def _open(self, is_open: bool) -> None:
        if is_open and self._body is None:
            self._body = SegmentColumn(self._reader, self._width - INSET, muted=True)
            self._body.setContentsMargins(INSET, 0, 0, 0)
            self._column.addWidget(self._body)
            self._body.append(self.text, self._spans)
            if self._finished:
                self._body.finish()
        if self._body is not None:
            self._body.setVisible(is_open)
        self.update()

    def _say(self) -> None:
        self.head.setText(self.words())
        self.head.setAccessibleName(self.words())
        self.head.updateGeometry()

    # Qt

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002
        """A line beside the thoughts."""
        if self._body is not None and self.is_open:
            with QPainter(self) as painter:
                line = look().colour("line")
                painter.fillRect(7, self._body.y(), 2, self._body.height(), line)
