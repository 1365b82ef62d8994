"""What the charts share: theme colours, a small font, and words for screen readers."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.window.theme import Theme, TypeSizes


class Chart(QWidget):
    """A picture painted from values; subclasses paint in `draw` and put it in words in `words`."""

    def __init__(self, theme: Theme, sizes: TypeSizes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme = theme
        self.sizes = sizes
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes."""
        self.theme, self.sizes = theme, sizes
        self.updateGeometry()
        self.update()

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
        """A "#RRGGBB" colour with an opacity."""
        colour = QColor(name)
        colour.setAlphaF(opacity)
        return colour

    def small_font(self) -> QFont:
        """Font of labels and figures; figures keep their width."""
        font = QFont(self.font())
        font.setPixelSize(self.sizes.small)
        font.setFeature(QFont.Tag("tnum"), 1)
        return font

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
        painter.setFont(self.small_font())
        painter.setPen(Qt.PenStyle.NoPen)
        self.draw(painter)
        painter.end()
