"""A group of controls under a heading that folds it away."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.window.controls.icon_button import icon_size
from app.window.icons import icon
from app.window.motion import fade_in
from app.window.theme import Theme, TypeSizes


class Group(QWidget):
    """Heading with a chevron, and a column below it; add to it with `add`.

    Signal `folded`(bool): it was unfolded or folded away.
    """

    folded = Signal(bool)

    def __init__(self, title: str, theme: Theme, sizes: TypeSizes, is_open: bool = True) -> None:
        super().__init__()
        self._theme, self._sizes = theme, sizes
        self._heading = QToolButton()
        self._heading.setText(title)
        self._heading.setAccessibleName(title)
        self._heading.setProperty("role", "group")
        self._heading.setCheckable(True)
        self._heading.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._heading.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._heading.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._heading.toggled.connect(self._fold)
        self._body = QWidget()
        self._column = QVBoxLayout(self._body)
        self._column.setContentsMargins(0, 4, 0, 8)
        self._column.setSpacing(8)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self._heading)
        outer.addWidget(self._body)
        self._heading.setChecked(is_open)
        self._fold(is_open)

    @property
    def is_open(self) -> bool:
        """Whether its controls are on show."""
        return self._heading.isChecked()

    @property
    def title(self) -> str:
        """Its heading."""
        return self._heading.text()

    def open(self, is_open: bool) -> None:
        """Unfold or fold away."""
        self._heading.setChecked(is_open)

    def add(self, widget: QWidget) -> None:
        """Put a control at the end."""
        self._column.addWidget(widget)

    def add_row(self, row: QLayout) -> None:
        """Put controls side by side at the end."""
        self._column.addLayout(row)

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes."""
        self._theme, self._sizes = theme, sizes
        name = "chevron_down" if self.is_open else "chevron_right"
        size = icon_size(sizes)
        self._heading.setIcon(icon(name, theme.muted, size))
        self._heading.setIconSize(QSize(size, size))

    def _fold(self, is_open: bool) -> None:
        self._body.setVisible(is_open)
        if is_open:
            fade_in(self._body)
        self._heading.setAccessibleDescription("open" if is_open else "folded away")
        self.set_theme(self._theme, self._sizes)
        self.folded.emit(is_open)
