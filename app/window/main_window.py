"""The window's frame: sidebar, pages in the middle, panels at the right, strip at the foot."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from PySide6.QtCore import QByteArray, QEvent, QMimeData, Qt, QTimer, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QFocusEvent,
    QKeyEvent,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QMainWindow, QSplitter, QWidget
from typing_extensions import override

from app.window.controls.layouts import Wide, column, row, scroll_to, stacked
from app.window.look import look

Page = Literal["chat", "library", "compare", "settings"]
Panel = Literal["session", "drafting"]
SIDEBAR_WIDTH, PANEL_WIDTH = 232, 288
"""Default widths in pixels at a zoom of 1."""
NARROWEST_PAGE = 420
NARROWEST_BESIDE_ONE, NARROWEST_CHAT = 300, 384
"""Least pixels at a zoom of 1 of a page beside one side, and of the chat beside a panel that
replaced the sidebar.
"""

WITH_LETTERS = Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.KeypadModifier
SMALLEST, USUAL = (760, 480), (1180, 780)


class MainWindow(QMainWindow):
    """Arranges its parts, folds them away, and passes on what is dragged over it.

    Signals:
        dragged: what hovers over the window: addresses of files and links, and a text, or "".
        drag_left: it does no longer.
        dropped: it was let go here.
        folded: sidebar or right side were shown or hidden, by the user or for want of room.
        typed: a letter that no widget took, on the page of the chat.
        painted: it is seen for the first time, once all in it is painted too.
        closing: the window is about to close.
    """

    dragged = Signal(list, str)
    drag_left = Signal()
    dropped = Signal(list, str)
    folded = Signal()
    typed = Signal(str)
    painted = Signal()
    closing = Signal()

    def __init__(
        self,
        sidebar: QWidget,
        pages: Mapping[Page, QWidget],
        panels: Mapping[Panel, QWidget],
        strip: QWidget,
        notice: QWidget,
    ) -> None:
        """pages share the middle under the notice, panels the right side; the strip is at the foot.

        sidebar_width: as the user wants it, in pixels at a zoom of 1.
        """
        super().__init__()
        self.setWindowTitle("Headstart")
        self.setAcceptDrops(True)
        self.setUnifiedTitleAndToolBarOnMac(True)
        self.setMinimumSize(*SMALLEST)
        self._is_painted = False
        self._sidebar = sidebar
        self._pages, self._page_widgets = stacked(*pages.values()), pages
        self._panels, self._panel_widgets = stacked(*panels.values()), panels
        self._right = QFrame()
        self._right.setProperty("role", "right")
        column(self._panels, of=self._right)
        self._wants_sidebar, self._wants_right = True, False
        self._panel_before_sidebar = self._sidebar_before_page = False
        self._under_drafting = False, False
        middle = QWidget()
        told = column(notice, Wide(self._pages), spacing=0)
        row(Wide(told), self._right, of=middle, spacing=0)
        self.sidebar_width = SIDEBAR_WIDTH
        self._across = QSplitter()
        self._across.setChildrenCollapsible(False)
        self._across.setHandleWidth(0)
        self._across.addWidget(sidebar)
        self._across.addWidget(middle)
        self._across.setStretchFactor(1, 1)
        self._across.splitterMoved.connect(self._keep_width)
        self.body = QWidget()
        foot = QFrame()
        foot.setProperty("role", "foot")
        column(strip, of=foot)
        column(Wide(self._across), foot, of=self.body, spacing=0)
        self.setCentralWidget(self.body)
        self.resize(*USUAL)

    @property
    def page(self) -> Page:
        """The page on show."""
        return next(n for n, w in self._page_widgets.items() if w is self._pages.currentWidget())

    def show_page(self, page: Page) -> None:
        """Show a page in the middle; the panels at the right belong to the chat page.

        The page is hidden while the sides fold, so that it is laid out once.
        """
        self._pages.setHidden(page != self.page)
        self._pages.setCurrentWidget(self._page_widgets[page])
        self._fold()
        self._pages.show()
        self._page_widgets[page].setFocus()

    @property
    def panel(self) -> Panel | None:
        """The panel on show, None if the right side is folded."""
        if not self._wants_right:
            return None
        return next(n for n, w in self._panel_widgets.items() if w is self._panels.currentWidget())

    def show_panel(self, panel: Panel | None) -> None:
        """Show a panel at the right of the chat, None to fold the right side.

        If there is no room for both, the sidebar is folded.
        """
        if panel == "drafting" and self.panel != "drafting":
            self._under_drafting = self._wants_right, self._panel_before_sidebar
        if panel is not None:
            self._pages.setCurrentWidget(self._page_widgets["chat"])
            self._panels.setCurrentWidget(self._panel_widgets[panel])
        self._wants_right = self._panel_before_sidebar = panel is not None
        self._fold()

    def close_drafting(self) -> None:
        """Restore the right side as it was before the Drafting view."""
        self._panels.setCurrentWidget(self._panel_widgets["session"])
        self._wants_right, self._panel_before_sidebar = self._under_drafting
        self._fold()

    def is_shown(self, panel: Panel) -> bool:
        """Whether this panel is on show."""
        return self.panel == panel and not self._right.isHidden()

    @property
    def has_sidebar(self) -> bool:
        """Whether the sidebar is on show."""
        return not self._sidebar.isHidden()

    def show_sidebar(self, wanted: bool) -> None:
        """Unfold the sidebar, even if it leaves the page little room, or fold it."""
        self._wants_sidebar, self._panel_before_sidebar = wanted, False
        self._sidebar_before_page = wanted
        self._fold()

    def state(self) -> bytes:
        """Geometry, panel, and folded sides, for `restore`."""
        panel = 1 + self._panels.currentIndex() if self._wants_right else 0
        flags = bytes([self._wants_sidebar, panel])
        return flags + bytes(self.saveGeometry().data())

    def restore(self, state: bytes) -> None:
        """Restore a `state`; an empty or invalid one changes nothing."""
        if len(state) < 3:
            return
        self._wants_sidebar, self._wants_right = bool(state[0]), bool(state[1])
        if 0 < state[1] <= self._panels.count():
            self._panels.setCurrentIndex(state[1] - 1)
        self.restoreGeometry(QByteArray(state[2:]))
        self._fold()

    def _fold(self) -> None:
        """Hide the sidebar or the panel if it is not wanted or has no room."""
        wants_right = self._wants_right and self.page == "chat"
        most = self.width() - round(NARROWEST_BESIDE_ONE * look().zoom)
        least = self._sidebar.minimumWidth()
        wanted = round(self.sidebar_width * max(1.0, look().zoom))
        sidebar = max(least, min(wanted, most, self._sidebar.maximumWidth()))
        is_tight = least > most
        self._sidebar_before_page &= is_tight
        wants_left = self._wants_sidebar and (self._sidebar_before_page or not is_tight)
        left = sidebar if wants_left else 0
        panel = round(PANEL_WIDTH * max(1.0, look().zoom))  # not all of it shrinks with the text
        has_room = self.width() - left - panel >= NARROWEST_PAGE
        yields = wants_right and not has_room and self._panel_before_sidebar
        beside = self.width() - max(NARROWEST_CHAT, self._pages.minimumSizeHint().width())
        self._right.setFixedWidth(min(panel, beside))
        self._show(self._sidebar, wants_left and not yields)
        self._show(self._right, wants_right and (has_room or yields))
        self._across.setSizes([sidebar, self.width() - sidebar])
        self.folded.emit()

    def _keep_width(self) -> None:
        """Store the width to which the user dragged the sidebar."""
        self.sidebar_width = round(self._sidebar.width() / max(1.0, look().zoom))
        self._fold()

    def _show(self, side: QWidget, wanted: bool) -> None:
        """Show or hide a side; a hidden one loses the focus to the page."""
        loses_keys = not wanted and side.isAncestorOf(self.focusWidget())
        side.setVisible(wanted)
        if loses_keys:
            self._page_widgets[self.page].setFocus()

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            QTimer.singleShot(0, self, self._fold)  # once the sidebar has heard of it too

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._is_painted:
            self._is_painted = True
            QTimer.singleShot(0, self, self.painted.emit)

    @override
    def focusInEvent(self, event: QFocusEvent) -> None:
        # what had the focus is done: hand it on to the page on show
        super().focusInEvent(event)
        self._page_widgets[self.page].setFocus()

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fold()

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        # a letter that no widget took is for the message
        text, held = event.text(), event.modifiers() & ~WITH_LETTERS
        if self.page == "chat" and text.strip() and text.isprintable() and not held:
            self.typed.emit(text)
        else:
            super().keyPressEvent(event)

    @override
    def focusNextPrevChild(self, is_next: bool) -> bool:
        # Qt scrolls only to what was in the same area before
        is_found = super().focusNextPrevChild(is_next)
        focused = self.focusWidget()
        if focused is not None:
            scroll_to(focused)
        return is_found

    @override
    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        # from elsewhere, everything with an address: the plan says what will not be used, and why
        dragged = dragged_from(event.mimeData())
        if event.source() is None and any(dragged):
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            self.dragged.emit(*dragged)

    @override
    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        del event
        self.drag_left.emit()

    @override
    def dropEvent(self, event: QDropEvent) -> None:
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        self.dropped.emit(*dragged_from(event.mimeData()))

    @override
    def closeEvent(self, event: QCloseEvent) -> None:
        self.closing.emit()
        super().closeEvent(event)


class Dragged(NamedTuple):
    """Paths of files and other addresses, or a plain text."""

    addresses: list[str]
    text: str = ""


def dragged_from(data: QMimeData) -> Dragged:
    """Return the paths, links or text of a drag."""
    if data.hasUrls():
        urls = data.urls()
        return Dragged([u.toLocalFile() if u.isLocalFile() else u.toString() for u in urls])
    return Dragged([], data.text() if data.text().strip() else "")
