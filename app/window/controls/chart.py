"""What charts share: colours of the look of now, a small font, and words for screen readers."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.window.look import look


class Chart(QWidget):
    """A picture painted from values; subclasses paint in `draw` and put it in words in `words`."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def height_wanted(self) -> int:
        """Pixels the chart needs now."""
        return 48

    def words(self) -> str:
        """The chart in a sentence."""
        return ""

    def refresh(self) -> None:
        """After new values: paint, and tell assistive technology."""
        self.setAccessibleDescription(self.words())
        self.updateGeometry()
        self.update()

    def draw(self, painter: QPainter) -> None:
        """Paint into the widget's rectangle."""

    def colour(self, name: str, opacity: float = 1.0) -> QColor:
        """The theme's colour of this name."""
        return look().colour(name, opacity)

    # Qt

    def sizeHint(self) -> QSize:  # noqa: N802
        """As high as the values need."""
        return QSize(260, self.height_wanted())

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Narrower is fine, lower is not."""
        return QSize(120, self.height_wanted())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Paint antialiased in the small font."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(look().small_font())
        painter.setPen(Qt.PenStyle.NoPen)
        self.draw(painter)
        painter.end()
