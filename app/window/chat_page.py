"""The middle of the window: the model's line, notices, the transcript or a start page, composer."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from app.window.composer.composer import Composer
from app.window.head_bar import HeadBar
from app.window.models.first_run_view import FirstRunView
from app.window.notice_bar import NoticeBar
from app.window.transcript.transcript_view import TranscriptView

WIDEST = 800
SIDE = 20


class ChatPage(QWidget):
    """Arranges its parts; `show_start` chooses between the start page and the transcript."""

    def __init__(
        self,
        head: HeadBar,
        notice: NoticeBar,
        start: FirstRunView,
        transcript: TranscriptView,
        composer: Composer,
    ) -> None:
        super().__init__()
        self._start, self._transcript = start, transcript
        self._middle = QStackedWidget()
        self._middle.addWidget(start)
        self._middle.addWidget(transcript)
        composer.setMaximumWidth(WIDEST)
        foot = QHBoxLayout()
        foot.setContentsMargins(SIDE, 0, SIDE, 16)
        foot.addStretch(1)
        foot.addWidget(composer, 100)
        foot.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(head)
        column.addWidget(notice)
        column.addWidget(self._middle, 1)
        column.addLayout(foot)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def show_start(self, is_empty: bool) -> None:
        """The start page for a chat without messages."""
        self._middle.setCurrentWidget(self._start if is_empty else self._transcript)
