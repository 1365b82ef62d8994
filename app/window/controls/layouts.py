"""Widgets in columns and rows, said as they are read: from the top, from the left."""

from typing import NamedTuple

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.window.controls.labels import wrapped


class Wide(NamedTuple):
    """Takes `share` of the room that is left; without an item the room stays empty."""

    item: QWidget | QLayout | None = None
    share: int = 1


STRETCH = Wide()
SPARE = Wide(share=0)
"""Takes the room that nothing wide beside it takes, such as what is hidden now."""
Item = QWidget | QLayout | Wide | int
"""An int is that many pixels of nothing."""
Margins = tuple[int, int, int, int]
"""Pixels at the left, the top, the right and the bottom."""


def column(
    *items: Item,
    of: QWidget | None = None,
    margins: Margins = (0, 0, 0, 0),
    spacing: int | None = None,
) -> QVBoxLayout:
    """From top to bottom. of: the widget that this fills. spacing: None for that around it."""
    layout = QVBoxLayout()
    _fill(layout, items, of, margins, spacing)
    return layout


def row(
    *items: Item,
    of: QWidget | None = None,
    margins: Margins = (0, 0, 0, 0),
    spacing: int | None = None,
) -> QHBoxLayout:
    """From left to right, else as `column`."""
    layout = QHBoxLayout()
    _fill(layout, items, of, margins, spacing)
    return layout


def _fill(
    layout: QBoxLayout,
    items: tuple[Item, ...],
    of: QWidget | None,
    margins: Margins,
    spacing: int | None,
) -> None:
    if of is not None:
        of.setLayout(layout)
    layout.setContentsMargins(*margins)
    if spacing is not None:
        layout.setSpacing(spacing)
    for item in items:
        add(layout, item)


def add(layout: QBoxLayout, item: Item) -> None:
    """Put one more at the end."""
    what, share = item if isinstance(item, Wide) else (item, 0)
    if isinstance(what, QWidget):
        layout.addWidget(what, share)
    elif isinstance(what, QLayout):
        layout.addLayout(what, share)
    elif what is None:
        layout.addStretch(share)
    else:
        layout.addSpacing(what)


def centred(widget: QWidget) -> QHBoxLayout:
    """In the middle, as wide as it may be."""
    return row(STRETCH, Wide(widget, 100), STRETCH)


class _Stack(QStackedWidget):
    """Qt's own lays out all pages, those that nobody sees too, to be as large as the largest."""

    # Qt

    def sizeHint(self) -> QSize:
        """That of the page on show."""
        page = self.currentWidget()
        return page.sizeHint() if page else super().sizeHint()

    def minimumSizeHint(self) -> QSize:
        """That of the page on show."""
        page = self.currentWidget()
        return page.minimumSizeHint() if page else super().minimumSizeHint()

    def hasHeightForWidth(self) -> bool:
        """Pages take the height that there is."""
        return False


def stacked(*pages: QWidget) -> QStackedWidget:
    """One of them at a time."""
    stack = _Stack()
    for page in pages:
        stack.addWidget(page)
    return stack


def named(name: str, *widgets: QWidget) -> QWidget:
    """Controls under a small heading."""
    block = QWidget()
    column(wrapped(name, "muted"), *widgets, of=block, spacing=4)
    return block


def scrolled(body: QWidget) -> QScrollArea:
    """Scrolls what has not enough room; the keys go to what is in it."""
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(body)
    return area
