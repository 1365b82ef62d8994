"""A layout that wraps its widgets like words."""

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem


class FlowLayout(QLayout):
    """Left to right, then the next line; `gap` pixels between."""

    def __init__(self, gap: int) -> None:
        super().__init__()
        self._gap = gap
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)

    def _place(self, rect: QRect, moves: bool) -> int:
        """Lay the items out within a width, moving them or not; returns the height needed."""
        x, y, line = rect.left(), rect.top(), 0
        for item in self._items:
            size = item.sizeHint().boundedTo(item.maximumSize())
            width = min(size.width(), rect.width())
            if x > rect.left() and x + width > rect.left() + rect.width():
                x, y, line = rect.left(), y + line + self._gap, 0
            if moves:
                item.setGeometry(QRect(QPoint(x, y), QSize(width, size.height())))
            x += width + self._gap
            line = max(line, size.height())
        return y + line - rect.top()

    # Qt

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802
        """Keep it."""
        self._items.append(item)

    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """One of them."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Give one back."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802
        """None."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """Narrower is higher."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """How high."""
        return self._place(QRect(0, 0, width, 0), moves=False)

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802
        """Lay out."""
        super().setGeometry(rect)
        self._place(rect, moves=True)

    def sizeHint(self) -> QSize:  # noqa: N802
        """The least there must be."""
        return self.minimumSize()

    def minimumSize(self) -> QSize:  # noqa: N802
        """The largest item."""
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size
