"""One side of a comparison: its figures and its text."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QProgressBar, QVBoxLayout

from app.window.controls.labels import label, tabular
from mlx_engine.values.stats import GenerationStats


class ComparePane(QFrame):
    """Text as it comes, speed when it is done."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self.setProperty("role", "card")
        self.setAccessibleName(title)
        self._speed = label("", "figure")
        self._figures = label("", "muted")
        for figures in (self._speed, self._figures):
            tabular(figures)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 0)
        self._bar.setAccessibleName(f"{title}: running")
        self._text = QPlainTextEdit()
        self._text.setProperty("role", "plain")
        self._text.setAccessibleName(f"{title}: answer")
        self._text.setReadOnly(True)
        self._text.setAcceptDrops(False)
        self._text.viewport().setAcceptDrops(False)
        self._text.document().setDocumentMargin(0)
        self._text.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._text.setFrameShape(QFrame.Shape.NoFrame)
        self._text.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        top = QHBoxLayout()
        top.addWidget(label(title, "heading"), 1)
        top.addWidget(self._speed)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(4)
        column.addLayout(top)
        column.addWidget(self._figures)
        column.addWidget(self._bar)
        column.addSpacing(4)
        column.addWidget(self._text, 1)
        self.clear()

    def clear(self) -> None:
        """Nothing has run."""
        self._text.clear()
        self._say("", "Not run yet")
        self._bar.hide()

    def begin(self) -> None:
        """It runs now."""
        self._text.clear()
        self._say("", "Running")
        self._bar.show()

    def wait(self) -> None:
        """It runs after the other one."""
        self._text.clear()
        self._say("", "Runs next")
        self._bar.hide()

    def add_text(self, text: str) -> None:
        """More of the answer; the view follows unless the user scrolled up."""
        bar = self._text.verticalScrollBar()
        follows = bar.value() >= bar.maximum() - 1
        cursor = QTextCursor(self._text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text)
        if follows:
            bar.setValue(bar.maximum())

    def text(self) -> str:
        """The answer so far."""
        return self._text.toPlainText()

    def finish(self, stats: GenerationStats) -> None:
        """The answer is complete."""
        self._say(f"{stats.tokens_per_second:.1f} tok/s", figures_in_words(stats))
        self._bar.hide()

    def end(self, words: str) -> None:
        """It ended without figures: stopped or failed."""
        if self._bar.isVisibleTo(self) or self._figures.text() == "Runs next":
            self._say("", words)
        self._bar.hide()

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
