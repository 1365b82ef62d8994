"""Colours, text size and motion."""

from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QWidget

from app.values.app_settings import AppSettings
from app.window.controls.choices import Option, Segments
from app.window.controls.labels import label, tabular
from app.window.controls.tick import Tick

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
