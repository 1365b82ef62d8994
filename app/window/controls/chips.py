"""Chips from left to right, line after line."""

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

WIDEST = 360
GAP = 6


class ChipFlow(QWidget):
    """As high as its chips need in its width; `chips` are its children, in their order."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.chips: list[QWidget] = []

    def add(self, chip: QWidget) -> None:
        """One more, at the end."""
        self.chips.append(chip)
        chip.setParent(self)
        chip.show()

    def drop(self, chip: QWidget) -> None:
        """One less."""
        self.chips.remove(chip)
        chip.hide()
        chip.deleteLater()

    def place(self) -> None:
        """Put the chips where they belong, and be as high as they need."""
        x = y = height = 0
        for chip in self.chips:
            wanted = chip.sizeHint()
            width, height = min(wanted.width(), WIDEST, self.width()), wanted.height()
            if x and x + width > self.width():
                x, y = 0, y + height + GAP
            chip.setGeometry(x, y, width, height)
            x += width + GAP
        self.setFixedHeight(y + height)

    # Qt

    def event(self, event: QEvent) -> bool:
        """A chip, or this, has another size."""
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self.place()
        return bool(super().event(event))
