"""What goes wrong: said in the notice, written to the log, shown in full to who asks for it."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Qt

from app.control.chat import ChatController
from app.start.mistakes import Mistakes
from app.window.controls.notice_bar import NoticeBar
from app.window.layers import CrashBox
from app.window.main_window import MainWindow
from mlx_engine.values.words import joined


class TroubleController(QObject):
    """Others tell it in words; why a question was not asked is said until one is, a mistake of ours
    until it is dismissed.
    """

    def __init__(
        self,
        notice: NoticeBar,
        window: MainWindow,
        mistakes: Mistakes,
        chats: ChatController,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._notice, self._window, self._mistakes = notice, window, mistakes
        self._of_a_question = ""
        chats.failed.connect(self._tell_of_a_question)
        chats.stored.connect(lambda _: notice.withdraw(self._of_a_question))
        notice.details_wanted.connect(lambda details: self._show(notice.words(), details))
        mistakes.made.connect(self._show)

    def tell(self, words: str, details: str = "") -> None:
        """What went wrong, in the notice and the log."""
        self._mistakes.note(f"{words}\n{details}" if details else words)
        self._notice.say(words, details, is_problem=True)

    def tell_of_the_start(self, notes: Sequence[str]) -> None:
        """What was found when files were opened: on show until it is dismissed."""
        if notes:
            self._mistakes.note("\n".join(notes))
            self._notice.say(joined(notes, " "), stays=True)

    def _tell_of_a_question(self, words: str, details: str) -> None:
        if not details:
            self._of_a_question = words
        self.tell(words, details)

    def _show(self, words: str, details: str) -> None:
        """One box at a time, which counts the others."""
        open_now = [box for box in self._window.findChildren(CrashBox) if box.isVisible()]
        if open_now:
            open_now[0].count_another()
        else:
            box = CrashBox(words, details, self._window)
            box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            box.show()
