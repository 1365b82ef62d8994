"""All widgets of the window, made once and put in their places."""

from dataclasses import dataclass

from app.window.actions import Actions
from app.window.chat_page import ChatPage
from app.window.closable import Closable
from app.window.compare.compare_view import CompareView
from app.window.composer.composer import Composer
from app.window.drafting.drafting_view import DraftingView
from app.window.drafting.status_strip import StatusStrip
from app.window.head_bar import HeadBar
from app.window.layers import CardLayer, DropOverlay
from app.window.main_window import MainWindow, Parts
from app.window.models.first_run_view import FirstRunView
from app.window.models.library_view import LibraryView
from app.window.models.model_card_view import ModelCardView
from app.window.notice_bar import NoticeBar
from app.window.session_panel.session_panel import SessionPanel
from app.window.settings_page.settings_view import SettingsView
from app.window.sidebar.sidebar import Sidebar
from app.window.titled import Titled
from app.window.transcript.transcript_view import TranscriptView


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
    compare_page: Closable
    library_page: Closable
    settings: SettingsView
    settings_page: Closable
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
    compare_page = Closable("Compare", compare)
    library_page = Closable("Models", library)
    settings = SettingsView()
    settings_page = Closable("Settings", settings)
    session, drafting = SessionPanel(), DraftingView()
    drafting_panel = Titled("Drafting", drafting, "Close the Drafting view")
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
