"""The text of one side: its thinking fainter than its answer, a difference marked."""

from typing import NamedTuple

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QTextEdit

from app.window.look import look

AFTER_THINKING = "\n\n"
MARKED = 0.16
"""Opacity of the error colour behind what differs."""


class Thought(NamedTuple):
    """Where a piece of thinking stands, in positions of the document."""

    start: int
    end: int


class ComparedText(QPlainTextEdit):
    """Grows at its end; `said` is all of it, as it is compared."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._from: int | None = None
        self._is_thinking = False
        self._thoughts: list[Thought] = []
        self.said = ""
        self.setProperty("role", "plain")
        self.setAccessibleName(name)
        self.setReadOnly(True)
        self.setAcceptDrops(False)
        self.viewport().setAcceptDrops(False)
        self.document().setDocumentMargin(0)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )

    def start_again(self) -> None:
        """Nothing has been said."""
        self.clear()
        self._thoughts.clear()
        self.said, self._is_thinking = "", False
        self.mark_from(None)

    def add(self, text: str, is_thinking: bool) -> None:
        """More of it; the view follows unless the user scrolled up."""
        if self._is_thinking and not is_thinking:
            text = AFTER_THINKING + text
        self._is_thinking = is_thinking
        self.said += text
        bar = self.verticalScrollBar()
        follows = bar.value() >= bar.maximum() - 1
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        start = cursor.position()
        cursor.insertText(text, self._format(is_thinking))
        if is_thinking:
            self._thoughts.append(Thought(start, cursor.position()))
        if follows:
            bar.setValue(bar.maximum())

    def mark_from(self, character: int | None) -> None:
        """Mark what stands at and after this character of `said`; None for nothing."""
        if character is None and self._from is None:
            return
        self._from = character
        if character is None:
            self.setExtraSelections([])
            return
        cursor = QTextCursor(self.document())
        cursor.setPosition(len(self.said[:character].encode("utf-16-le")) // 2)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        marked = QTextEdit.ExtraSelection()
        marked.cursor = cursor
        marked.format.setBackground(look().colour("error", MARKED))
        self.setExtraSelections([marked])

    def _format(self, is_thinking: bool) -> QTextCharFormat:
        shape = QTextCharFormat()
        if is_thinking:
            shape.setForeground(look().colour("muted"))
            shape.setFontItalic(True)
        return shape

    # Qt

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """What is painted in colours of its own takes those of now."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self.said:
            self.mark_from(self._from)
            for start, end in self._thoughts:
                cursor = QTextCursor(self.document())
                cursor.setPosition(start)
                cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
                cursor.setCharFormat(self._format(is_thinking=True))
