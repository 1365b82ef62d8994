"""The settings page: how the window looks, and what a new chat begins with."""

from dataclasses import replace

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.values.app_settings import AppSettings
from app.values.chat_settings import ChatSettings, as_preset
from app.window.controls.choices import Option, Segments, Tick
from app.window.controls.fields import TextField
from app.window.controls.labels import label, paragraph, tabular
from app.window.look import look
from app.window.session_panel.draft_group import DraftGroup
from app.window.session_panel.sampling_group import SamplingGroup
from app.window.session_panel.thinking_field import ThinkingField
from mlx_engine.values.options import Numerics

COLOURS = (Option("system", "As the system"), Option("light", "Light"), Option("dark", "Dark"))


class AppearanceSection(QWidget):
    """Signals: `changed`(AppSettings), and `zoom_wanted`(int) in steps, 0 for the normal size."""

    changed = Signal(object)
    zoom_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._shown = AppSettings()
        self._colours = Segments("Colours")
        self._colours.show_options(COLOURS)
        self._size = label()
        tabular(self._size)
        self.setFocusProxy(self._colours)
        self._drafted = Tick("Tint drafted words by the depth that drafted them")
        self._motion = Tick("Reduce motion: panels appear at once")
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(12)
        grid.setColumnStretch(1, 1)
        _add_row(grid, 0, "Colours", self._colours)
        _add_row(grid, 1, "Text size", self._size_row())
        grid.addWidget(self._drafted, 2, 1)
        grid.addWidget(self._motion, 3, 1)
        self._colours.chosen.connect(lambda value: self._take(theme=value))
        self._drafted.clicked.connect(lambda is_on: self._take(show_drafted=is_on))
        self._motion.clicked.connect(lambda is_on: self._take(reduce_motion=is_on))
        self.show_appearance(self._shown)

    def _size_row(self) -> QWidget:
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(8)
        for words, step in (("Smaller", -1), ("Larger", 1), ("Normal", 0)):
            button = QPushButton(words)
            button.setAccessibleName(f"{words} text" if step else "Normal text size")
            button.clicked.connect(lambda _=False, step=step: self.zoom_wanted.emit(step))
            line.addWidget(button)
        line.addWidget(self._size)
        line.addStretch(1)
        return row

    def show_appearance(self, settings: AppSettings) -> None:
        """Show what holds now; nothing is emitted."""
        self._shown = settings
        self._colours.select(settings.theme)
        self._size.setText(f"{100 * settings.text_zoom:.0f} %")
        self._size.setAccessibleName(f"Text size {100 * settings.text_zoom:.0f} %")
        self._drafted.setChecked(settings.show_drafted)
        self._motion.setChecked(settings.reduce_motion)

    def _take(self, **changes: object) -> None:
        self._shown = replace(self._shown, **changes)  # type: ignore[arg-type]
        self.changed.emit(self._shown)


def _add_row(grid: QGridLayout, row: int, name: str, widget: QWidget) -> None:
    words: QLabel = label(name)
    grid.addWidget(words, row, 0)
    grid.addWidget(widget, row, 1)


EXPLANATION = (
    "A new chat begins with these; chats you have keep their own. Sampling that is left as it is "
    "here becomes what the model recommends."
)


class NewChatSection(QWidget):
    """Signal `changed`(ChatSettings): the user wants new chats to begin with these."""

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._shown = ChatSettings()
        self._system = TextField("System prompt of new chats", 4, "How to answer in every new chat")
        self._thinking = ThinkingField()
        self._draft = DraftGroup(shows_effect=False)
        self._sampling = SamplingGroup()
        self._reset = QPushButton("Back to Headstart's own defaults")
        last = QHBoxLayout()
        last.addWidget(self._reset)
        last.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addWidget(paragraph(EXPLANATION, "muted"))
        for part in (self._system, self._thinking, self._draft, self._sampling):
            column.addWidget(part)
        column.addLayout(last)
        self._system.changed.connect(lambda text: self._take(system=text))
        self._thinking.changed.connect(lambda thinking: self._take(thinking=thinking))
        self._draft.changed.connect(lambda draft: self._take(draft=draft))
        self._draft.numerics_changed.connect(self._take_numerics)
        self._sampling.sampling_changed.connect(lambda options: self._take(sampling=options))
        self._sampling.generation_changed.connect(lambda options: self._take(generation=options))
        self._reset.clicked.connect(self._take_own)
        self.show_settings(self._shown)

    def show_settings(self, settings: ChatSettings) -> None:
        """Show what new chats begin with now; nothing is emitted."""
        self._shown = settings
        self._system.show_text(settings.system)
        self._thinking.show_thinking(settings.thinking)
        self._draft.show_settings(settings.draft, settings.load.numerics)
        self._sampling.show_settings(settings.sampling, settings.generation)
        self._reset.setEnabled(as_preset(settings) != ChatSettings())

    def _take(self, **changes: object) -> None:
        self._shown = replace(self._shown, **changes)  # type: ignore[arg-type]
        self._reset.setEnabled(as_preset(self._shown) != ChatSettings())
        self.changed.emit(self._shown)

    def _take_numerics(self, numerics: Numerics) -> None:
        self._take(load=replace(self._shown.load, numerics=numerics))

    def _take_own(self) -> None:
        self.show_settings(ChatSettings())
        self.changed.emit(self._shown)


WIDEST = 620
"""Pixels of a line of settings at a zoom of 1."""


class SettingsView(QWidget):
    """Arranges `appearance` and `new_chat`; the owner shows values in them and hears them."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Settings")
        self.appearance = AppearanceSection()
        self.new_chat = NewChatSection()
        self._lines = QWidget()
        self._sections = QVBoxLayout(self._lines)
        self._sections.setContentsMargins(24, 0, 24, 24)
        self._sections.setSpacing(12)
        self._sections.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self._scrolled(), 1)
        self.add_section("Appearance", self.appearance)
        self.add_section("New chats", self.new_chat)
        self.setFocusProxy(self.appearance)
        self._fit()

    def _fit(self) -> None:
        self._lines.setMaximumWidth(round(WIDEST * look().zoom))

    def _scrolled(self) -> QScrollArea:
        """The lines, no wider than reads well."""
        body = QWidget()
        row = QHBoxLayout(body)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._lines, 100)
        row.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(body)
        return scroll

    def add_section(self, title: str, section: QWidget) -> None:
        """One more at the end, such as the models' folders."""
        section.setAccessibleName(title)
        at = self._sections.count() - 1
        self._sections.insertSpacing(at, 8)
        self._sections.insertWidget(at + 1, label(title, "heading"))
        self._sections.insertWidget(at + 2, section)

    # Qt

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Lines are as wide as the text wants them."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()
