"""The text of one side: its thinking fainter than its answer, a difference marked."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QTextEdit

from app.window.theme import Theme, TypeSizes

AFTER_THINKING = "\n\n"
MARKED = 0.16
"""Opacity of the error colour behind what differs."""


class ComparedText(QPlainTextEdit):
    """Grows at its end; `said` is all of it, as it is compared."""

    def __init__(self, name: str, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._from: int | None = None
        self._is_thinking = False
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
        cursor.insertText(text, self._format(is_thinking))
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
        tint = QColor(self._theme.error)
        tint.setAlphaF(MARKED)
        marked = QTextEdit.ExtraSelection()
        marked.cursor = cursor
        marked.format.setBackground(tint)
        self.setExtraSelections([marked])

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours; thinking that is there keeps its own until the next run."""
        del sizes
        self._theme = theme
        self.mark_from(self._from)

    def _format(self, is_thinking: bool) -> QTextCharFormat:
        shape = QTextCharFormat()
        shape.setForeground(QColor(self._theme.muted if is_thinking else self._theme.text))
        shape.setFontItalic(is_thinking)
        return shape
