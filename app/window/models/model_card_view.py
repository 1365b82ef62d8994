"""The card of a model: what it is, how it would be loaded, and how its load gets on."""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFileDialog, QFrame, QPushButton

from app.values.app_settings import ModelSettings
from app.values.models import ModelCard
from app.window.controls.cache_fields import CacheFields
from app.window.controls.choices import Option, Segments, Tick
from app.window.controls.fields import NumberField, NumberKind, keep_key
from app.window.controls.group import Group
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortLabel, label, paragraph, say, set_role, tabular
from app.window.controls.layouts import Wide, column, named, row
from app.window.language import tr
from app.window.models.downloads import BytesBar, bytes_of
from app.window.models.model_facts import ModelFacts
from mlx_engine.values.words import Words

NUMERICS = (
    Option("auto", Words("Auto")),
    Option("exact", Words("Exact")),
    Option("fast", Words("Fast")),
)
HEADS = Words("Files of heads (*.gguf *.safetensors)")
CONTEXT = NumberKind(int, 1024, is_choice=True)


class LoadFields(Group):
    """`settings` are what its user wants of the model, from its next load on.

    Signal `changed`: they are others.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__(Words("Load settings"), is_open=False)
        self.settings = ModelSettings()
        self._context = NumberField(
            tr("Context length"), CONTEXT, tr("Most tokens in the chat; fewer use less memory")
        )
        self._heads = ShortLabel(Qt.TextElideMode.ElideMiddle)
        self._choose = QPushButton(tr("Choose…"))
        self._choose.setAccessibleName(tr("Choose a file of drafting heads"))
        self._own_heads = IconButton("close", tr("Use the heads included with the model"))
        self._numerics = Segments(tr("Precision"))
        self._numerics.show_options(NUMERICS)
        self._cache = CacheFields(Words("Default"))
        self._keep = Tick(tr("Keep in memory when idle"))
        which = row(Wide(self._heads), self._own_heads, self._choose, spacing=8)
        heads = column(label(tr("Drafting heads"), "muted"), which, spacing=4)
        numerics = named(tr("Precision"), self._numerics)
        self.add(self._context, heads, numerics, self._cache, self._keep)
        self._context.changed.connect(self._take_context)
        self._choose.clicked.connect(self._choose_heads)
        self._own_heads.clicked.connect(lambda: self._take_load(heads=None))
        self._numerics.chosen.connect(lambda value: self._take_load(numerics=value))
        self._cache.changed.connect(
            lambda: self._take(replace(self.settings, cache=self._cache.choice))
        )
        self._keep.clicked.connect(lambda is_on: self._take(replace(self.settings, keep=is_on)))
        self.show_settings(self.settings)

    def show_settings(self, settings: ModelSettings) -> None:
        """Show what is remembered of a model, unfolded where that is not what is usual."""
        self.settings = settings
        self._context.show_number(settings.load.context_length)
        self._context.show_recommended(None)
        self._show_heads()
        self._numerics.select(settings.load.numerics)
        self._cache.show_choice(settings.cache)
        self._keep.setChecked(settings.keep)
        self.open(settings != ModelSettings())

    def settle(self) -> bool:
        """What is typed counts now; False where it is not possible, which is said beside it."""
        self._context.leave()
        is_mistake = bool(self._context.problem.text())
        if is_mistake:
            self.open(True)
        return not is_mistake

    def _show_heads(self) -> None:
        heads = self.settings.load.heads
        self._heads.show_text(str(heads) if heads else tr("Included with the model"))
        self._own_heads.setVisible(heads is not None)

    def _take_context(self, tokens: int | None) -> None:
        load = self.settings.load
        tried = self._context.tried(lambda: replace(load, context_length=tokens))
        if tried is not None:
            self._take(replace(self.settings, load=tried))

    def _take_load(self, **changes: object) -> None:
        load = replace(self.settings.load, **changes)  # type: ignore[arg-type]
        self._take(replace(self.settings, load=load))

    def _take(self, settings: ModelSettings) -> None:
        if settings != self.settings:
            self.settings = settings
            self._show_heads()
            self.changed.emit()

    def _choose_heads(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self.window(), tr("Drafting heads"), "", tr(HEADS))
        if path:
            self._take_load(heads=Path(path))


LOOKING = Words("Checking files")
WAITING = Words("Waiting for the current answer to finish")


class ModelCardView(QFrame):
    """Signals: `load_wanted`, `other_wanted` (another file), `cancel_wanted` (a load that runs),
    `closed` (the card itself).
    """

    load_wanted = Signal()
    other_wanted = Signal()
    cancel_wanted = Signal()
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.setAccessibleName(tr("Model"))
        self.facts, self.load_fields = ModelFacts(), LoadFields()
        self._problem = paragraph("", "problem")
        self._progress = BytesBar()
        self._progress.setAccessibleName(tr("Loading"))
        self._bytes = label("", "muted")
        tabular(self._bytes)
        self._load = QPushButton(tr("Load"))
        self._load.setProperty("role", "primary")
        self._cancel = QPushButton(tr("Cancel"))
        self._other = QPushButton(tr("Choose another…"))
        foot = row(Wide(self._bytes), self._cancel, self._other, self._load, spacing=8)
        lines = (self.facts, self.load_fields, self._problem, self._progress)
        column(*lines, foot, of=self, margins=(16, 16, 16, 16), spacing=8)
        self._load.clicked.connect(self._try_load)
        self._other.clicked.connect(self.other_wanted)
        self._cancel.clicked.connect(self._give_up)
        keep_key(self, Qt.Key.Key_Escape)
        self._is_loading = self.is_too_large = False
        self.show_offered(None)

    def show_offered(self, facts: ModelCard | None) -> None:
        """A model that can be loaded; one that does not fit into memory "anyway"."""
        self.facts.show_facts(facts)
        memory = facts.memory if facts is not None else None
        self.is_too_large = memory is not None and memory.fit == "too-large"
        self._load.setText(tr("Load anyway") if self.is_too_large else tr("Load"))
        self._load.setEnabled(facts is not None)
        self._show_loading(False)
        say(self._problem, "")

    def show_looking(self, name: str) -> None:
        """Its files are being read."""
        self.facts.show_name(name)
        self._show_loading(False)
        self.load_fields.hide()
        self._load.setText(tr("Load"))
        self._load.setEnabled(False)
        self._bytes.setText(tr(LOOKING))
        say(self._problem, "")

    def show_loading(self, done: int, total: int, before: str = LOOKING) -> None:
        """Bytes read so far; total 0 while there are none, before: what is done instead."""
        if self._is_loading and not self._cancel.isEnabled():
            return  # it ends
        if not self._is_loading:
            self._show_loading(True)
            say(self._problem, "")
        self._progress.show_bytes(done, total)
        self._bytes.setText(bytes_of(done, total) if total else tr(before))

    def show_cancelling(self) -> None:
        """The load was given up and ends soon."""
        self._bytes.setText(tr("Cancelling"))
        self._cancel.setEnabled(False)

    def show_failed(self, words: str) -> None:
        """The load failed; words say why and what to do."""
        self._show_loading(False)
        self._other.show()
        self._load.setText(tr("Load anyway") if self.is_too_large else tr("Try again"))
        self._load.setEnabled(True)
        say(self._problem, words)

    def show_unreadable(self, words: str) -> None:
        """What is there is no sound model: only another one can be loaded."""
        self.show_failed(words)
        self._load.hide()
        self.load_fields.setVisible(self.load_fields.settings != ModelSettings())  # to undo them
        set_role(self._other, "primary")

    def _show_loading(self, is_loading: bool) -> None:
        self._is_loading = is_loading
        self._other.hide()
        set_role(self._other, "")
        self._progress.setVisible(is_loading)
        self._cancel.setEnabled(True)
        self._load.setVisible(not is_loading)
        self.load_fields.setVisible(not is_loading)
        self._bytes.setText("")

    def _try_load(self) -> None:
        """As its fields say, and not where one of them holds a mistake."""
        if self.load_fields.settle():
            self.load_wanted.emit()

    def _give_up(self) -> None:
        (self.cancel_wanted if self._is_loading else self.closed).emit()

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape cancels, Return loads."""
        match event.key():
            case Qt.Key.Key_Escape:
                self._cancel.click()
            case Qt.Key.Key_Return | Qt.Key.Key_Enter if not self._is_loading:
                (self._other if self._load.isHidden() else self._load).click()
            case _:
                super().keyPressEvent(event)
