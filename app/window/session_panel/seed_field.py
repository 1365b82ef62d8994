"""The seed: a fresh one for every answer, or one that is locked."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.window.controls.icons import IconButton
from app.window.controls.labels import paragraph, say
from app.window.controls.number_field import NumberField, NumberKind

FIRST = 1
"""What locking takes before any answer was given."""


class SeedField(QWidget):
    """Signal `changed`(int | None): a seed to lock, None for a fresh one each time."""

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._last: int | None = None
        self._number = NumberField(
            "Seed", NumberKind(int, 1, "fresh"), "The same seed and settings give the same words"
        )
        self._lock = IconButton("unlock", "")
        self._lock.setCheckable(True)
        self._note = paragraph("", "muted")
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(self._number, 1)
        row.addWidget(self._lock, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(row)
        column.addWidget(self._note)
        self._number.changed.connect(self.changed)
        self._lock.clicked.connect(self._toggle)
        self.show_seed(None)

    def show_seed(self, seed: int | None) -> None:
        """Show a locked seed, None for fresh; nothing is emitted."""
        is_locked = seed is not None
        self._number.show_number(seed)
        self._lock.setChecked(is_locked)
        words = "Locked: draw a fresh seed for each answer" if is_locked else "Lock the seed"
        self._lock.show_icon("lock" if is_locked else "unlock", words)
        self._say_last(is_locked)

    def show_last(self, seed: int | None) -> None:
        """The seed of the newest answer."""
        self._last = seed
        self._say_last(self._lock.isChecked())

    def show_problem(self, words: str) -> None:
        """Say what is wrong with the seed."""
        self._number.show_problem(words)

    def _toggle(self, is_locked: bool) -> None:
        last = FIRST if self._last is None else self._last
        self.changed.emit(last if is_locked else None)

    def _say_last(self, is_locked: bool) -> None:
        is_news = self._last is not None and not is_locked
        say(self._note, f"The last answer used {self._last}." if is_news else "")
