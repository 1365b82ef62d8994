"""Layouts: columns, rows, stacks, flows of chips, and foldable groups."""

from typing import NamedTuple

from PySide6.QtCore import QEvent, QSize, Qt, SignalInstance
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from app.window.controls.icons import icon
from app.window.controls.labels import set_tip, wrapped
from app.window.controls.scroll_bar import overlay_bar
from app.window.language import said, tr


class Wide(NamedTuple):
    """An item that takes `share` of the spare room; without an item the room stays empty."""

    item: QWidget | QLayout | None = None
    share: int = 1


STRETCH = Wide()
SPARE = Wide(share=0)
"""Takes room that nothing else takes, as when widgets are hidden."""
Item = QWidget | QLayout | Wide | int
"""A widget or layout; an int is that many pixels of space."""
Margins = tuple[int, int, int, int]
"""Pixels at the left, top, right and bottom."""


def column(
    *items: Item,
    of: QWidget | None = None,
    margins: Margins = (0, 0, 0, 0),
    spacing: int | None = None,
) -> QVBoxLayout:
    """Arrange items from top to bottom. of: the parent widget. spacing: None for the default."""
    layout = QVBoxLayout()
    _fill(layout, items, of, margins, spacing)
    return layout


def row(
    *items: Item,
    of: QWidget | None = None,
    margins: Margins = (0, 0, 0, 0),
    spacing: int | None = None,
) -> QHBoxLayout:
    """Arrange items from left to right; arguments as in `column`."""
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
    """Append an item to a layout."""
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
    """Centre a widget at its maximum width."""
    return row(SPARE, Wide(widget), SPARE, spacing=0)


class _Stack(QStackedWidget):
    """A stacked layout that ignores hidden pages; Qt's makes room for the largest."""

    # Qt

    @override
    def sizeHint(self) -> QSize:
        # of the page on show: Qt takes the largest of all pages
        page = self.currentWidget()
        return page.sizeHint() if page else super().sizeHint()

    @override
    def minimumSizeHint(self) -> QSize:
        page = self.currentWidget()
        return page.minimumSizeHint() if page else super().minimumSizeHint()

    @override
    def hasHeightForWidth(self) -> bool:
        return False


def stacked(*pages: QWidget) -> QStackedWidget:
    """Make a stack of pages, one of which is shown."""
    stack = _Stack()
    for page in pages:
        stack.addWidget(page)
    return stack


def named(name: str, *widgets: QWidget) -> QWidget:
    """Put controls below a small heading with the tooltip of the first one."""
    block, heading = QWidget(), wrapped(name, "muted")
    heading.setToolTip(widgets[0].toolTip())
    column(heading, *widgets, of=block, spacing=4)
    return block


def scrolled(body: QWidget) -> QScrollArea:
    """Put a widget into a scroll area that passes the focus on to it."""
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(body)
    overlay_bar(area)
    return area


def scroll_to(widget: QWidget) -> None:
    """Scroll a widget into view, if it is in a scroll area."""
    around: QWidget | None = widget
    while around and not isinstance(around, QScrollArea):
        around = around.parentWidget()
    if isinstance(around, QScrollArea) and widget.isVisible():
        around.ensureWidgetVisible(widget)


WIDEST = 440
GAP = 6


class ChipFlow(QWidget):
    """A flow layout of `chips`, as high as they need."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.chips: list[QWidget] = []

    def add(self, chip: QWidget) -> None:
        """Append a chip."""
        self.chips.append(chip)
        chip.setParent(self)
        chip.show()

    def drop(self, chip: QWidget) -> None:
        """Remove a chip."""
        self.chips.remove(chip)
        chip.hide()
        chip.deleteLater()

    def place(self) -> None:
        """Lay out the chips and set the height."""
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

    @override
    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self.place()
        return bool(super().event(event))


class Group(QWidget):
    """A column below a heading that folds it. name: the heading in English."""

    def __init__(self, title: str, is_open: bool = True, what: str = "") -> None:
        """what: explanation of the group. Words are translated."""
        super().__init__()
        self.name, self._what = title, said(what)
        self._heading = QToolButton()
        self._heading.setText(said(title))
        self._heading.setAccessibleName(said(title))
        set_tip(self._heading, self._what)
        self._heading.setProperty("role", "group")
        self._heading.setCheckable(True)
        self._heading.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._heading.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._heading.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._heading.toggled.connect(self._fold)
        self._body = QWidget()
        self._column = column(of=self._body, margins=(0, 4, 0, 8), spacing=8)
        column(self._heading, self._body, of=self, spacing=0)
        self._heading.setChecked(is_open)
        self._fold(is_open)

    @property
    def folded(self) -> SignalInstance:
        """Signal: it was folded or unfolded."""
        return self._heading.toggled

    @property
    def is_open(self) -> bool:
        """Whether it is unfolded."""
        return self._heading.isChecked()

    def open(self, is_open: bool) -> None:
        """Unfold or fold it."""
        self._heading.setChecked(is_open)

    def add(self, *items: Item) -> None:
        """Append controls."""
        for item in items:
            add(self._column, item)

    def _fold(self, is_open: bool) -> None:
        self._body.setVisible(is_open)
        state = tr("open") if is_open else tr("folded away")
        self._heading.setAccessibleDescription(". ".join(filter(None, (state, self._what))))
        self._heading.setIcon(icon("chevron_down" if is_open else "chevron_right", "muted"))
