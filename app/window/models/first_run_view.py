"""The start page of a new chat: composer, questions, and first steps for new users."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QPushButton, QVBoxLayout, QWidget
from typing_extensions import override

from app.state.card import OfferedModel
from app.state.downloads import Downloads
from app.state.hub import HubState
from app.state.known_models import KnownModels
from app.state.models import ModelState
from app.values.models import DownloadFigures, FoundModel
from app.window.controls.icons import IconButton, Sign, icon
from app.window.controls.labels import ShortButton, label, paragraph, say, set_tip, wrapped
from app.window.controls.layouts import STRETCH, Wide, centred, column, row, scrolled
from app.window.language import DRAFTING, PARAMETERS, said, tr
from app.window.look import look
from app.window.models.downloads import DownloadRow
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import Words, join_words, size_words

WIDEST = 680
"""Pixels of a line at a zoom of 1."""
TIGHT = 600
"""Pixels, at a zoom of 1, of a page that shows the first steps and the composer below them."""
PICTURE = 28
MOST_RECENT = 4
QUESTIONS = ("What is Headstart?", "How does drafting work?", "How do I read a file line by line?")
"""In English, which is all that the built-in model understands."""
ABOUT_QUESTIONS = Words("This model is tiny. It knows little and only English.")
TINY = 200_000_000
"""Most parameters of a model that gets the built-in model's questions."""
CODE_NAMES = re.compile(r"code|devstral|starcoder", re.IGNORECASE)
FOR_CODE = (
    Words("Write a function that checks whether a text is a palindrome, with tests."),
    Words("Explain what a race condition is, with a short example in Python."),
    Words("Write a shell script that renames all .jpeg files to .jpg."),
)
FOR_THINKING = (
    Words("A bat and a ball cost $1.10, the bat $1 more than the ball. What does the ball cost?"),
    Words("Plan three days in Rome for two people who love food and hate waiting in line."),
    Words("What are the pros and cons of a four-day workweek?"),
)
FOR_ALL = (
    Words("Explain how vaccines work, for a ten-year-old."),
    Words("Write a friendly email that asks for a later deadline."),
    Words("What can I cook with rice, eggs and spinach?"),
)


def questions_for(model: ModelDescription) -> tuple[str, ...]:
    """Return three questions that suit a model: tiny, for code, able to think, or any other."""
    if model.parameters <= TINY:
        return QUESTIONS
    if CODE_NAMES.search(model.name):
        return FOR_CODE
    return FOR_THINKING if model.can_switch_thinking else FOR_ALL


WELCOME = Words("Chat with language models on this computer.\n{drafting}")
DROP = Words("Drop a model here, or start with the built-in one")


