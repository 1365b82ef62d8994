"""All widgets of the window, made once and put in their places."""

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.window.actions import Actions
from app.window.chat_page import ChatPage, HeadBar, NoticeBar
from app.window.compare.compare_view import CompareView
from app.window.composer.composer import Composer
from app.window.controls.icons import IconButton
from app.window.controls.labels import label
from app.window.drafting.drafting_view import DraftingView
from app.window.drafting.status_strip import StatusStrip
from app.window.layers import CardLayer, DropOverlay
from app.window.main_window import MainWindow, Parts
from app.window.models.first_run_view import FirstRunView
from app.window.models.library_view import LibraryView
from app.window.models.model_card_view import ModelCardView
from app.window.session_panel.session_panel import SessionPanel
from app.window.settings_view import SettingsView
from app.window.sidebar.sidebar import Sidebar
from app.window.transcript.transcript_view import TranscriptView


class Titled(QFrame):
    """A page or a panel under its title, with a button that closes it.

    Signal `closed`: the user is done with it.
    """

    closed = Signal()

    def __init__(
        self, title: str, content: QWidget, close_words: str, is_page: bool = True
    ) -> None:
        super().__init__()
        close = IconButton("close", close_words)
        close.clicked.connect(self.closed)
        top = QHBoxLayout()
        top.setContentsMargins(*((24, 8, 12, 8) if is_page else (16, 8, 8, 4)))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(content, 1)
        column.insertLayout(0, top)
        top.addWidget(label(title, "title" if is_page else "heading"), 1)
        top.addWidget(close)  # after the content, so that Tab comes by it last
        self.setFocusProxy(content.focusProxy() or content)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape closes it too."""
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)


@dataclass(frozen=True, slots=True)
class Widgets:
    """Everything that is connected by name."""

    window: MainWindow
    actions: Actions
    sidebar: Sidebar
    head: HeadBar
    notice: NoticeBar
    start: FirstRunView
    transcript: TranscriptView
    composer: Composer
    chat_page: ChatPage
    library: LibraryView
    compare: CompareView
    compare_page: Titled
    library_page: Titled
    settings: SettingsView
    settings_page: Titled
    session: SessionPanel
    drafting: DraftingView
    drafting_panel: Titled
    strip: StatusStrip
    card: ModelCardView
    layer: CardLayer
    overlay: DropOverlay


def make_widgets() -> Widgets:
    """The whole window, not shown yet."""
    sidebar = Sidebar()
    head, notice = HeadBar(), NoticeBar()
    start, composer = FirstRunView(), Composer()
    transcript = TranscriptView()
    chat_page = ChatPage(head, notice, start, transcript, composer)
    library, compare = LibraryView(), CompareView()
    compare_page = Titled("Compare", compare, "Back to the chat")
    library_page = Titled("Models", library, "Back to the chat")
    settings = SettingsView()
    settings_page = Titled("Settings", settings, "Back to the chat")
    session, drafting = SessionPanel(), DraftingView()
    drafting_panel = Titled("Drafting", drafting, "Close the Drafting view", is_page=False)
    strip = StatusStrip()
    window = MainWindow(
        Parts(
            sidebar,
            {
                "chat": chat_page,
                "library": library_page,
                "compare": compare_page,
                "settings": settings_page,
            },
            {"session": session, "drafting": drafting_panel},
            strip,
        )
    )
    actions = Actions(window)
    actions.fill(window.menuBar())
    card = ModelCardView()
    return Widgets(
        window=window,
        actions=actions,
        sidebar=sidebar,
        head=head,
        notice=notice,
        start=start,
        transcript=transcript,
        composer=composer,
        chat_page=chat_page,
        library=library,
        compare=compare,
        compare_page=compare_page,
        library_page=library_page,
        settings=settings,
        settings_page=settings_page,
        session=session,
        drafting=drafting,
        drafting_panel=drafting_panel,
        strip=strip,
        card=card,
        layer=CardLayer(card, window.body),
        overlay=DropOverlay(window.body),
    )
