"""Whether the model thinks before it answers: as its template has it, on, or off."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.window.controls.choices import Option, Segments
from app.window.controls.labels import label

OPTIONS = (Option("model", "Model's way"), Option("on", "On"), Option("off", "Off"))
VALUES: dict[str, bool | None] = {"model": None, "on": True, "off": False}


class ThinkingField(QWidget):
    """Signal `changed`(bool | None): from the next answer on; None is the template's own way."""

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._choice = Segments("Thinking")
        self._choice.show_options(OPTIONS)
        self._choice.chosen.connect(lambda value: self.changed.emit(VALUES[value]))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(4)
        column.addWidget(label("Thinking", "muted"))
        column.addWidget(self._choice)
        self.show_thinking(None)

    def show_thinking(self, thinking: bool | None) -> None:
        """Show a chat's setting; nothing is emitted."""
        self._choice.select(next(name for name, value in VALUES.items() if value is thinking))
