"""An answer: its thinking, which unfolds, its text, and a notice if something went wrong."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.values.chats import DraftedSpan
from app.window.controls.icons import paint_icon
from app.window.controls.layouts import column
from app.window.language import tr
from app.window.look import look
from app.window.transcript.drafted_spans import spans_of
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.reader import QuietButton, Reader, keeps_height
from app.window.transcript.segment_column import SegmentColumn, TextWidget
from app.window.transcript.selection import Part
from app.window.transcript.shown_message import ShownMessage
from mlx_engine.values.conversation import TextPiece

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


class AnswerView(QWidget):
    """width: of the column, until it is laid out."""

    def __init__(self, reader: Reader, width: int) -> None:
        super().__init__()
        keeps_height(self)
        self._reader, self._width = reader, width
        self.thinking: ThinkingSegment | None = None
        self._prose = SegmentColumn(reader, width)
        self._notice: ProseSegment | None = None
        self._plain = ""
        self._column = column(self._prose, of=self, spacing=8)

    def show_message(self, message: ShownMessage) -> None:
        """Show all there is of a message, before anything is appended."""
        live = message.state == "live"
        if message.thinking:
            segment = self._thinking_segment()
            segment.append(message.thinking, message.thinking_spans)
            if message.text or not live:
                segment.finish(message.thinking_seconds)
        if live:
            self._prose.append(message.text, sorted(message.spans))
        else:
            self._prose.show_whole(message.text, sorted(message.spans))
            self._end(message)

    def show_plain(self, message: ShownMessage) -> None:
        """Show the text of a message as it is stored, without markdown."""
        self._plain = message.text
        words = tr("This message cannot be shown as it should be. Its text:")
        plain = replace(message, notice=f"{words}\n\n{message.thinking}\n\n{message.text}")
        self._column.insertWidget(0, self._make_notice(plain))

    def append(self, pieces: Sequence[TextPiece]) -> None:
        """Add what arrived; the widgets are set once for all of it."""
        thoughts = [piece for piece in pieces if piece.channel == "thinking"]
        words = [piece for piece in pieces if piece.channel == "answer"]
        if thoughts:
            thinking = self._thinking_segment()
            spans = spans_of(thoughts, len(thinking.text))
            thinking.append("".join(piece.text for piece in thoughts), spans)
        if words:
            spans = spans_of(words, self._prose.length())
            self._prose.append("".join(piece.text for piece in words), spans)

    def finish_thinking(self, seconds: float | None) -> None:
        """The thinking is over."""
        if self.thinking is not None:
            self.thinking.finish(seconds)

    def is_of(self, message: ShownMessage) -> bool:
        """Whether what is on show is this message's text and thinking."""
        thinking = self.thinking.text if self.thinking else ""
        return (self.text(), thinking) == (message.text, message.thinking)

    def finish(self, message: ShownMessage) -> None:
        """No more will come."""
        self._prose.finish()
        self._end(message)

    def _end(self, message: ShownMessage) -> None:
        if self.thinking is not None:
            self.thinking.finish(message.thinking_seconds)
        if message.notice and self._notice is None:
            self._notice = self._make_notice(message)
            self._column.addWidget(self._notice)

    def texts(self) -> list[TextWidget]:
        """What can be searched, from the top."""
        return [*(self.thinking.texts() if self.thinking else []), *self._prose.texts()]

    def parts(self) -> list[Part]:
        """What can be selected, from the top."""
        return [*(self.thinking.parts() if self.thinking else []), *self._prose.parts()]

    def text(self) -> str:
        """The answer's markdown so far."""
        return self._plain + self._prose.text()

    def _thinking_segment(self) -> ThinkingSegment:
        """Made when the first thought arrives."""
        if self.thinking is None:
            self.thinking = ThinkingSegment(self._reader, self._width)
            self._column.insertWidget(0, self.thinking)
        return self.thinking

    def _make_notice(self, message: ShownMessage) -> ProseSegment:
        notice = ProseSegment(self._reader, muted=message.state != "failed")
        notice.setAccessibleName(tr("Why it ended"))
        notice.fit(self._width)
        words = escape(message.notice).replace("\n", "<br>")
        kind = ' class="problem"' if message.state == "failed" else ""
        notice.show_html(f"<p{kind}>{words}</p>", message.notice, ())
        return notice
