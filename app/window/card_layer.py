"""A card in the middle of the window over a veil."""

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.window.motion import fade_in
from app.window.theme import Theme, TypeSizes

WIDTH = 460
VEIL = 0.6


class CardLayer(QWidget):
    """Covers its parent while it is shown; a click beside the card does nothing on purpose."""

    def __init__(self, card: QWidget, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._card = card
        card.setFixedWidth(WIDTH)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 16)
        column.addWidget(card, 0, Qt.AlignmentFlag.AlignCenter)
        parent.installEventFilter(self)
        self.hide()

    def open(self) -> None:
        """Show the card and give it the keys."""
        self._cover()
        self.raise_()
        appears = self.isHidden()
        self.show()
        if appears:
            fade_in(self)
        self._card.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._card.setFocus()

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours."""
        del sizes
        self._theme = theme
        self.update()

    def _cover(self) -> None:
        parent = self.parentWidget()
        if parent is not None:
            self.setGeometry(parent.rect())

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follow the size of what is covered."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._cover()
        return super().eventFilter(watched, event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Nothing below the veil is clicked."""
        event.accept()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """The veil."""
        del event
        veil = QColor(self._theme.side)
        veil.setAlphaF(VEIL)
        painter = QPainter(self)
        painter.fillRect(self.rect(), veil)
        painter.end()
