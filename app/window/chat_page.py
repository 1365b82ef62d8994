"""The chat page: a bar with title and model, the transcript or start page, the composer."""

from functools import partial

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QAction, QFocusEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractSlider, QFrame, QLineEdit, QMenu, QSizePolicy, QWidget
from typing_extensions import override

from app.state.chat import ChatState
from app.state.chat_list import ChatListState
from app.state.known_models import KnownModels
from app.state.models import ModelState, model_name
from app.values.models import FoundModel
from app.window.composer import Composer
from app.window.controls.fields import on_key
from app.window.controls.icons import IconButton, icon
from app.window.controls.labels import (
    SHORTEST,
    ShortButton,
    ShortLabel,
    open_below,
    set_tip,
    unmarked,
)
from app.window.controls.layouts import Wide, centred, column, row, stacked
from app.window.language import DRAFTING, said, tr
from app.window.look import look
from app.window.models.downloads import BytesBar, bytes_of
from app.window.models.first_run_view import FirstRunView
from app.window.models.model_card_view import LOOKING
from app.window.transcript.reader import MARGIN, TEXT_WIDTHS
from app.window.transcript.transcript_view import TranscriptView
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import Words, join_words, size_words

WAITING = Words("Waiting for the current answer to finish")
PROGRESS, TIGHT, ROOMY = 160, 680, 600
"""Pixels at a zoom of 1: the progress bar, and widths of the top bar below which there is no
progress bar, and no details of the model.
"""


TITLE_PADDING, WIDEST_TITLE = 20, 320


class TitleField(QLineEdit):
    """The title of the chat on show, elided, and editable while focused.

    Return and a click elsewhere rename the chat, Escape does not.
    """

    _chat: ChatState
    _chats: ChatListState
    _renamed: int | None = None
    _title = ""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "title")
        self.setAccessibleName(tr("Title of the chat"))
        self.setEnabled(False)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.returnPressed.connect(self._leave)
        on_key(self, Qt.Key.Key_Escape, self._give_up)

    def _leave(self) -> None:
        self.window().setFocus()

    def _give_up(self) -> None:
        self._renamed = None
        self._leave()

    def watch(self, chat: ChatState, chats: ChatListState) -> None:
        """Show the title of this chat, and rename it in the list."""
        self._chat, self._chats = chat, chats
        chat.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        self._title = self._chat.title or tr("New chat")
        self.setEnabled(self._chat.chat_id is not None)
        self._fit()

    def _fit(self) -> None:
        if not self.hasFocus():
            room = self.width() - TITLE_PADDING
            shown = self.fontMetrics().elidedText(self._title, Qt.TextElideMode.ElideRight, room)
            self.setText(shown)
            set_tip(self, self._title if shown != self._title else "")
            self.updateGeometry()

    # Qt

    @override
    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(self._title) + TITLE_PADDING + 2
        most = round(WIDEST_TITLE * look().zoom)
        return QSize(min(width, most), super().sizeHint().height())

    @override
    def minimumSizeHint(self) -> QSize:
        return QSize(SHORTEST, super().minimumSizeHint().height())

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    @override
    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._renamed = self._chat.chat_id
        self.setText(self._chat.title)
        self.home(False)
        self.end(True)

    @override
    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        typed, chat_id = self.text().strip(), self._renamed
        self._renamed = None
        if chat_id is not None and self.isModified() and typed:
            self._chats.rename(chat_id, typed)
        self._fit()


