"""A button that is an icon, with words for tooltip and screen reader."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QToolButton

from app.window.icons import ICON, icon
from app.window.theme import Theme, TypeSizes

ON_ACCENT = "primary"


class IconButton(QToolButton):
    """`name` is a picture of assets/icons; role "primary" draws it on the accent colour."""

    def __init__(
        self, name: str, words: str, theme: Theme, sizes: TypeSizes, role: str = ""
    ) -> None:
        super().__init__()
        self._name = name
        self._theme, self._sizes = theme, sizes
        self.setProperty("role", role)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonIconOnly)
        self.show_icon(name, words)

    def show_icon(self, name: str, words: str) -> None:
        """Become another button."""
        self.setToolTip(words)
        self.setAccessibleName(words)
        if name != self._name or self.icon().isNull():
            self._name = name
            self.set_theme(self._theme, self._sizes)

    def icon_name(self) -> str:
        """The picture on show."""
        return self._name

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes."""
        self._theme, self._sizes = theme, sizes
        colour = theme.on_accent if self.property("role") == ON_ACCENT else theme.text
        size = icon_size(sizes)
        self.setIcon(icon(self._name, colour, size, disabled=theme.text))
        self.setIconSize(QSize(size, size))


def icon_size(sizes: TypeSizes) -> int:
    """Icons grow with the interface's text."""
    return round(ICON * sizes.interface / TypeSizes().interface)
