"""Covers the window while something is dragged over it, and says what letting go would do."""

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.window.icons import pixmap
from app.window.models.model_values import DropPlan
from app.window.motion import fade_in
from app.window.theme import Theme, TypeSizes

ICONS = {
    "load": "drop_model",
    "heads": "heads",
    "folder": "folder",
    "looking": "file",
    "download": "drop_model",
    "attach": "attach",
    "refused": "warning",
}
MARGIN, ROUND = 16, 14
PICTURE = 36


class DropOverlay(QWidget):
    """Lies over its parent; the parent takes the drop, this only shows the plan."""

    def __init__(self, theme: Theme, sizes: TypeSizes, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme, self._sizes = theme, sizes
        self._plan = DropPlan("refused", "")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName("Drop")
        self.hide()
        parent.installEventFilter(self)

    def show_plan(self, plan: DropPlan) -> None:
        """Cover the window and say what will happen."""
        self._plan = plan
        self.setAccessibleDescription(" ".join(filter(None, (plan.title, plan.detail))))
        self._cover()
        appears = self.isHidden()
        self.raise_()
        self.show()
        self.update()
        if appears:
            fade_in(self)

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes."""
        self._theme, self._sizes = theme, sizes
        self.update()

    def _cover(self) -> None:
        parent = self.parentWidget()
        if parent is not None:
            self.setGeometry(parent.rect())

    def _colour(self) -> str:
        return self._theme.error if self._plan.kind == "refused" else self._theme.accent

    # Qt

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follow the size of what is covered."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._cover()
        return super().eventFilter(watched, event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        """Veil, dashed border, icon, title, detail."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        veil = QColor(self._theme.page)
        veil.setAlphaF(0.97)
        painter.fillRect(self.rect(), veil)
        edge = QRectF(self.rect()).adjusted(MARGIN, MARGIN, -MARGIN, -MARGIN)
        tint = QColor(self._colour())
        tint.setAlphaF(0.06)
        painter.setBrush(tint)
        painter.setPen(QPen(QColor(self._colour()), 1.5, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(edge, ROUND, ROUND)
        self._paint_words(painter, edge)
        painter.end()

    def _paint_words(self, painter: QPainter, edge: QRectF) -> None:
        picture = pixmap(ICONS[self._plan.kind], self._colour(), PICTURE, self.devicePixelRatioF())
        middle = edge.center()
        painter.drawPixmap(
            round(middle.x() - PICTURE / 2), round(middle.y() - PICTURE - 16), picture
        )
        wraps = Qt.AlignmentFlag.AlignHCenter | Qt.TextFlag.TextWordWrap
        font = QFont(self.font())
        font.setPixelSize(round(self._sizes.interface * 1.45))
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        painter.setPen(QColor(self._theme.text))
        room = QRectF(edge.left() + 32, middle.y(), edge.width() - 64, edge.height() / 2)
        used = painter.boundingRect(room, int(wraps), self._plan.title)
        painter.drawText(room, int(wraps), self._plan.title)
        font.setPixelSize(self._sizes.interface)
        font.setWeight(QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(QColor(self._theme.muted))
        room.setTop(used.bottom() + 8)
        painter.drawText(room, int(wraps), self._plan.detail)
