"""Notices: problems in the window, and system notifications of long answers."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject, Qt, SignalInstance
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from app.start.crash_log import CrashLog
from app.state.answers import Answers
from app.state.chat import ChatState
from app.state.running_answer import RunningAnswer
from app.state.settings import KeptSettings
from app.window.controls.icons import app_icon
from app.window.controls.notice_bar import NoticeBar
from app.window.language import said, tr
from app.window.layers import CrashBox
from app.window.main_window import MainWindow
from app.window.transcript.markdown_text import plain_text
from app.worker.replies import Problem
from mlx_engine.values.words import join_words

LONG_S = 10.0
"""Seconds from which an answer counts as long."""
MOST = 120
"""Characters of an answer that a notification shows."""


class SystemNotice(QObject):
    """Shows a system notification with a tray icon, which stays while it is news."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._icon: QSystemTrayIcon | None = None
        self._open: Callable[[], object] = lambda: None
        application = QGuiApplication.instance()
        assert isinstance(application, QGuiApplication)
        application.applicationStateChanged.connect(self._look)

    def show(self, title: str, words: str, open_it: Callable[[], object]) -> None:
        """Show a notification once. open_it: called for a click on it."""
        self._open = open_it
        QApplication.alert(self._window)
        if QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages():
            icon = self._icon or self._made()
            icon.show()
            icon.showMessage(title, words, app_icon())

    def _made(self) -> QSystemTrayIcon:
        icon = self._icon = QSystemTrayIcon(app_icon(), self)
        icon.messageClicked.connect(self._take_up)
        icon.activated.connect(self._take_up)
        return icon

    def _take_up(self) -> None:
        self._open()

    def _look(self, state: Qt.ApplicationState) -> None:
        """Hide the icon when the user returns to the window."""
        if self._icon is not None and state == Qt.ApplicationState.ApplicationActive:
            self._icon.hide()


def is_elsewhere() -> bool:
    """Whether another program is in the foreground."""
    return QGuiApplication.applicationState() != Qt.ApplicationState.ApplicationActive


class NotificationController(QObject):
    """Notifies the user of a long answer that ends while another program is in front."""

    def __init__(
        self,
        notice: SystemNotice,
        answers: Answers,
        settings: KeptSettings,
        title_of: Callable[[int], str],
        open_chat: Callable[[int], object],
        parent: QObject | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        is_elsewhere: Callable[[], bool] = is_elsewhere,
    ) -> None:
        super().__init__(parent)
        self._notice, self._answers, self._settings = notice, answers, settings
        self._title_of, self._open_chat = title_of, open_chat
        self._clock, self._is_elsewhere = clock, is_elsewhere
        self._since: dict[int, float] = {}
        answers.changed.connect(self._watch)
        answers.ended.connect(self._end)

    def _watch(self) -> None:
        now = self._clock()
        self._since = {chat: self._since.get(chat, now) for chat in self._answers.chat_ids}

    def _end(self, answer: RunningAnswer, problem: Problem | None) -> None:
        now = self._clock()
        took = now - self._since.get(answer.chat_id, now)
        if took < LONG_S or not self._settings.value.notify or not self._is_elsewhere():
            return
        text = " ".join(plain_text(answer.answer.text[: 2 * MOST]).split())
        start = text if len(text) <= MOST else f"{text[: MOST - 1]}…"
        words = said(problem.words) if problem else start or tr("The answer has ended.")
        open_chat = partial(self._open_chat, answer.chat_id)
        self._notice.show(self._title_of(answer.chat_id), words, open_chat)


class TroubleController(QObject):
    """Shows problems in the notice bar, as long as they last.

    Why a question was not sent is shown until one is sent or another chat is opened; a bug until it
    is dismissed.
    """

    def __init__(
        self,
        notice: NoticeBar,
        window: MainWindow,
        crash_log: CrashLog,
        chat: ChatState,
        answers: Answers,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._notice, self._window, self._crash_log = notice, window, crash_log
        self._of_a_question = ""
        chat.failed.connect(self._tell_of_a_question)
        answers.ended.connect(self._tell_of_a_bug)
        for is_over in (chat.stored, chat.opened):
            is_over.connect(lambda _: notice.withdraw(self._of_a_question))
        notice.details_wanted.connect(lambda details: self._show(notice.words(), details))
        crash_log.made.connect(self._show)

    def tell(
        self,
        words: str,
        details: str = "",
        *,
        stays: bool = False,
        until: SignalInstance | None = None,
    ) -> None:
        """Show a problem in the notice bar, until the signal `until` if given, and log it."""
        self._crash_log.note(f"{words}\n{details}" if details else words)
        self._notice.say(words, details, is_problem=True, stays=stays, until=until)

    def tell_of_the_start(self, notes: Sequence[str]) -> None:
        """Show notes about files opened at the start, until they are dismissed."""
        if notes:
            self._crash_log.note("\n".join(notes))
            self._notice.say(join_words(notes, " "), stays=True)

    def _tell_of_a_question(self, words: str) -> None:
        self._notice.withdraw(self._of_a_question)
        self._of_a_question = words
        self.tell(words, stays=True)

    def _tell_of_a_bug(self, _: RunningAnswer, problem: Problem | None) -> None:
        if problem is not None and problem.kind == "bug":
            self._notice.withdraw(self._of_a_question)
            self.tell(problem.words, problem.details)

    def _show(self, words: str, details: str) -> None:
        """Show an error box, or count the error in the one that is open."""
        open_now = [box for box in self._window.findChildren(CrashBox) if box.isVisible()]
        if open_now:
            open_now[0].count_another()
        else:
            box = CrashBox(words, details, self._window)
            box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            box.show()
