"""The middle of the window: the model in use, notices, the transcript or a start page, composer."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QProgressBar, QPushButton, QWidget

from app.window.composer.composer import Composer
from app.window.controls.icons import IconButton, icon
from app.window.controls.labels import ShortButton, ShortLabel, paragraph, set_role
from app.window.controls.layouts import Wide, centred, column, row, stacked
from app.window.models.downloads import bytes_of
from app.window.models.first_run_view import FirstRunView
from app.window.motion import fade_in
from app.window.transcript.transcript_view import TranscriptView
from mlx_engine.values.model_description import ModelDescription

STEPS = 1000


class HeadBar(QFrame):
    """Signals: `model_wanted` (the page of models), `cancel_wanted` (of a load), and one for each
    of the buttons `sidebar`, `compare` and `session`, which are there to be connected.
    """

    model_wanted = Signal()
    cancel_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "head")
        self.sidebar = IconButton("sidebar", "Show or hide the sidebar")
        self.compare = IconButton("compare", "Compare with and without drafting")
        self.session = IconButton("panel", "Show or hide the session panel")
        self._model = ShortButton()
        self._model.setProperty("role", "quiet")
        self._model.setAccessibleName("Model in use")
        self._model.setIcon(icon("chevron_down", "muted"))
        self._model.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self._detail = ShortLabel()
        self._detail.setProperty("role", "muted")
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setFixedWidth(160)
        self._progress.setAccessibleName("Loading the model")
        self._cancel = IconButton("close", "Cancel loading")
        left = (self.sidebar, self._model, Wide(self._detail))
        right = (self._progress, self._cancel, self.compare, self.session)
        row(*left, *right, of=self, margins=(12, 8, 12, 8), spacing=6)
        self._model.clicked.connect(self.model_wanted)
        self._cancel.clicked.connect(self.cancel_wanted)
        self.show_model(None)

    def show_model(self, model: ModelDescription | None) -> None:
        """Name and heads of the model in use, None for no model."""
        self._name(model.name if model else "No model")
        self._detail.show_text(model_in_words(model) if model else "Open or drop one to begin.")
        self._show_loading(False)

    def show_loading(self, name: str, done: int, total: int, verb: str = "Loading") -> None:
        """A load that runs; total 0 while files are only looked at."""
        self._name(name)
        how_much = f"{verb} · {bytes_of(done, total)}"
        self._detail.show_text(how_much if total else "Looking at the files")
        self._progress.setRange(0, STEPS if total else 0)
        self._progress.setValue(STEPS * done // total if total else 0)
        self._show_loading(True)

    def _name(self, name: str) -> None:
        self._model.show_text(name)
        self._model.setAccessibleDescription(name)
        self._model.setToolTip(f"{name}: choose another model")

    def _show_loading(self, is_loading: bool) -> None:
        self._progress.setVisible(is_loading)
        self._cancel.setVisible(is_loading)


def model_in_words(model: ModelDescription) -> str:
    """How it is stored and whether it drafts."""
    if model.mtp is not None or not model.mtp_heads:
        heads = "no drafting heads"
    else:
        heads = "1 drafting head" if model.mtp_heads == 1 else f"{model.mtp_heads} drafting heads"
    return f"{model.quantisation} · {heads}"


class NoticeBar(QFrame):
    """Shows the newest notice; `details_wanted` asks for what is behind it, `taken` for the
    model it offers.
    """

    details_wanted = Signal(str)
    taken = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "notice")
        self.setAccessibleName("Notice")
        self._words = paragraph("", "note")
        self._details, self._offered, self._staying = "", "", ""
        self._take = QPushButton("Load…")
        self._take.clicked.connect(self._take_up)
        self._more = QPushButton("Details")
        self._more.setProperty("role", "link")
        self._more.clicked.connect(lambda: self.details_wanted.emit(self._details))
        self._close = IconButton("close", "Dismiss")
        self._close.clicked.connect(self._dismiss)
        buttons = (self._take, self._more, self._close)
        row(Wide(self._words), *buttons, of=self, margins=(20, 6, 12, 6), spacing=8)
        self.hide()

    def say(
        self, words: str, details: str = "", *, is_problem: bool = False, stays: bool = False
    ) -> None:
        """Show a notice in place of the one before; one that stays is above the others until it is
        dismissed.
        """
        words = "\n".join(filter(None, (self._staying, words)))
        self._staying = words if stays else self._staying
        self._details = details
        self._words.setText(words)
        set_role(self._words, "problem" if is_problem else "note")
        self._more.setVisible(bool(details))
        self._take.hide()
        self.setAccessibleDescription(words)
        appears = self.isHidden()
        self.show()
        if appears:
            fade_in(self)

    def offer(self, words: str, model: str) -> None:
        """Show a notice of a model that can be loaded; `taken` brings its path."""
        self.say(words)
        self._offered = model
        self._take.show()

    def _take_up(self) -> None:
        self.hide()
        self.taken.emit(self._offered)

    def _dismiss(self) -> None:
        self._staying = ""
        self.hide()

    def words(self) -> str:
        """What is said now, "" when nothing is."""
        return "" if self.isHidden() else self._words.text()


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
        foot = centred(composer)
        foot.setContentsMargins(SIDE, 0, SIDE, 16)
        column(head, notice, Wide(self._middle), foot, of=self, spacing=0)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def show_start(self, is_empty: bool) -> None:
        """The start page for a chat without messages."""
        self._middle.setCurrentWidget(self._start if is_empty else self._transcript)
