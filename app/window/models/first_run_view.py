"""The page of a new chat: model name, composer, suggestions; without a model, a drop zone."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QVBoxLayout, QWidget

from app.state.models import ModelState
from app.values.models import FoundModel
from app.window.controls.icons import Sign, icon
from app.window.controls.labels import ShortButton, label, paragraph, say, set_tip
from app.window.controls.layouts import STRETCH, centred, column, row, scrolled
from app.window.language import tr
from app.window.look import look
from mlx_engine.values.words import Words, joined

WIDEST = 680
"""Pixels of a line at a zoom of 1."""
PICTURE = 28
MOST_RECENT, MOST_QUESTIONS = 4, 3
DROP = Words("Drop a model here, or start with the built-in one")


class FirstRunView(QWidget):
    """open, get: buttons of others, to open a model and to look for one.

    Signals: `asked`(a question), `chosen`(a recent FoundModel).
    """

    _models: ModelState

    asked = Signal(str)
    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Start"))
        self._built_in = QPushButton(tr("Start with the built-in one"))
        self.open = QPushButton(tr("Open…"))
        self._questions = column(spacing=6)
        self._recent_heading = label(tr("Recent models"), "muted")
        self._recent = column(spacing=6)
        self._advice_heading = label(tr("Get a better model"), "muted")
        self._advice = paragraph("", "note")
        self.get = row_button(tr("Browse Models"), "library", tr("Look for models on Hugging Face"))
        self._title = label("", "title")
        self._title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._target = self._drop_target(Sign("drop_model", "accent", PICTURE))
        self._place = column()
        self._page = page = QWidget()
        recent = (8, self._recent_heading, self._recent)
        advice = (8, self._advice_heading, self._advice, self.get)
        first = (self._title, self._target, 8, self._place, 4, self._questions)
        column(*first, *recent, *advice, of=page, margins=(24, 24, 24, 24), spacing=8)
        body = QWidget()
        column(STRETCH, centred(page), STRETCH, of=body)
        column(scrolled(body), of=self)
        self.show_questions(())
        self.show_recent(())
        self.show_advice("")
        self.show_model("")

    def _drop_target(self, sign: Sign) -> QFrame:
        """A dashed frame; the window itself takes the drop."""
        frame = QFrame()
        frame.setProperty("role", "drop")
        words = paragraph(DROP, "heading")
        words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        kinds = paragraph(tr("A .gguf file, or an MLX or Hugging Face folder"), "muted")
        kinds.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._built_in.setProperty("role", "primary")
        set_tip(self.open, tr("Choose a model folder or a .gguf file"))
        self._built_in.clicked.connect(self._use_built_in)
        buttons = row(STRETCH, self._built_in, self.open, STRETCH)
        lines = column(
            sign, words, kinds, 4, buttons, of=frame, margins=(24, 24, 24, 24), spacing=8
        )
        lines.setAlignment(sign, Qt.AlignmentFlag.AlignHCenter)
        return frame

    def watch(self, models: ModelState) -> None:
        """Show the name of the model in use."""
        self._models = models
        models.changed.connect(lambda: self.show_model(models.model_name))

    def _use_built_in(self) -> None:
        self._models.load(None)
        self.window().setFocus()

    def show_questions(self, questions: Sequence[str]) -> None:
        """The first questions to begin with, a button each."""
        empty(self._questions)
        for text in questions[:MOST_QUESTIONS]:
            button = row_button(text, "chevron_right", text)
            button.clicked.connect(lambda _=False, text=text: self.asked.emit(text))
            self._questions.addWidget(button)

    def show_recent(self, entries: Sequence[FoundModel]) -> None:
        """The newest models that can be loaded, a button each."""
        sound = [entry for entry in entries if not entry.problem][:MOST_RECENT]
        empty(self._recent)
        for entry in sound:
            words = joined((entry.name, entry.detail))
            button = row_button(words, "file", str(entry.path))
            button.clicked.connect(lambda _=False, entry=entry: self.chosen.emit(entry))
            self._recent.addWidget(button)
        self._recent_heading.setVisible(bool(sound))

    def show_advice(self, words: str) -> None:
        """What to get next for this machine's memory, "" for nothing."""
        say(self._advice, words)
        self._advice_heading.setVisible(bool(words))
        self.get.setVisible(bool(words))

    def show_model(self, name: str) -> None:
        """The name of the model in use, which can be asked at once; "" for no model."""
        self._title.setText(name)
        self._title.setVisible(bool(name))
        self._target.setVisible(not name)
        self._built_in.setVisible(not name)

    def place_composer(self, composer: QWidget) -> None:
        """Put the composer in the middle of the page."""
        self._place.addWidget(composer)

    # Qt

    def changeEvent(self, event: QEvent) -> None:
        """Lines are as wide as the text wants them."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._page.setMaximumWidth(round(WIDEST * look().zoom))


def empty(rows: QVBoxLayout) -> None:
    """Take every button away."""
    while (old := rows.takeAt(0)) is not None:
        widget = old.widget()
        if widget is not None:
            widget.deleteLater()


def row_button(words: str, picture: str, tip: str) -> ShortButton:
    """A row of words that can be pressed."""
    button = ShortButton()
    button.show_text(words)
    button.setAccessibleName(words)
    set_tip(button, tip)
    button.setStyleSheet("text-align: left;")
    button.setIcon(icon(picture, "muted"))
    return button