class FirstSteps(QFrame):
    """Three steps for a user without a model: pick one, download it, ask."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.setAccessibleName(tr("First steps"))
        self._skip = IconButton("close", tr("Skip these steps and use the built-in model"))
        self._memory = paragraph("", "muted")
        self._choices = column(spacing=6)
        self._more = QPushButton(tr("Browse Models"))
        self._more.setProperty("role", "link")
        set_tip(self._more, tr("Look for models on Hugging Face"))
        self._progress = column(spacing=6)
        self._waiting = paragraph(
            tr("From huggingface.co, where models are published. Nothing is sent until you click."),
            "muted",
        )
        ask = paragraph(
            tr("The model loads by itself. Until then, a small built-in model answers."), "muted"
        )
        column(
            row(Wide(wrapped(tr("Get a model in three steps"), "heading")), self._skip),
            row(Wide(wrapped(tr("1. Pick a model"), "note")), self._more),
            self._memory,
            self._choices,
            4,
            label(tr("2. Download it"), "note"),
            self._waiting,
            self._progress,
            4,
            label(tr("3. Ask"), "note"),
            ask,
            of=self,
            margins=(16, 12, 12, 16),
            spacing=6,
        )
        self._rows: dict[str, DownloadRow] = {}

    def watch(
        self,
        known: KnownModels,
        models: ModelState,
        offered: OfferedModel,
        downloads: Downloads,
        hub: HubState,
    ) -> None:
        """Offer models for this machine, and load one once it is downloaded."""
        suggestions, usable_bytes = known.suggestions, known.usable_bytes
        self._downloads, self._offered, self._hub = downloads, offered, hub
        self._links = {one.link for one in suggestions}
        words = tr(
            "These fit in the memory this computer has for models ({size}).",
            size=size_words(usable_bytes),
        )
        self._memory.setText(words)
        for one in suggestions:
            tip = tr("Download {name}. B stands for billions of parameters.", name=one.name)
            button = row_button(
                join_words((one.name, one.detail)), "drop_model", f"{tip}\n{tr(PARAMETERS)}"
            )
            button.clicked.connect(lambda _=False, one=one: downloads.resume(one.link))
            self._choices.addWidget(button)
        self._more.clicked.connect(hub.browse)
        self._skip.clicked.connect(known.end_first_use)
        downloads.changed.connect(self._refresh)
        downloads.completed.connect(lambda figures: self._load(models, figures))
        self._refresh()

    def _load(self, models: ModelState, figures: DownloadFigures) -> None:
        if not self.isHidden() and figures.key in self._links:
            models.load(figures.path)

    def _refresh(self) -> None:
        figures = [one for one in self._downloads.figures if one.key in self._links]
        for key in self._rows.keys() - {one.key for one in figures}:
            self._rows.pop(key).deleteLater()
        for one in figures:
            if one.key not in self._rows:
                self._rows[one.key] = DownloadRow(self._downloads, self._offered, self._hub)
                self._progress.addWidget(self._rows[one.key])
            self._rows[one.key].show_figures(one)
        self._waiting.setVisible(not figures)


class FirstRunView(QWidget):
    """The start page. open: button of the command that opens a model."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Start"))
        self._built_in = QPushButton(tr("Start with the built-in one"))
        self.open = QPushButton(tr("Open…"))
        self._about_questions = paragraph("", "muted")
        self._questions = column(spacing=6)
        self._shown_questions: tuple[str, ...] = ()
        self._recent_heading = label(tr("Recent models"), "muted")
        self._recent = column(spacing=6)
        self._title = wrapped("", "title")
        self._about = paragraph("", "muted")
        for words in (self._title, self._about):
            words.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._target = self._drop_target(Sign("drop_model", "accent", PICTURE))
        self._steps = FirstSteps()
        self._place, self._foot = column(), column(margins=(24, 8, 24, 0))
        self._composer: QWidget | None = None
        self._page = page = QWidget()
        first = (self._title, self._about, 8, self._target, self._steps, 8, self._place, 4)
        ask = (self._about_questions, self._questions)
        recent = (8, self._recent_heading, self._recent)
        column(*first, *ask, *recent, of=page, margins=(24, 24, 24, 24), spacing=8)
        body = QWidget()
        column(STRETCH, centred(page), STRETCH, of=body)
        self._area = scrolled(body)
        column(Wide(self._area), self._foot, of=self, spacing=0)

    def show_questions(self, questions: tuple[str, ...]) -> None:
        """Show a button for each question."""
        if questions == self._shown_questions:
            return
        self._shown_questions = questions
        say(self._about_questions, ABOUT_QUESTIONS if questions == QUESTIONS else "")
        empty(self._questions)
        for text in map(said, questions):
            button = row_button(text, "chevron_right", text)
            button.clicked.connect(lambda _=False, text=text: self._ask(text))
            self._questions.addWidget(button)
        self._order()

    def _order(self) -> None:
        """Set the tab order from top to bottom."""
        places = (
            rows.itemAt(at)
            for rows in (self._questions, self._recent)
            for at in range(rows.count())
        )
        rows = [place.widget() for place in places if place]
        composer = self._composer.findChildren(QWidget) if self._composer else ()
        parts = (*self._steps.findChildren(QWidget), *composer, *rows)
        stops = (part for part in parts if part.focusPolicy() & Qt.FocusPolicy.TabFocus)
        for before, after in pairwise(stops):
            self.setTabOrder(before, after)

    def watch(
        self,
        known: KnownModels,
        models: ModelState,
        offered: OfferedModel,
        downloads: Downloads,
        hub: HubState,
        ask: Callable[[str], object],
    ) -> None:
        """Show the model in use and recent ones, or the first steps. ask: sends a question."""
        self._known, self._models, self._offered, self._ask = known, models, offered, ask
        self._steps.watch(known, models, offered, downloads, hub)
        self._built_in.clicked.connect(self._use_built_in)
        for changed in (known.changed, models.changed):
            changed.connect(self._refresh)
        self._refresh()

    def _drop_target(self, sign: Sign) -> QFrame:
        """Make the dashed frame that invites to drop a model; the window handles the drop."""
        frame = QFrame()
        frame.setProperty("role", "drop")
        words = paragraph(DROP, "heading")
        words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        kinds = paragraph(tr("A .gguf file, or an MLX or Hugging Face folder"), "muted")
        kinds.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._built_in.setProperty("role", "primary")
        set_tip(self.open, tr("Choose a model folder or a .gguf file"))
        buttons = row(STRETCH, self._built_in, self.open, STRETCH)
        lines = column(
            sign, words, kinds, 4, buttons, of=frame, margins=(24, 24, 24, 24), spacing=8
        )
        lines.setAlignment(sign, Qt.AlignmentFlag.AlignHCenter)
        return frame

    def _use_built_in(self) -> None:
        self._models.load(None)
        self.window().setFocus()

    def _refresh(self) -> None:
        models = self._models
        resting = models.resting
        if models.description is not None:
            self.show_questions(questions_for(models.description))
        elif models.loading is None:
            self.show_questions(FOR_ALL)
        name = models.model_name or (resting.name if resting else "")
        is_first = self._known.is_first_use
        self._title.setText(tr("Welcome to Headstart") if is_first else name)
        self._title.setVisible(is_first or bool(name))
        say(self._about, tr(WELCOME, drafting=DRAFTING) if is_first else "")
        is_empty = not name and models.loading is None
        self._target.setVisible(is_empty)
        self._built_in.setVisible(is_empty)
        loses_focus = not is_first and self._steps.isAncestorOf(self.window().focusWidget())
        self._steps.setVisible(is_first)
        self._fit_composer()
        if loses_focus:
            self.window().setFocus()
        self._show_recent(self._known.recent)

    def _show_recent(self, entries: Sequence[FoundModel]) -> None:
        """Show buttons for the newest models that can be loaded."""
        sound = [entry for entry in entries if not entry.problem][:MOST_RECENT]
        empty(self._recent)
        for entry in sound:
            words = said(join_words((entry.name, entry.detail)))
            button = row_button(words, "file", str(entry.path))
            path = str(entry.path)
            button.clicked.connect(lambda _=False, path=path: self._offered.offer(path))
            self._recent.addWidget(button)
        self._recent_heading.setVisible(bool(sound))
        self._order()

    def place_composer(self, composer: QWidget) -> None:
        """Put the composer in the middle of the page, or below it where it would be out of view."""
        self._composer = composer
        is_tight = self._steps.isVisibleTo(self) and self.height() < TIGHT * look().zoom
        place = self._foot if is_tight else self._place
        if place.indexOf(composer) < 0:
            place.addWidget(composer)
            self._area.verticalScrollBar().setValue(0)
        self._order()

    def _fit_composer(self) -> None:
        """Move the composer where it belongs; another page may have it."""
        composer = self._composer
        if composer is None or not self.isAncestorOf(composer):
            return
        focused = self.window().focusWidget()
        has_focus = focused is not None and composer.isAncestorOf(focused)
        self.place_composer(composer)
        if has_focus and focused is not None:
            focused.setFocus()

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._page.setMaximumWidth(round(WIDEST * look().zoom))
            self._fit_composer()

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_composer()


def empty(rows: QVBoxLayout) -> None:
    """Remove all buttons."""
    while (old := rows.takeAt(0)) is not None:
        widget = old.widget()
        if widget is not None:
            widget.deleteLater()


def row_button(words: str, picture: str, tip: str) -> ShortButton:
    """Make a button as wide as the page."""
    button = ShortButton()
    words = said(words)
    button.show_text(words)
    button.setAccessibleName(words)
    set_tip(button, tip)
    button.setStyleSheet("text-align: left;")
    button.setIcon(icon(picture, "muted"))
    return button
