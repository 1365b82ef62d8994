"""All widgets of the window, made once and put in their places."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QWidget
from typing_extensions import override

from app.window.chat_page import ChatPage, TopBar
from app.window.compare_view import CompareView
from app.window.composer import Composer
from app.window.controls.fields import on_key
from app.window.controls.icons import IconButton
from app.window.controls.labels import label
from app.window.controls.layouts import Wide, column, row
from app.window.controls.notice_bar import NoticeBar
from app.window.drafting_view import DraftingView, StatusStrip
from app.window.language import tr
from app.window.layers import CardLayer, DropOverlay
from app.window.main_window import MainWindow
from app.window.models.first_run_view import FirstRunView
from app.window.models.library_view import LibraryView
from app.window.models.model_card_view import ModelCardView
from app.window.session_panel.session_panel import SessionPanel
from app.window.settings_view import SettingsView
from app.window.sidebar.sidebar import Sidebar
from app.window.transcript.transcript_view import TranscriptView


class Titled(QFrame):
    """A page or panel under its title, with a button to close it; Escape presses the button."""

    def __init__(
        self, title: str, content: QWidget, close_words: str, is_page: bool = True
    ) -> None:
        super().__init__()
        self.close_button = close = IconButton("close", close_words)
        top = QWidget()
        line = row(of=top, margins=(24, 8, 12, 8) if is_page else (16, 8, 8, 4))
        column(top, Wide(content), of=self, spacing=0)
        line.addWidget(label(title, "title" if is_page else "heading"), 1)
        line.addWidget(close)  # after the content, so that Tab comes by it last
        self.setFocusProxy(content)
        if is_page:
            on_key(self, Qt.Key.Key_Escape)  # it would stop an answer that is not on show

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close_button.click()
        else:
            super().keyPressEvent(event)


class Widgets:
    """All widgets of the window, made and laid out."""

    def __init__(self) -> None:
        back = tr("Back to the chat")
        self.sidebar, self.strip = Sidebar(), StatusStrip()
        self.head, self.notice, self.start = TopBar(), NoticeBar(), FirstRunView()
        self.transcript, self.composer = TranscriptView(), Composer()
        self.chat_page = ChatPage(self.head, self.start, self.transcript, self.composer)
        self.library, self.compare, self.settings = LibraryView(), CompareView(), SettingsView()
        self.library_page = Titled(tr("Models"), self.library, back)
        self.compare_page = Titled(tr("Compare"), self.compare, back)
        self.settings_page = Titled(tr("Settings"), self.settings, back)
        self.session, self.drafting = SessionPanel(), DraftingView()
        self.drafting_panel = Titled(
            tr("Drafting"), self.drafting, tr("Close the Drafting view"), is_page=False
        )
        self.window = MainWindow(
            self.sidebar,
            {
                "chat": self.chat_page,
                "library": self.library_page,
                "compare": self.compare_page,
                "settings": self.settings_page,
            },
            {"session": self.session, "drafting": self.drafting_panel},
            self.strip,
            self.notice,
        )
        self.card = ModelCardView()
        self.layer = CardLayer(self.card, self.window.body)
        self.overlay = DropOverlay(self.window.body)
