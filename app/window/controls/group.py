"""A group of controls under a heading that folds it away."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QToolButton, QWidget

from app.window.controls.icons import icon
from app.window.controls.layouts import Item, add, column
from app.window.language import said, tr


class Group(QWidget):
    """Heading with a chevron, and a column below it; add to it with `add`. `name` is the heading,
    with what it belongs to where that needs saying.

    Signal `folded`(bool): it was unfolded or folded away.
    """

    folded = Signal(bool)

    def __init__(self, title: str, is_open: bool = True, of: str = "") -> None:
        """of: the group that this one is within. Words are shown in the window's language."""
        super().__init__()
        self.name = " ".join(filter(None, (title, of)))
        self._heading = QToolButton()
        self._heading.setText(said(title))
        self._heading.setAccessibleName(" ".join(filter(None, (said(title), said(of)))))
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
        self._heading.setAccessibleDescription(tr("open") if is_open else tr("folded away"))
        self._heading.setIcon(icon("chevron_down" if is_open else "chevron_right", "muted"))
        self.folded.emit(is_open)
