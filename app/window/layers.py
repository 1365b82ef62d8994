"""Overlays of the window: model card, drop plan, command palette, error report."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QFont,
    QFontDatabase,
    QGuiApplication,
    QHideEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)
from shiboken6 import isValid
from typing_extensions import override

from app.window.controls.icons import Colour, paint_icon
from app.window.controls.labels import label, paragraph, say
from app.window.controls.layouts import STRETCH, Wide, column, row
from app.window.language import said, tr
from app.window.look import look

CARD_WIDTH = 460

ICONS = {
    "load": "drop_model",
    "heads": "heads",
    "folder": "folder",
    "looking": "file",
    "download": "drop_model",
    "import": "new_chat",
    "attach": "attach",
    "refused": "warning",
}
MARGIN, ROUND = 16, 14
PICTURE = 36


class Layer(QWidget):
    """Covers its parent with a veil.

    It appears at once, since a fade would repaint the whole window at each step.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._covered = parent
        parent.installEventFilter(self)
        self.hide()

    def appear(self) -> None:
        """Cover the parent."""
        self.setGeometry(self._covered.rect())
        self.raise_()
        self.show()

    # Qt

    @override
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self.setGeometry(self._covered.rect())
        return super().eventFilter(watched, event)


class CardLayer(Layer):
    """A card in the middle; a click beside it does nothing. Signal `left`: it was closed."""

    left = Signal()
    _keys_before: QWidget | None = None

    def __init__(self, card: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self._card = card
        card.setFixedWidth(CARD_WIDTH)
        across = row(STRETCH, card, STRETCH)
        column(STRETCH, across, STRETCH, of=self, margins=(16, 16, 16, 16))

    def open(self) -> None:
        """Show the card and focus it; closing it returns the focus."""
        if self.isHidden():
            self._keys_before = self.window().focusWidget()
        self.appear()
        self._card.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        if not self._card.isAncestorOf(self.window().focusWidget()):
            self._card.setFocus()

    # Qt

    @override
    def focusNextPrevChild(self, is_next: bool) -> bool:
        # Tab goes round the card: what is below the veil waits
        start = one = self.focusWidget() or self._card
        while True:
            one = (one.nextInFocusChain() if is_next else one.previousInFocusChain()) or start
            takes_tab = one.focusPolicy() & Qt.FocusPolicy.TabFocus and one.isEnabled()
            takes_tab = takes_tab and one.focusProxy() is None  # of a number, the text in it
            if one is start or (self.isAncestorOf(one) and one.isVisible() and takes_tab):
                reasons = Qt.FocusReason
                one.setFocus(reasons.TabFocusReason if is_next else reasons.BacktabFocusReason)
                return True

    @override
    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if self.isHidden():
            if self._keys_before is not None and isValid(self._keys_before):
                self._keys_before.setFocus()
            self.left.emit()

    @override
    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        with QPainter(self) as painter:
            painter.setBackground(look().colour("side", 0.6))
            painter.eraseRect(self.rect())  # fillRect has Qt make all gradients


@dataclass(frozen=True, slots=True)
class DropPlan:
    """What a drop would do: a title ("Load Qwen3.5-4B") and a line below it."""

    kind: Literal["load", "heads", "folder", "download", "import", "attach", "looking", "refused"]
    title: str
    detail: str = ""


class DropOverlay(Layer):
    """Shows what a drop would do; the window handles the drop."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._plan = DropPlan("refused", "")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName(tr("Drop"))

    def show_plan(self, plan: DropPlan) -> None:
        """Show the overlay with a plan."""
        self._plan = plan = replace(plan, title=said(plan.title), detail=said(plan.detail))
        self.setAccessibleDescription(" ".join(filter(None, (plan.title, plan.detail))))
        self.appear()
        self.update()

    def _colour(self) -> Colour:
        return "error" if self._plan.kind == "refused" else "accent"

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        now, colour = look(), self._colour()
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setBackground(now.colour("page", 0.97))
            painter.eraseRect(self.rect())
            edge = QRectF(self.rect()).adjusted(MARGIN, MARGIN, -MARGIN, -MARGIN)
            painter.setBrush(now.colour(colour, 0.06))
            painter.setPen(QPen(now.colour(colour), 1.5, Qt.PenStyle.DashLine))
            painter.drawRoundedRect(edge, ROUND, ROUND)
            self._paint_words(painter, edge)

    def _paint_words(self, painter: QPainter, edge: QRectF) -> None:
        now, middle = look(), edge.center()
        left, top = round(middle.x() - PICTURE / 2), round(middle.y() - PICTURE - 16)
        place = QRect(left, top, PICTURE, PICTURE)
        paint_icon(painter, place, ICONS[self._plan.kind], self._colour())
        wraps = Qt.AlignmentFlag.AlignHCenter | Qt.TextFlag.TextWordWrap
        font = QFont(self.font())
        font.setPixelSize(now.sizes.title)
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        painter.setPen(now.colour("text"))
        room = QRectF(edge.left() + 32, middle.y(), edge.width() - 64, edge.height() / 2)
        used = painter.boundingRect(room, int(wraps), self._plan.title)
        painter.drawText(room, int(wraps), self._plan.title)
        font.setPixelSize(now.sizes.interface)
        font.setWeight(QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(now.colour("muted"))
        room.setTop(used.bottom() + 8)
        painter.drawText(room, int(wraps), self._plan.detail)


class CrashBox(QDialog):
    """A non-modal box with an unexpected error; further errors are counted."""

    def __init__(self, words: str, details: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Something went wrong in Headstart"))
        self._details = details
        shown = QPlainTextEdit(details)
        shown.setReadOnly(True)
        shown.setProperty("role", "details")
        shown.setAccessibleName(tr("Details"))
        shown.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        shown.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        buttons = QDialogButtonBox()
        self.copy_button = QPushButton(tr("Copy details"))
        self.copy_button.clicked.connect(self.copy)
        close = QPushButton(tr("Close"))
        close.setProperty("role", "primary")
        close.setDefault(True)
        buttons.addButton(self.copy_button, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(close, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        self._others, self._more = 0, paragraph("", "muted")
        self._more.hide()
        lines = (
            label(tr("Something went wrong in Headstart"), "title"),
            paragraph(words),
            self._more,
        )
        column(*lines, Wide(shown), buttons, of=self, margins=(24, 24, 24, 16), spacing=12)
        self.resize(640, 420)

    def count_another(self) -> None:
        """Count another error that happened while the box is open."""
        self._others += 1
        say(
            self._more,
            tr(
                "{others} more since then: Help, Show log file has all of them.",
                others=self._others,
            ),
        )

    def copy(self) -> None:
        """Copy the details to the clipboard."""
        QGuiApplication.clipboard().setText(self._details)
        self.copy_button.setText(tr("Copied"))


WIDTH, HEIGHT = 460, 340
"""Pixels at a zoom of 1."""
FROM_TOP, SPACE = 72, 8
STEPS = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
ACTION = Qt.ItemDataRole.UserRole


def is_subsequence(typed: str, text: str) -> bool:
    """Whether the letters of `typed` occur in `text` in this order."""
    letters = iter(text)
    return all(letter in letters for letter in typed)


def found(typed: str, actions: Iterable[QAction]) -> list[QAction]:
    """Return the actions that match a typed text, the best first.

    First titles that begin with it, then those with a word that does, then those that contain it,
    then those with its letters in order.
    """
    typed = "".join(typed.casefold().split())

    def rank(action: QAction) -> tuple[bool, bool, bool]:
        words = action.text().casefold().split()
        whole, initials = "".join(words), "".join(word[0] for word in words)
        in_pieces = not is_subsequence(typed, initials)
        return not whole.startswith(typed), in_pieces, typed not in whole

    return sorted((a for a in actions if is_subsequence(typed, a.text().casefold())), key=rank)


class Palette(QDialog):
    """The command palette: enabled commands with their shortcuts, filtered by typing."""

    def __init__(self, actions: Iterable[QAction], parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("role", "palette")
        self.setAccessibleName(tr("Command Palette"))
        self._actions = [action for action in actions if action.isEnabled()]
        self._typed, self._found = QLineEdit(), QTreeWidget()
        self._typed.setPlaceholderText(tr("Type a command"))
        self._typed.setAccessibleName(tr("Command"))
        self._found.setAccessibleName(tr("Commands"))
        self._found.setColumnCount(2)
        self._found.setHeaderHidden(True)
        self._found.setRootIsDecorated(False)
        self._found.header().setStretchLastSection(False)
        self._found.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self._found.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self._found.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(self._typed, Wide(self._found), of=self, margins=(SPACE,) * 4, spacing=SPACE)
        self._typed.textChanged.connect(self._find)
        self._typed.returnPressed.connect(self._run)
        self._found.itemClicked.connect(self._run)
        zoom, window = look().zoom, parent.geometry()
        self._highest = min(round(HEIGHT * zoom), window.height() - FROM_TOP - SPACE)
        self.setFixedWidth(min(round(WIDTH * zoom), window.width()))
        self._find("")
        self.move(window.center().x() - self.width() // 2, window.top() + FROM_TOP)
        self.show()
        self._typed.setFocus()

    def _find(self, typed: str) -> None:
        self._found.clear()
        for action in found(typed, self._actions):
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            item = QTreeWidgetItem([action.text(), keys])
            item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight)
            item.setData(0, ACTION, action)
            self._found.addTopLevelItem(item)
        self._select(0)
        self._fit()

    def _fit(self) -> None:
        """Be as high as the commands found, up to the usual height."""
        rows = self._found.topLevelItemCount()
        list_height = rows * max(0, self._found.sizeHintForRow(0)) + 2 * self._found.frameWidth()
        around = self._typed.sizeHint().height() + 3 * SPACE
        self.setFixedHeight(min(self._highest, around + list_height))

    def _select(self, row: int) -> None:
        """Select a row, or the nearest one."""
        item = self._found.topLevelItem(min(max(row, 0), self._found.topLevelItemCount() - 1))
        if item is not None:
            self._found.setCurrentItem(item)

    def _run(self) -> None:
        item = self._found.currentItem()
        if item is not None:
            action = item.data(0, ACTION)
            self.close()
            action.trigger()

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = STEPS.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
        else:
            self._select(self._found.currentIndex().row() + step)
