"""The empty page: what to drop, questions to begin with, recent models, what to get next."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, SignalInstance
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.values.models import FoundModel
from app.window.controls.icons import Sign, icon
from app.window.controls.labels import label, paragraph, say

WIDEST = 560
PICTURE = 28
MOST_RECENT = 4
READY = "The pocket model is ready: ask it, or drop a model of yours here"
DROP = "Drop a model here, or start with the built-in one"


class FirstRunView(QWidget):
    """Signals: `asked`(a question), `chosen`(a recent FoundModel), `open_wanted`,
    `built_in_wanted`.
    """

    asked = Signal(str)
    chosen = Signal(object)
    open_wanted = Signal()
    built_in_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Start")
        self._words = label(DROP, "heading")
        self._built_in = QPushButton("Start with the built-in one")
        self._questions_heading = label("Ask something", "muted")
        self._questions = QVBoxLayout()
        self._recent_heading = label("Recent models", "muted")
        self._recent = QVBoxLayout()
        self._advice_heading = label("What to get next", "muted")
        self._advice = paragraph("", "note")
        page = QWidget()
        page.setMaximumWidth(WIDEST)
        column = QVBoxLayout(page)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(8)
        column.addWidget(label("Headstart", "heading"), 0, Qt.AlignmentFlag.AlignHCenter)
        column.addSpacing(8)
        column.addWidget(self._drop_target())
        for heading, rows in (
            (self._questions_heading, self._questions),
            (self._recent_heading, self._recent),
        ):
            rows.setSpacing(6)
            column.addSpacing(8)
            column.addWidget(heading)
            column.addLayout(rows)
        column.addSpacing(8)
        column.addWidget(self._advice_heading)
        column.addWidget(self._advice)
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(page, 100)
        across.addStretch(1)
        down = QVBoxLayout(self)
        down.addStretch(1)
        down.addLayout(across)
        down.addStretch(1)
        self.show_questions(())
        self.show_recent(())
        self.show_advice("")

    def _drop_target(self) -> QFrame:
        """A dashed frame; the window itself takes the drop."""
        frame = QFrame()
        frame.setProperty("role", "drop")
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._words.setWordWrap(True)
        kinds = label("A .gguf file, or an MLX or Hugging Face folder", "muted")
        kinds.setAlignment(Qt.AlignmentFlag.AlignCenter)
        choose = QPushButton("Open…")
        self._built_in.setProperty("role", "primary")
        choose.setToolTip("Choose a model folder or a .gguf file")
        self._built_in.clicked.connect(self.built_in_wanted)
        choose.clicked.connect(self.open_wanted)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self._built_in)
        row.addWidget(choose)
        row.addStretch(1)
        column = QVBoxLayout(frame)
        column.setContentsMargins(24, 24, 24, 24)
        column.setSpacing(8)
        column.addWidget(Sign("drop_model", "accent", PICTURE), 0, Qt.AlignmentFlag.AlignHCenter)
        column.addWidget(self._words)
        column.addWidget(kinds)
        column.addSpacing(4)
        column.addLayout(row)
        return frame

    def show_questions(self, questions: Sequence[str]) -> None:
        """Questions to begin with, a button each."""
        self._empty(self._questions)
        for text in questions:
            self._add(self._questions, text, "chevron_right", text).connect(
                lambda _=False, text=text: self.asked.emit(text)
            )
        self._questions_heading.setVisible(bool(questions))

    def show_recent(self, entries: Sequence[FoundModel]) -> None:
        """The newest models that can be loaded, a button each."""
        sound = [entry for entry in entries if not entry.problem][:MOST_RECENT]
        self._empty(self._recent)
        for entry in sound:
            words = " · ".join(filter(None, (entry.name, entry.detail)))
            self._add(self._recent, words, "file", str(entry.path)).connect(
                lambda _=False, entry=entry: self.chosen.emit(entry)
            )
        self._recent_heading.setVisible(bool(sound))

    def show_advice(self, words: str) -> None:
        """What to get next for this machine's memory, "" for nothing."""
        say(self._advice, words)
        self._advice_heading.setVisible(bool(words))

    def show_built_in(self, in_use: bool) -> None:
        """Whether the built-in model is the one in use: then it need not be started."""
        self._built_in.setVisible(not in_use)
        self._words.setText(READY if in_use else DROP)

    def _empty(self, rows: QVBoxLayout) -> None:
        while (old := rows.takeAt(0)) is not None:
            widget = old.widget()
            if widget is not None:
                widget.deleteLater()

    def _add(self, rows: QVBoxLayout, words: str, picture: str, tip: str) -> SignalInstance:
        """A row that can be pressed."""
        button = QPushButton(icon(picture, "muted"), words.replace("&", "&&"))
        button.setStyleSheet("text-align: left;")
        button.setToolTip(tip)
        rows.addWidget(button)
        return button.clicked
