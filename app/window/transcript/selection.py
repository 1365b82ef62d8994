"""Text selection across several texts and messages, and copying it."""

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

from PySide6.QtCore import QEvent, QMimeData, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QContextMenuEvent, QCursor, QGuiApplication, QMouseEvent, QTextCursor
from PySide6.QtWidgets import QMenu, QPlainTextEdit, QScrollArea, QTextBrowser
from typing_extensions import override

from app.window.language import tr
from app.window.transcript.formulas import OBJECT
from app.window.transcript.markdown_text import copied

Text = QTextBrowser | QPlainTextEdit
SCROLL_MS = 40
"""Milliseconds between steps of scrolling while selecting."""


class Part(NamedTuple):
    """A text widget. source: its Markdown. words: its selected text."""

    text: Text
    source: str
    words: Callable[[], str]

    @property
    def is_whole(self) -> bool:
        """Whether all of it is selected."""
        cursor = self.text.textCursor()
        end = self.text.document().characterCount() - 1
        return cursor.selectionStart() == 0 and cursor.selectionEnd() == end


class Selection(QObject):
    """Selects across the texts of a transcript.

    Each text is given to `watch`. Signal `quote_wanted`(str): the selection is to be quoted in an
    answer.
    """

    quote_wanted = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._area: QScrollArea | None = None
        self._messages: Callable[[], Sequence[Sequence[Part]]] = tuple
        self._chat: Callable[[], str] = str
        self._is_wide = self._is_chat = False
        self._origin: Text | None = None
        self._scrolling = QTimer(self, interval=SCROLL_MS)
        self._scrolling.timeout.connect(self._scroll)

    def belong_to(
        self,
        area: QScrollArea,
        messages: Callable[[], Sequence[Sequence[Part]]],
        chat: Callable[[], str],
    ) -> None:
        """Set the scroll area, functions for the parts of each message, and the chat's Markdown."""
        self._area, self._messages, self._chat = area, messages, chat

    def watch(self, text: Text) -> None:
        """Let a mouse drag from this text select into others."""
        text.viewport().installEventFilter(self)

    def clear(self, but: Text | None = None) -> None:
        """Clear the selection, except in one text."""
        self._is_wide = self._is_chat = False
        for text in self._texts():
            if text is not but and text.textCursor().hasSelection():
                _select(text, 0, 0)

    def select_all(self, text: Text | None) -> None:
        """Select all of the message with this text; all of the chat the second time, or for
        None.
        """
        messages = self._messages()
        parts = next((m for m in messages if any(part.text is text for part in m)), ())
        if not parts or (self._is_wide and all(part.is_whole for part in parts)):
            parts = [part for message in messages for part in message]
            self._is_chat = True
        for part in parts:
            _select(part.text, 0, part.text.document().characterCount() - 1)
        self._is_wide = True

    def copied(self) -> QMimeData | None:
        """Return the selection of several texts, None if it is in one at most.

        Markdown of texts that are selected whole, plain text of others.
        """
        if not self._is_wide:
            return None
        data = QMimeData()
        data.setText(self._chat() if self._is_chat else self.markdown())
        data.setHtml(copied(data.text()).html)
        return data

    def markdown(self) -> str:
        """The selection, as it is copied."""
        parts = [part for message in self._messages() for part in message]
        selected = [part for part in parts if part.text.textCursor().hasSelection()]
        if not self._is_wide:
            return "\n\n".join(part.words() for part in selected)
        return "\n\n".join(
            part.source.strip("\n") if part.is_whole else part.words() for part in selected
        )

    def _texts(self) -> list[Text]:
        return [part.text for message in self._messages() for part in message]

    def _extend(self, point: QPoint) -> bool:
        """Select up to a point of the screen; False while the text itself does that."""
        texts, origin = [text for text in self._texts() if text.isVisible()], self._origin
        if origin is None or origin not in texts:
            return False
        lower = (t for t in texts if t.mapToGlobal(QPoint(0, t.height())).y() >= point.y())
        target = next(lower, texts[-1])
        if target is origin and not self._is_wide:
            return False
        here = target.cursorForPosition(target.viewport().mapFromGlobal(point)).position()
        first, last = texts.index(origin), texts.index(target)
        for at, text in enumerate(texts):
            end, anchor = text.document().characterCount() - 1, text.textCursor().anchor()
            before, after = (0, end) if first <= last else (end, 0)
            if not min(first, last) <= at <= max(first, last):
                _select(text, anchor, anchor)
            else:
                anchor = anchor if text is origin else before
                _select(text, anchor, here if text is target else after)
        self._is_wide = first != last
        return True

    def _scroll(self) -> None:
        """Scroll while the mouse selects beyond the edge."""
        if self._area is None or not QGuiApplication.mouseButtons() & Qt.MouseButton.LeftButton:
            self._scrolling.stop()
            return
        point = QCursor.pos()
        y, height = self._area.viewport().mapFromGlobal(point).y(), self._area.viewport().height()
        beyond = min(0, y) + max(0, y - height)
        if beyond:
            bar = self._area.verticalScrollBar()
            bar.setValue(bar.value() + beyond)
            self._extend(point)

    def _show_menu(self, text: Text, event: QContextMenuEvent) -> None:
        menu = QMenu(text)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        copy = menu.addAction(tr("Copy"), text.copy)
        menu.addAction(tr("Select All"), lambda: self.select_all(text))
        menu.addSeparator()
        quote = menu.addAction(tr("Quote"), lambda: self.quote_wanted.emit(self.markdown()))
        for action in (copy, quote):
            action.setEnabled(text.textCursor().hasSelection())
        menu.popup(event.globalPos())

    # Qt

    @override
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        text = watched.parent()
        if not isinstance(text, Text):
            return False
        if isinstance(event, QContextMenuEvent):
            self._show_menu(text, event)
            return True
        if not isinstance(event, QMouseEvent):
            return False
        is_left = event.button() == Qt.MouseButton.LeftButton
        if event.type() == QEvent.Type.MouseButtonPress and is_left:
            # Qt takes a press on selected words for the beginning of a drag
            self.clear(but=None if self._is_wide else text)
            self._origin = text
            self._scrolling.start()
        elif event.type() == QEvent.Type.MouseMove and event.buttons() & Qt.MouseButton.LeftButton:
            return self._extend(event.globalPosition().toPoint())
        elif event.type() == QEvent.Type.MouseButtonRelease and self._is_wide and is_left:
            self._origin = None
        return False


