"""A code block: language and copy button above lines that scroll sideways."""

from collections.abc import Iterator, Sequence
from math import ceil

from PySide6.QtCore import QEvent, QMimeData, QPointF, QRectF, Qt, Slot
from PySide6.QtGui import (
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPen,
    QTextCursor,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QWidget
from typing_extensions import override

from app.values.chats import DraftedSpan
from app.window.controls.labels import label
from app.window.controls.layouts import STRETCH, column, row
from app.window.language import tr
from app.window.look import look
from app.window.transcript.code_colours import CodeColours
from app.window.transcript.drafted_spans import Run, Tint, in_utf16, tints, within
from app.window.transcript.page_boxes import PlacedBlock, TintRects, paint_tints
from app.window.transcript.reader import CopyButton, Reader, keeps_height, scrolls
from app.window.transcript.streaming_markdown import Segment

PADDING = 12


class CodeText(QPlainTextEdit):
    """The code of a block; growing code is appended without changing the rest."""

    def __init__(self, reader: Reader, language: str) -> None:
        super().__init__()
        self.setAccessibleName(tr("Code, {language}", language=language or tr("plain")))
        self.colours = CodeColours(self.document(), language)
        self._reader, self._look = reader, look()
        self._code = ""
        self._runs: Sequence[Run] = ()
        self._spans: Sequence[DraftedSpan] = ()
        self._tint_rects = TintRects()
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setUndoRedoEnabled(False)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.setViewportMargins(PADDING, 0, PADDING, 0)
        self.horizontalScrollBar().rangeChanged.connect(lambda *_: self._set_height())
        # all lines are in view: else Qt would look at each of them for each piece to find that out
        self.setCenterOnScroll(True)
        down = self.verticalScrollBar()
        down.rangeChanged.connect(lambda *_: down.setMaximum(0))
        self._set_fonts()
        reader.selection.watch(self)

    def show_code(
        self,
        code: str,
        runs: Sequence[Run] = (),
        spans: Sequence[DraftedSpan] = (),
        is_whole: bool = False,
    ) -> None:
        """Show code.

        runs: its places in the answer's source. spans: drafted spans of the answer.
        is_whole: nothing more will be appended.
        """
        if code.startswith(self._code):
            cursor = QTextCursor(self.document())
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText(code[len(self._code) :])
        else:
            self.setPlainText(code)
            self.colours.begin()
        self.colours.grow(is_whole)
        self._code, self._runs, self._spans = code, runs, spans
        self._set_height()
        self.viewport().update()

    def restyle(self) -> None:
        """Take the colours and font of the current theme."""
        if self._is_outdated():
            self._look = look()
            self._set_fonts()
            self.colours.rehighlight()

    def _is_outdated(self) -> bool:
        """Whether the look has changed, or a style sheet has set the former font again."""
        return self._look != look() or self.font().pixelSize() != look().sizes.interface

    def text(self) -> str:
        """The code on show."""
        return self.toPlainText()

    def _set_fonts(self) -> None:
        self.setFont(self._look.code_font())
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        self._set_height()

    def _set_height(self) -> None:
        lines = self._lines_height()
        bar = self.horizontalScrollBar()
        below = bar.sizeHint().height() if bar.maximum() > 0 else 0
        self.setFixedHeight(ceil(lines) + max(PADDING, below + 2))

    def _lines_height(self) -> float:
        if self._are_lines_alike():
            return self.blockCount() * self._line_height()
        return self.blockBoundingGeometry(self.document().lastBlock()).bottom()

    def _are_lines_alike(self) -> bool:
        """Whether all lines have the same height; glyphs of fallback fonts may be higher."""
        return self._code.isascii()

    def _line_height(self) -> float:
        return self.blockBoundingRect(self.document().firstBlock()).height()

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        if self._reader.shows_drafted and self._spans:
            with QPainter(self.viewport()) as painter:
                area = QRectF(event.rect())
                lines = list(self._lines(area))
                paint_tints(painter, self._tint_rects.boxes(lines, self.tinted(lines)), area)
        super().paintEvent(event)

    def tinted(self, lines: Sequence[PlacedBlock]) -> list[Tint]:
        """Return the drafted spans in these lines, as document positions; only lines in view."""
        text = "\n".join(line.block.text() for line in lines)
        before = lines[0].block.position() if lines else 0
        code = self._code.encode("utf-16-le", "surrogatepass")
        first = len(code[: 2 * before].decode("utf-16-le", "surrogatepass"))
        found = list[Tint]()
        for shown, source, length in self._runs:
            start, end = max(first, shown), min(first + len(text), shown + length)
            if start < end:
                run = Run(start - first, source + start - shown, end - start)
                drafted = within(self._spans, run.source, run.source + run.length, run.source)
                found += tints((run,), drafted)
        return [
            tint._replace(start=tint.start + before, end=tint.end + before)
            for tint in in_utf16(text, found)
        ]

    def _lines(self, area: QRectF) -> Iterator[PlacedBlock]:
        """Yield the lines that intersect an area."""
        if self._are_lines_alike():
            line = self._line_height()
            number = min(max(0, int(area.y() / line)), self.blockCount() - 1)
            block = self.document().findBlockByNumber(number)
            corner = self.contentOffset() + QPointF(0, number * line)
        else:
            block = self.cursorForPosition(area.topLeft().toPoint()).block()
            corner = self.blockBoundingGeometry(block).topLeft() + self.contentOffset()
        while block.isValid() and corner.y() < area.bottom():
            yield PlacedBlock(block, QPointF(corner))
            corner += QPointF(0, self.blockBoundingRect(block).height())
            block = block.next()

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._is_outdated():
            self._reader.fit(self, lambda _: self.restyle())

    @override
    def wheelEvent(self, event: QWheelEvent) -> None:
        # sideways only: up and down scrolls the transcript
        delta = event.angleDelta()
        if abs(delta.x()) > abs(delta.y()) and self.horizontalScrollBar().maximum() > 0:
            super().wheelEvent(event)
        else:
            event.ignore()

    def selected_words(self) -> str:
        """The selected lines."""
        return self.textCursor().selection().toPlainText()

    @override
    def createMimeDataFromSelection(self) -> QMimeData:
        return self._reader.selection.copied() or super().createMimeDataFromSelection()

    @Slot()
    @override
    def selectAll(self) -> None:
        """Select the whole message; the whole chat the second time."""
        self._reader.selection.select_all(self)

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.selectAll()
        elif scrolls(event):
            event.ignore()
        else:
            super().keyPressEvent(event)


class CodeSegment(QWidget):
    """The frame around heading and code."""

    def __init__(self, reader: Reader, language: str) -> None:
        super().__init__()
        keeps_height(self)
        self._code = ""
        copy = CopyButton("copy", tr("Copy code"))
        copy.clicked.connect(self.copy)
        self.lines = CodeText(reader, language)
        name = label(language or "code", "muted")
        head = row(name, STRETCH, copy, margins=(PADDING, 2, 4, 2))
        column(head, self.lines, of=self, margins=(1, 1, 1, 1), spacing=8)

    def show_segment(self, segment: Segment, spans: Sequence[DraftedSpan]) -> None:
        """Show the code of a segment; spans: of the whole answer."""
        runs, parts = list[Run](), segment.code_parts
        for part in parts:
            shown = runs[-1].rendered + runs[-1].length if runs else 0
            runs.append(Run(shown, segment.start + part.start, len(part.text)))
        self._code = "".join(part.text for part in parts)
        code = self._code.replace("\r\n", " \n")
        self.lines.show_code(code, runs, spans, segment.closed)

    def copy(self) -> None:
        """Copy the code to the clipboard."""
        QGuiApplication.clipboard().setText(self._code)

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(look().colour("line"), 1))
            painter.setBrush(look().colour("code"))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
