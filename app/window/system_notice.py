"""What the system shows for us to a user who looks elsewhere."""

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from app.window.controls.icons import app_icon


class SystemNotice(QObject):
    """Asks for attention to a window, and shows words where the system can.

    The icon that the words come from is there only as long as they are news.
    Signal `clicked`: the user wants what it was about.
    """

    clicked = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._icon: QSystemTrayIcon | None = None
        application = QGuiApplication.instance()
        assert isinstance(application, QGuiApplication)
        application.applicationStateChanged.connect(self._look)

    def show(self, title: str, words: str) -> None:
        """Tell the user, once."""
        QApplication.alert(self._window)
        if QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages():
            icon = self._icon or self._made()
            icon.show()
            icon.showMessage(title, words, app_icon())

    def _made(self) -> QSystemTrayIcon:
        icon = self._icon = QSystemTrayIcon(app_icon(), self)
        icon.messageClicked.connect(self.clicked)
        icon.activated.connect(self.clicked)
        return icon

    def _look(self, state: Qt.ApplicationState) -> None:
        """Who is here has seen it."""
        if self._icon is not None and state == Qt.ApplicationState.ApplicationActive:
            self._icon.hide()


def is_elsewhere() -> bool:
    """Whether the user looks at another program."""
    return QGuiApplication.applicationState() != Qt.ApplicationState.ApplicationActive
