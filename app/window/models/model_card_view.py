"""The card of a model: what it is, and how it would be loaded."""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QPushButton
from typing_extensions import override

from app.state.card import OfferedModel
from app.state.settings import KeptSettings
from app.values.app_settings import ModelSettings
from app.window.controls.cache_fields import CacheFields
from app.window.controls.choices import Option, Segments, Tick
from app.window.controls.fields import NumberField, NumberKind, keep_key
from app.window.controls.file_dialogs import choose_file
from app.window.controls.group import Group
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortLabel, label, paragraph, say, set_role
from app.window.controls.layouts import Wide, column, named, row
from app.window.language import tr
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
    """Fields for the settings of a model. settings_file: knows the folder chosen last.

    Signal `changed`: `settings` are others.
    """

    settings_file: KeptSettings

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
        path = choose_file(self.window(), tr("Drafting heads"), tr(HEADS), self.settings_file)
        if path:
            self._take_load(heads=Path(path))


LOOKING = Words("Checking files")


class ModelCardView(QFrame):
    """Shows the model on offer. Signals: `other_wanted` (another file), `closed`."""

    other_wanted = Signal()
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.setAccessibleName(tr("Model"))
        self.facts, self.load_fields = ModelFacts(), LoadFields()
        self._problem = paragraph("", "problem")
        self._looking = label(LOOKING, "muted")
        self._load = QPushButton(tr("Load"))
        self._load.setProperty("role", "primary")
        self._cancel = QPushButton(tr("Cancel"))
        self._other = QPushButton(tr("Choose another…"))
        foot = row(Wide(self._looking), self._cancel, self._other, self._load, spacing=8)
        lines = (self.facts, self.load_fields, self._problem)
        column(*lines, foot, of=self, margins=(16, 16, 16, 16), spacing=8)
        self._load.clicked.connect(self._try_load)
        self._other.clicked.connect(self.other_wanted)
        self._cancel.clicked.connect(self.closed)
        keep_key(self, Qt.Key.Key_Escape)

    def watch(self, offered: OfferedModel, settings: KeptSettings) -> None:
        """Show this model, and change how it is loaded. settings: know the folder chosen last."""
        self._offered = offered
        self.load_fields.settings_file = settings
        offered.changed.connect(self._refresh)
        self.closed.connect(offered.close)
        self.load_fields.changed.connect(lambda: offered.change(self.load_fields.settings))

    def _refresh(self) -> None:
        offered, phase, fields = self._offered, self._offered.phase, self.load_fields
        if phase == "closed":
            return
        if offered.own is not fields.settings:
            fields.show_settings(offered.own)
        if offered.facts is None:
            self.facts.show_name(offered.name)
        else:
            self.facts.show_facts(offered.facts)
        is_reading, is_unreadable = phase == "reading", phase == "unreadable"
        self._looking.setVisible(is_reading)
        again = tr("Load") if phase in ("reading", "offered") else tr("Try again")
        self._load.setText(tr("Load anyway") if offered.is_too_large else again)
        self._load.setEnabled(not is_reading)
        self._load.setVisible(not is_unreadable)
        self._other.setVisible(phase in ("failed", "unreadable"))
        set_role(self._other, "primary" if is_unreadable else "")
        # settings that make a model unreadable can be taken back
        is_odd = fields.settings != ModelSettings()
        fields.setVisible(is_odd if is_unreadable else not is_reading)
        say(self._problem, offered.problem)

    def _try_load(self) -> None:
        """Load the model, unless a field holds a mistake."""
        if self.load_fields.settle():
            self._offered.load()

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        match event.key():
            case Qt.Key.Key_Escape:
                self.closed.emit()
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                (self._other if self._load.isHidden() else self._load).click()
            case _:
                super().keyPressEvent(event)