def _select(text: Text, anchor: int, position: int) -> None:
    cursor = text.textCursor()
    if (cursor.anchor(), cursor.position()) != (anchor, position):
        cursor.setPosition(anchor)
        cursor.setPosition(position, QTextCursor.MoveMode.KeepAnchor)
        sideways = text.horizontalScrollBar().value()
        text.setTextCursor(cursor)
        text.horizontalScrollBar().setValue(sideways)


class Row(NamedTuple):
    """Text of a paragraph, or of the cells of a table row."""

    cells: list[str]
    table: object = None
    number: int = 0

    @property
    def is_of_table(self) -> bool:
        """Whether it is a table row."""
        return self.table is not None


def selected_rows(cursor: QTextCursor, formulas: Sequence[str] = ()) -> list[Row]:
    """Return paragraphs and table rows of a selection, with pictures as LaTeX of `formulas`.

    A selection inside a table is the rectangle of cells that Qt paints.
    """
    rows = list[Row]()
    columns, begin, finish = range(0), cursor.selectionStart(), cursor.selectionEnd()
    if cursor.hasComplexSelection():
        cells: tuple[int, int, int, int] = cursor.selectedTableCells()  # type: ignore[assignment]
        row, row_count, column, column_count = cells
        table, columns = cursor.currentTable(), range(column, column + column_count)
        begin = table.cellAt(row, column).firstPosition()
        finish = table.cellAt(row + row_count - 1, columns[-1]).lastPosition()
    inside, block = QTextCursor(cursor), cursor.document().findBlock(begin)
    while block.isValid() and block.position() < finish + bool(columns):
        start, end = block.position(), block.position() + block.length() - 1
        inside.setPosition(max(start, begin))
        table = inside.currentTable()
        inside.setPosition(min(end, finish), QTextCursor.MoveMode.KeepAnchor)
        block = block.next()
        if columns and table and table.cellAt(start).column() not in columns:
            continue
        words = _with_sources(inside, formulas).replace("\u2028", "\n").replace("\xa0", " ")
        number = table.cellAt(start).row() if table else 0
        is_same_row = rows and table and (rows[-1].table, rows[-1].number) == (table, number)
        if is_same_row:
            rows[-1].cells.append(words)
        else:
            rows.append(Row([words], table, number))
    return rows


def _with_sources(cursor: QTextCursor, formulas: Sequence[str]) -> str:
    """Return the selected text with pictures as LaTeX of the document's formulas."""
    words = cursor.selectedText()
    if OBJECT not in words:
        return words
    block, before = cursor.document().findBlock(cursor.selectionStart()), QTextCursor(cursor)
    before.setPosition(block.position())
    before.setPosition(cursor.selectionStart(), QTextCursor.MoveMode.KeepAnchor)
    count = before.selectedText().count(OBJECT)
    while (block := block.previous()).isValid():
        count += block.text().count(OBJECT)
    sources = iter(formulas[count:])
    return re.sub(OBJECT, lambda _: next(sources, ""), words)


def words_of(rows: Iterable[Row]) -> str:
    """Return a line for each row, with tabs between cells."""
    return "\n".join("\t".join(row.cells) for row in rows)


def html_of(rows: Iterable[Row]) -> str:
    """Return HTML of paragraphs and tables without styles."""
    parts, table = list[str](), object()
    for row in rows:
        if row.table != table:
            parts += ["</table>"] * (parts[-1:] == ["</tr>"]) + ["<table>"] * row.is_of_table
        table = row.table
        if row.is_of_table:
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in row.cells)
            parts += ["<tr>", cells, "</tr>"]
        else:
            parts.append(f"<p>{escape(row.cells[0])}</p>")
    return "".join(parts + ["</table>"] * (parts[-1:] == ["</tr>"]))
