"""The line above the transcript: the model in use, and buttons for the panels."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QPushButton

from app.window.controls.icons import IconButton, icon
from app.window.controls.labels import ShortLabel
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
        self._model = QPushButton()
        self._model.setProperty("role", "quiet")
        self._model.setAccessibleName("Model in use")
        self._model.setToolTip("Choose another model")
        self._model.setIcon(icon("chevron_down", "muted"))
        self._model.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self._detail = ShortLabel()
        self._detail.setProperty("role", "muted")
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setFixedWidth(160)
        self._progress.setAccessibleName("Loading the model")
        self._cancel = IconButton("close", "Cancel loading")
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 12, 8)
        row.setSpacing(6)
        row.addWidget(self.sidebar)
        row.addWidget(self._model)
        row.addWidget(self._detail, 1)
        row.addWidget(self._progress)
        row.addWidget(self._cancel)
        row.addWidget(self.compare)
        row.addWidget(self.session)
        self._model.clicked.connect(self.model_wanted)
        self._cancel.clicked.connect(self.cancel_wanted)
        self.show_model(None)

    def show_model(self, model: ModelDescription | None) -> None:
        """Name and heads of the model in use, None for no model."""
        self._model.setText(model.name if model else "No model")
        self._detail.show_text(model_in_words(model) if model else "Open or drop one to begin.")
        self._show_loading(False)

    def show_loading(self, name: str, done: int, total: int) -> None:
        """A load that runs; total 0 while files are only looked at."""
        self._model.setText(name)
        self._detail.show_text("Loading" if total else "Looking at the files")
        self._progress.setRange(0, STEPS if total else 0)
        self._progress.setValue(STEPS * done // total if total else 0)
        self._show_loading(True)

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
