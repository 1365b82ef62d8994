"""Layouts: columns and rows of widgets, stacks, flows of chips, groups that fold."""

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
    return row(SPARE, Wide(widget), SPARE, spacing=0)


class _Stack(QStackedWidget):
    """Qt's own lays out all pages, those that nobody sees too, to be as large as the largest."""

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
    """One of them at a time."""
    stack = _Stack()
    for page in pages:
        stack.addWidget(page)
    return stack


def named(name: str, *widgets: QWidget) -> QWidget:
    """Controls under a small heading, which has the tooltip of the first of them."""
    block, heading = QWidget(), wrapped(name, "muted")
    heading.setToolTip(widgets[0].toolTip())
    column(heading, *widgets, of=block, spacing=4)
    return block


def scrolled(body: QWidget) -> QScrollArea:
    """Scrolls what has not enough room; the keys go to what is in it."""
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(body)
    overlay_bar(area)
    return area


def scroll_to(widget: QWidget) -> None:
    """Bring a widget into view in the scroll area that it is in, if it is in one."""
    around: QWidget | None = widget
    while around and not isinstance(around, QScrollArea):
        around = around.parentWidget()
    if isinstance(around, QScrollArea) and widget.isVisible():
        around.ensureWidgetVisible(widget)


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

    @override
    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self.place()
        return bool(super().event(event))


class Group(QWidget):
    """A column below a heading with a chevron that folds it. name: the heading in English."""

    def __init__(self, title: str, is_open: bool = True, what: str = "") -> None:
        """what: the group in a sentence. Words are shown in the window's language."""
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
        """Emitted when it is unfolded or folded away."""
        return self._heading.toggled

    @property
    def is_open(self) -> bool:
        """Whether its controls are on show."""
        return self._heading.isChecked()

    def open(self, is_open: bool) -> None:
        """Unfold or fold away."""
        self._heading.setChecked(is_open)

    def add(self, *items: Item) -> None:
        """Put controls at the end."""
        for item in items:
            add(self._column, item)

    def _fold(self, is_open: bool) -> None:
        self._body.setVisible(is_open)
        state = tr("open") if is_open else tr("folded away")
        self._heading.setAccessibleDescription(". ".join(filter(None, (state, self._what))))
        self._heading.setIcon(icon("chevron_down" if is_open else "chevron_right", "muted"))
