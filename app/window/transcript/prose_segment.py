"""A segment of rendered prose with selectable text; it loads nothing."""

from collections.abc import Sequence
from math import ceil

from PySide6.QtCore import QEvent, QMimeData, QRectF, Qt, QUrl, Slot
from PySide6.QtGui import (
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QTextBrowser, QTextEdit, QToolTip, QWidget
from shiboken6 import isValid
from typing_extensions import override

from app.values.chats import DraftedSpan
from app.window.controls.labels import plain
from app.window.look import look
from app.window.transcript.drafted_spans import (
    GrowingAlignment,
    Tint,
    drafted_words,
    in_utf16,
    tints,
)
from app.window.transcript.formulas import (
    OBJECT,
    Searched,
    drawn,
    formulas_in,
    in_sources,
    place_formulas,
    read_name,
)
from app.window.transcript.markdown_text import FormulaKey
from app.window.transcript.page_boxes import (
    PageMarks,
    PlacedBlock,
    TintBox,
    TintRects,
    paint_tints,
    placed,
    set_in_from_right,
    soften_bullets,
)
from app.window.transcript.reader import LIST_STEP, Reader, css, scrolls
from app.window.transcript.selection import Row, html_of, selected_rows, words_of


class ProseSegment(QTextBrowser):
    """A segment of rendered prose. muted: in the muted colour."""

    def __init__(self, reader: Reader, muted: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reader, self._muted, self._look = reader, muted, look()
        self._html = self._source = ""
        self._spans: Sequence[DraftedSpan] = ()
        self._pictured: Sequence[FormulaKey] = ()
        self._alignment = GrowingAlignment()
        self._tints: list[Tint] | None = None
        self._boxes: list[TintBox] | None = None
        self._tint_rects = TintRects()
        self._marks: PageMarks | None = None
        self._placed: list[PlacedBlock] | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setLineWrapMode(QTextEdit.LineWrapMode.FixedPixelWidth)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.anchorClicked.connect(lambda url: reader.link_clicked.emit(url.toString()))
        self._set_fonts()
        reader.selection.watch(self)

    def show_html(self, html: str, source: str, spans: Sequence[DraftedSpan]) -> None:
        """Show rendered Markdown; spans are offsets in `source`. The selection stays."""
        html = html.replace(OBJECT, "")
        self._source, self._spans = source, spans
        self._tints = self._boxes = None
        if html == self._html:
            self.viewport().update()
            return
        self._html = html
        cursor = self.textCursor()
        anchor, position = cursor.anchor(), cursor.position()
        self._set_html()
        if anchor != position:
            self._select(anchor, position)
        has_links = "<a href" in html
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if has_links else Qt.FocusPolicy.ClickFocus)
        self._set_height()
        self._reader.formulas.once_set(formulas_in(html), self._take_pictures)

    def _take_pictures(self) -> None:
        if isValid(self):
            self._place_formulas()
            self._tints = None
            self._set_height()

    def restyle(self, width: int) -> None:
        """Take the colours and fonts of the current theme, and wrap at this width."""
        if self._is_outdated():
            self._look = look()
            self._set_fonts()
            self._set_html()
            self._set_height()
        self.fit(width)

    def _is_outdated(self) -> bool:
        """Whether the look has changed, or a style sheet has set the former font again."""
        return self._look != look() or self.font().pixelSize() != look().sizes.transcript

    def fit(self, width: int) -> None:
        """Wrap at this width, and fit the height to the text."""
        if width != self.lineWrapColumnOrWidth():
            self.setLineWrapColumnOrWidth(width)
            self._place_formulas()
            self._set_height()

    def text(self) -> str:
        """The text on show, one character for each document position."""
        return self.toPlainText()

    def searched(self) -> Searched:
        """Return the searchable text, with formulas as LaTeX."""
        return in_sources(self.text(), self._pictured)

    def tinted(self) -> list[Tint]:
        """Return the drafted spans, as document positions."""
        if self._tints is None:
            text = self.text()
            runs = self._alignment.of(self._aligned_source(), text) if self._spans else ()
            self._tints = in_utf16(text, tints(runs, self._spans))
        return self._tints

    def tint_boxes(self) -> Sequence[TintBox]:
        """Return the rectangles of tints, cached for each layout."""
        if not self._reader.shows_drafted or not self._spans:
            return ()
        if self._boxes is None:
            self._boxes = self._tint_rects.boxes(self._blocks(), self.tinted())
        return self._boxes

    def _aligned_source(self) -> str:
        """Return the source with one character for each pictured formula."""
        parts, at = [], 0
        for latex, _ in self._pictured:
            found = self._source.find(latex, at)
            if found >= 0:
                parts += [self._source[at:found], OBJECT.ljust(len(latex))]
                at = found + len(latex)
        return "".join([*parts, self._source[at:]])

    def _set_fonts(self) -> None:
        self.setFont(self._look.text_font())
        self.document().setIndentWidth(round(LIST_STEP * self._look.zoom))
        self.document().setDefaultStyleSheet(css(self._look, self._muted))

    def _set_html(self) -> None:
        document = self.document()
        self._fit_tables()
        document.setHtml(self._html)
        if "<li" in self._html:
            soften_bullets(document, self._look.sizes.small)
        if "<blockquote" in self._html:
            set_in_from_right(document)
        self._place_formulas()

    def _fit_tables(self) -> None:
        """Let a text with a table scroll sideways, so that no number is broken."""
        has_table, wrap, policy = "<table" in self._html, QTextOption.WrapMode, Qt.ScrollBarPolicy
        self.setWordWrapMode(wrap.WordWrap if has_table else wrap.WrapAtWordBoundaryOrAnywhere)
        self.setHorizontalScrollBarPolicy(
            policy.ScrollBarAsNeeded if has_table else policy.ScrollBarAlwaysOff
        )

    def _place_formulas(self) -> None:
        if 'title="' in self._html:
            pixels, room = self._look.sizes.transcript, self.lineWrapColumnOrWidth()
            ratio, formulas = self.devicePixelRatioF(), self._reader.formulas
            self._pictured = place_formulas(self.document(), formulas, pixels, room, ratio)

    def _set_height(self) -> None:
        self._boxes = self._marks = self._placed = None
        size, bar = self.document().size(), self.horizontalScrollBar()
        is_wide = "<table" in self._html and size.width() > self.lineWrapColumnOrWidth()
        below = bar.sizeHint().height() if is_wide else 0
        self.setFixedHeight(max(1, ceil(size.height()) + below))

    def _blocks(self) -> list[PlacedBlock]:
        """Return the placed blocks, cached for each layout."""
        if self._placed is None:
            self._placed = list(placed(self.document()))
        return self._placed

    def _select(self, anchor: int, position: int) -> None:
        last = self.document().characterCount() - 1
        cursor = self.textCursor()
        cursor.setPosition(min(anchor, last))
        cursor.setPosition(min(position, last), QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self.viewport()) as painter:
            painter.translate(-self.horizontalScrollBar().value(), 0)
            if "<code" in self._html or "<blockquote" in self._html:
                if self._marks is None:
                    self._marks = PageMarks(self._blocks(), self._look.code_font().family())
                self._marks.paint(painter)
            paint_tints(painter, self.tint_boxes(), QRectF(event.rect()))
        super().paintEvent(event)

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        # a text that was wrapped for a width to come only gets its height here
        super().resizeEvent(event)
        width = event.size().width()
        if width not in (event.oldSize().width(), self.lineWrapColumnOrWidth()):
            self._reader.fit(self, self.restyle)

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._is_outdated():
            self._reader.fit(self, self.restyle)

    @override
    def loadResource(self, kind: int, name: QUrl | str) -> object:
        # only formulas: neither pictures nor style sheets are fetched for an answer
        place = read_name(name if isinstance(name, str) else name.toString())
        formula = place and self._reader.formulas.get(place.key)
        return place and formula and drawn(formula, place, self.devicePixelRatioF())

    def selected_words(self) -> str:
        """The selected text; cells of a row are separated by tabs, formulas are LaTeX."""
        return words_of(self._selected_rows())

    def _selected_rows(self) -> list[Row]:
        return selected_rows(self.textCursor(), [key.source for key in self._pictured])

    @override
    def createMimeDataFromSelection(self) -> QMimeData:
        # without the colours and fonts of this window
        wide = self._reader.selection.copied()
        if wide is not None:
            return wide
        data, rows = QMimeData(), self._selected_rows()
        data.setText(words_of(rows))
        if any(row.is_of_table for row in rows):
            data.setHtml(html_of(rows))
        return data

    @Slot()
    @override
    def selectAll(self) -> None:
        """Select the whole message; the whole chat the second time."""
        self._reader.selection.select_all(self)

    @override
    def wheelEvent(self, event: QWheelEvent) -> None:
        # sideways only: up and down scrolls the transcript
        delta = event.angleDelta()
        if abs(delta.x()) > abs(delta.y()) and self.horizontalScrollBar().maximum() > 0:
            super().wheelEvent(event)
        else:
            event.ignore()

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.selectAll()
        elif scrolls(event):
            event.ignore()
        else:
            super().keyPressEvent(event)

    @override
    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), plain(self._tip(event)), self)
            return True
        return bool(super().viewportEvent(event))

    def _tip(self, event: QHelpEvent) -> str:
        address = self.anchorAt(event.pos())
        if address or not self._reader.shows_drafted:
            return address
        at = self.cursorForPosition(event.pos()).position()
        return next((drafted_words(t) for t in self.tinted() if t.start <= at < t.end), "")
