"""One side of a comparison: its speed, its figures and its text."""

from typing import NamedTuple

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QTextEdit

from app.window.controls.chart import Part, ShareBar
from app.window.controls.labels import paragraph, tabular
from app.window.controls.layouts import Wide, column
from app.window.look import look
from mlx_engine.values.stats import GenerationStats

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


class ComparePane(QFrame):
    """Text and speed as they come; is_strong: its bar is in the accent colour."""

    def __init__(self, title: str, is_strong: bool) -> None:
        super().__init__()
        self._title, self._colour = title, "accent" if is_strong else "muted"
        self.speed, self._is_due = 0.0, False
        self.setProperty("role", "card")
        self.setAccessibleName(title)
        self._speed, self._figures = paragraph("", "figure"), paragraph("", "muted")
        for figures in (self._speed, self._figures):
            tabular(figures)
        self._bar = ShareBar(f"{title}: speed")
        self._text = ComparedText(f"{title}: answer")
        heading = paragraph(title, "heading")
        parts = (heading, self._speed, self._bar, self._figures, 6, Wide(self._text))
        column(*parts, of=self, margins=(16, 12, 16, 12), spacing=6)
        self._enter("Not run yet", is_due=False)

    def begin(self) -> None:
        """It runs now."""
        self._text.start_again()
        self._enter("Reading the prompt", is_due=True)

    def wait(self) -> None:
        """It runs after the other one."""
        self._text.start_again()
        self._enter("Runs next", is_due=True)

    def add_text(self, text: str, is_thinking: bool = False) -> None:
        """More of the answer, or of the thinking before it."""
        if self._figures.text() != "Running":
            self._say("", "Running")
        self._text.add(text, is_thinking)

    def text(self) -> str:
        """Thinking and answer so far."""
        return self._text.said

    def show_speed(self, tokens_per_second: float) -> None:
        """Speed so far."""
        self.speed = tokens_per_second
        self._say(f"{tokens_per_second:.1f} tok/s", self._figures.text())

    def show_share(self, fastest: float) -> None:
        """The bar, beside the faster side's speed."""
        share = self.speed / fastest if fastest else 0.0
        self._bar.show_parts(self._speed.text(), Part(share, self._colour))

    def mark_from(self, character: int | None) -> None:
        """Where the other side says something else; None for nowhere."""
        self._text.mark_from(character)

    def finish(self, stats: GenerationStats) -> None:
        """The answer is complete."""
        self._is_due, self.speed = False, stats.tokens_per_second
        self._say(f"{stats.tokens_per_second:.1f} tok/s", figures_in_words(stats))

    def end(self, words: str) -> None:
        """Stopped or failed; a side that is complete stays as it is."""
        if self._is_due:
            self._enter(words, is_due=False)

    def _enter(self, words: str, is_due: bool) -> None:
        self._is_due, self.speed = is_due, 0.0
        self._say("", words)
        self.show_share(0.0)

    def _say(self, speed: str, figures: str) -> None:
        self._speed.setText(speed)
        self._figures.setText(figures)
        said = ", ".join(filter(None, (self._title, speed, figures)))
        self.setAccessibleDescription(said)


def figures_in_words(stats: GenerationStats) -> str:
    """ "212 tokens · 2.91 tok/pass · 82 % of drafts accepted (174/212)"."""
    parts = [f"{stats.generated_tokens:,} tokens", f"{stats.tokens_per_pass:.2f} tok/pass"]
    if stats.drafted:
        share = f"{100 * stats.acceptance:.0f} %"
        parts.append(f"{share} of drafts accepted ({stats.accepted:,}/{stats.drafted:,})")
    return " · ".join(parts)
