"""The middle of the window: the model in use, notices, the transcript or a start page, composer."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractSlider, QFrame, QMenu, QWidget

from app.values.models import FoundModel, short_quantisation
from app.window.composer.composer import Composer
from app.window.controls.icons import IconButton, icon
from app.window.controls.labels import ShortButton, ShortLabel, set_tip, unmarked
from app.window.controls.layouts import Wide, centred, column, row, stacked
from app.window.controls.notice_bar import NoticeBar
from app.window.language import said, tr
from app.window.look import look
from app.window.models.downloads import BytesBar, bytes_of
from app.window.models.first_run_view import FirstRunView
from app.window.models.model_card_view import LOOKING
from app.window.transcript.transcript_view import TranscriptView
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import Words, joined, size_words

PROGRESS, TIGHT = 160, 680
"""Pixels of the bar of a load; below so many of the head, at a zoom of 1, there is none."""


class HeadBar(QFrame):
    """Signals: `recent_chosen` (a FoundModel to load again), `eject_wanted` (of the model in use),
    `model_wanted` (the page of models), `cancel_wanted` (of a load), and one for each of the
    buttons `sidebar`, `compare` and `session`, which are there to be connected.
    """

    recent_chosen = Signal(object)
    eject_wanted = Signal()
    model_wanted = Signal()
    cancel_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "head")
        self.sidebar = IconButton("sidebar", tr("Show or hide the sidebar"))
        self.compare = IconButton("compare", tr("Compare with and without drafting"))
        self.session = IconButton("panel", tr("Show or hide chat settings"))
        self._model = ShortButton()
        self._model.setProperty("role", "quiet")
        self._model.setAccessibleName(tr("Model in use"))
        self._model.setIcon(icon("chevron_down", "muted"))
        self._model.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self._is_loading = False
        self._recent: tuple[FoundModel, ...] = ()
        self._in_use: ModelDescription | None = None
        self._memory = 0
        self._menu = QMenu(self._model)
        self._menu.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # not as the button has it
        self._menu.aboutToShow.connect(self._fill_menu)
        self._model.setMenu(self._menu)
        self._detail = ShortLabel()
        self._detail.setProperty("role", "muted")
        self._progress = BytesBar()
        self._progress.setFixedWidth(PROGRESS)
        self._progress.setAccessibleName(tr("Loading the model"))
        self._cancel = IconButton("close", tr("Cancel loading"))
        left = (self.sidebar, self._model, Wide(self._detail))
        right = (self._progress, self._cancel, self.compare, self.session)
        row(*left, *right, of=self, margins=(12, 8, 12, 8), spacing=6)
        self._cancel.clicked.connect(self.cancel_wanted)
        self.show_model(None)

    def show_model(self, model: ModelDescription | None) -> None:
        """Name and heads of the model in use, None for no model."""
        self._in_use = model
        self._name(model.name if model else tr("No model"))
        self._show_detail()
        self._show_loading(False)

    def show_resting(self, name: str, why: str) -> None:
        """A model that is not in memory until something is asked."""
        self._in_use = None
        self._name(name)
        self._detail.show_text(why)
        self._show_loading(False)

    def show_memory(self, nbytes: int) -> None:
        """What the model in use and all that belongs to it hold, 0 for no model."""
        self._memory = nbytes
        if self._in_use is not None and not self._is_loading:
            self._show_detail()

    def _show_detail(self) -> None:
        model = self._in_use
        held = tr("{size} in memory", size=size_words(self._memory)) if self._memory else ""
        words = model_in_words(model) if model else tr("Open or drop a model to begin.")
        self._detail.show_text(" · ".join(filter(None, (words, held if model else ""))))

    def show_loading(
        self, name: str, done: int, total: int, verb: str = Words("Loading"), before: str = LOOKING
    ) -> None:
        """A load that runs; total 0 while there are no bytes yet, before: what is done instead."""
        self._name(name)
        how_much = f"{said(verb)} · {bytes_of(done, total)}"
        self._detail.show_text(how_much if total else tr(before))
        self._progress.show_bytes(done, total)
        self._show_loading(True)

    def show_recent(self, entries: Sequence[FoundModel]) -> None:
        """What the arrow offers to load again."""
        self._recent = tuple(entries)

    def _fill_menu(self) -> None:
        self._menu.clear()
        for entry in self._recent:
            words = said(joined((entry.name, entry.detail)))
            action = self._menu.addAction(unmarked(words))
            action.setCheckable(True)
            action.setChecked(self._in_use is not None and entry.is_of(self._in_use))
            action.triggered.connect(lambda _, entry=entry: self.recent_chosen.emit(entry))
        self._menu.addSeparator()
        eject = self._menu.addAction(tr("Eject"), self.eject_wanted.emit)
        eject.setEnabled(self._in_use is not None)
        self._menu.addAction(tr("All models…"), self.model_wanted.emit)

    def _name(self, name: str) -> None:
        self._model.show_text(name)
        self._model.setAccessibleDescription(name)
        set_tip(self._model, tr("{name}: choose another model", name=name))

    def _show_loading(self, is_loading: bool) -> None:
        self._is_loading = is_loading
        self._cancel.setVisible(is_loading)
        self._fit()

    def _fit(self) -> None:
        """The name gives way to what is said of a load, and the bar to both."""
        has_room = self.width() >= TIGHT * look().zoom
        self._progress.setVisible(self._is_loading and has_room)
        words = min(self._detail.sizeHint().width(), 2 * self.width() // 5)
        self._detail.setMinimumWidth(words if self._is_loading else 0)

    # Qt

    def resizeEvent(self, event: QResizeEvent) -> None:
        """There is other room."""
        super().resizeEvent(event)
        self._fit()


def model_in_words(model: ModelDescription) -> str:
    """Bits of the weights, and whether the model drafts."""
    if model.mtp is not None or not model.mtp_heads:
        heads = tr("no drafting heads")
    else:
        heads = tr("{n} drafting heads", "1 drafting head", model.mtp_heads)
    stored = short_quantisation(model.quantisation)
    return f"{stored} · {heads}"


PAGE_STEPS = {
    Qt.Key.Key_PageUp: QAbstractSlider.SliderAction.SliderPageStepSub,
    Qt.Key.Key_PageDown: QAbstractSlider.SliderAction.SliderPageStepAdd,
}
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
        self._middle = stacked(start, transcript)
        composer.setMaximumWidth(WIDEST)
        self._foot = QWidget()
        self._foot.setLayout(centred(composer))
        self._foot.setContentsMargins(SIDE, 0, SIDE, 16)
        self._lines = column(head, notice, Wide(self._middle), self._foot, of=self, spacing=0)
        # the foot in place of the composer, whose frame changes with the keys
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._composer = composer

    def show_start(self, is_empty: bool) -> None:
        """The start page for a chat without messages, with the composer in its middle."""
        focus = self._composer.window().focusWidget()
        has_focus = focus is not None and self._composer.isAncestorOf(focus)
        if is_empty:
            self._start.place_composer(self._foot)
        else:
            self._lines.addWidget(self._foot)
        self._foot.setContentsMargins(0 if is_empty else SIDE, 0, 0 if is_empty else SIDE, 16)
        self._middle.setCurrentWidget(self._start if is_empty else self._transcript)
        if has_focus:
            self._composer.setFocus()

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Page Up and Page Down of whatever on the page has no use for them scroll the chat."""
        step = PAGE_STEPS.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
        else:
            self._transcript.column.verticalScrollBar().triggerAction(step)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The keys are for the message; a focus proxy would keep Tab from what is above it."""
        super().focusInEvent(event)
        self._composer.setFocus()