class TopBar(QFrame):
    """The bar at the top of the chat page. sidebar, compare, session: buttons of commands."""

    _models: ModelState

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "head")
        self.sidebar = IconButton("sidebar", tr("Show or hide the sidebar"))
        self.compare = IconButton("compare", tr("Compare with and without drafting"))
        self.session = IconButton("panel", tr("Show or hide chat settings"))
        self.title = TitleField()
        self._model = ShortButton()
        self._model.setProperty("role", "quiet")
        self._model.setAccessibleName(tr("Model in use"))
        self._model.setIcon(icon("chevron_down", "muted"))
        self._model.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self._is_loading, self._narrowest = False, QSize()
        self._known: KnownModels | None = None
        self._commands: tuple[QAction, ...] = ()
        self._in_use: ModelDescription | None = None
        self._memory = 0
        self._menu = QMenu(self._model)
        self._menu.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # not as the button has it
        self._menu.aboutToShow.connect(self._fill_menu)
        open_below(self._model, self._menu)
        self._detail = ShortLabel(what=tr(DRAFTING))
        self._detail.setProperty("role", "muted")
        self._progress = BytesBar()
        self._progress.setFixedWidth(PROGRESS)
        self._progress.setAccessibleName(tr("Loading the model"))
        self._cancel = IconButton("close", tr("Cancel loading"))
        left = (self.sidebar, self.title, self._model, Wide(self._detail))
        right = (self._progress, self._cancel, self.compare, self.session)
        row(*left, *right, of=self, margins=(12, 8, 12, 8), spacing=6)
        self._cancel.clicked.connect(self._cancel_load)
        self.show_model(None)

    def watch(
        self,
        chat: ChatState,
        chats: ChatListState,
        models: ModelState,
        known: KnownModels,
        *commands: QAction,
    ) -> None:
        """Show the title of this chat and the model in use. known: recent models, for the menu."""
        self.title.watch(chat, chats)
        self._models, self._known, self._commands = models, known, commands
        models.progressed.connect(self._show_model)
        models.changed.connect(self._show_model)
        self._show_model()

    def _show_model(self) -> None:
        resting, progress = self._models.resting, self._models.progress
        self._memory = self._models.memory
        if progress is not None:
            verb = tr("Downloading") if progress.fetches else tr("Loading")
            before = WAITING if progress.waits else LOOKING
            name = model_name(progress.path)
            self.show_loading(name, progress.done, progress.total, verb, before)
        elif resting is None:
            self.show_model(self._models.description)
        else:
            self.show_resting(resting.name, resting.why)

    def _cancel_load(self) -> None:
        self._models.cancel()
        self.window().setFocus()

    def show_model(self, model: ModelDescription | None) -> None:
        """Show name and drafting heads of the model in use, None for no model."""
        self._in_use = model
        self._name(model.name if model else tr("No model"))
        self._show_detail()
        self._show_loading(False)

    def show_resting(self, name: str, why: str) -> None:
        """Show a model that the next question loads."""
        self._in_use = None
        self._name(name)
        self._detail.show_text(why)
        self._show_loading(False)

    def _show_detail(self) -> None:
        model = self._in_use
        words = model_in_words(model) if model else tr("Open or drop a model to begin.")
        self._detail.show_text(words)

    def show_loading(
        self, name: str, done: int, total: int, verb: str = Words("Loading"), before: str = LOOKING
    ) -> None:
        """Show a running load.

        total: 0 until known. before: what is done before the load.
        """
        self._name(name)
        is_read = 0 < total <= done  # a first pass follows, which has no measure
        how_much = tr("Getting ready") if is_read else f"{said(verb)} · {bytes_of(done, total)}"
        self._detail.show_text(how_much if total else tr(before))
        self._progress.show_bytes(done, 0 if is_read else total)
        self._show_loading(True)

    def _fill_menu(self) -> None:
        self._menu.clear()
        for entry in self._known.offered_again if self._known else ():
            words = said(join_words((entry.name, entry.detail)))
            action = self._menu.addAction(unmarked(words))
            action.setCheckable(True)
            action.setChecked(self._in_use is not None and entry.is_of(self._in_use))
            action.triggered.connect(partial(self._load_again, entry))
        self._menu.addSeparator()
        self._menu.addActions(self._commands)

    def _load_again(self, entry: FoundModel) -> None:
        self._models.load(None if entry.is_built_in else str(entry.path))
        self.window().setFocus()

    def _name(self, name: str) -> None:
        self._model.show_text(name)
        self._model.setAccessibleDescription(name)
        held = tr("It uses {size} of memory now.", size=size_words(self._memory))
        parts = tr("{name}: choose another model", name=name), held if self._memory else ""
        set_tip(self._model, "\n".join(filter(None, parts)))
        self._give_room_to_name()

    def _show_loading(self, is_loading: bool) -> None:
        self._is_loading = is_loading
        self._cancel.setVisible(is_loading)
        self._fit()

    def _fit(self) -> None:
        """Hide the progress bar, then the details, if they have no room."""
        has_room = self.width() >= TIGHT * look().zoom
        self._progress.setVisible(self._is_loading and has_room)
        self._detail.setVisible(self._is_loading or self.width() >= ROOMY * look().zoom)
        words = min(self._detail.sizeHint().width(), 2 * self.width() // 5)
        is_news = self._is_loading or self._in_use is None
        self._detail.setMinimumWidth(words if is_news else 0)
        self._give_room_to_name()

    def _give_room_to_name(self) -> None:
        """Elide the title before the model's name, without widening the bar."""
        self._model.setMinimumWidth(0)
        self._narrowest = super().minimumSizeHint()
        spare = max(0, self.width() - self._narrowest.width())
        wanted = min(self._model.sizeHint().width(), SHORTEST + spare)
        self._model.setMinimumWidth(wanted)

    # Qt

    @override
    def minimumSizeHint(self) -> QSize:
        return self._narrowest

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


def model_in_words(model: ModelDescription) -> str:
    """Say whether the model drafts."""
    can_draft = model.mtp is None and model.mtp_heads > 0
    return tr("With drafting") if can_draft else tr("Without drafting")


PAGE_STEPS = {
    Qt.Key.Key_PageUp: QAbstractSlider.SliderAction.SliderPageStepSub,
    Qt.Key.Key_PageDown: QAbstractSlider.SliderAction.SliderPageStepAdd,
}
WIDEST = TEXT_WIDTHS["usual"]


class ChatPage(QWidget):
    """The page of a chat: top bar, transcript or start page, and composer."""

    def __init__(
        self,
        head: TopBar,
        start: FirstRunView,
        transcript: TranscriptView,
        composer: Composer,
    ) -> None:
        super().__init__()
        self._start, self._transcript = start, transcript
        self._middle = stacked(start, transcript)
        self._foot = QWidget()
        self._foot.setLayout(centred(composer))
        self._foot.setContentsMargins(MARGIN, 8, MARGIN, 16)
        self._lines = column(head, Wide(self._middle), self._foot, of=self, spacing=0)
        # the foot in place of the composer, whose frame changes with the keys
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._composer = composer
        self._fit()

    def _fit(self) -> None:
        """Let the composer be as wide as a column of text."""
        self._composer.setMaximumWidth(round(WIDEST * max(1.0, look().zoom)))

    def show_start(self, is_empty: bool) -> None:
        """Show the start page for a chat without messages, with the composer in its middle."""
        focus = self._composer.window().focusWidget()
        has_focus = focus is not None and self._composer.isAncestorOf(focus)
        if is_empty:
            self._start.place_composer(self._foot)
        else:
            self._lines.addWidget(self._foot)
        side, top = (0, 0) if is_empty else (MARGIN, 8)
        self._foot.setContentsMargins(side, top, side, 16)
        self._middle.setCurrentWidget(self._start if is_empty else self._transcript)
        if has_focus:
            self._composer.setFocus()

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = PAGE_STEPS.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
        else:
            self._transcript.column.verticalScrollBar().triggerAction(step)

    @override
    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._composer.setFocus()
