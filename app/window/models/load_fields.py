"""How one model is loaded: its context, heads from elsewhere, numerics, and whether it stays."""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QPushButton

from app.values.app_settings import ModelSettings
from app.window.controls.choices import Option, Segments, Tick
from app.window.controls.fields import NumberField, NumberKind
from app.window.controls.group import Group
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortLabel, label
from app.window.controls.layouts import Wide, column, named, row

NUMERICS = (Option("auto", "Auto"), Option("exact", "Exact"), Option("fast", "Fast"))
HEADS = "Files of heads (*.gguf *.safetensors)"
CONTEXT = NumberKind(int, 1024, is_choice=True)


class LoadFields(Group):
    """`settings` are what its user wants of the model, from its next load on.

    Signal `changed`: they are others.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__("Load settings", is_open=False)
        self.settings = ModelSettings()
        self._context = NumberField(
            "Context length", CONTEXT, "Tokens at most; fewer need less memory"
        )
        self._heads = ShortLabel(Qt.TextElideMode.ElideMiddle)
        self._choose = QPushButton("Choose…")
        self._choose.setAccessibleName("Choose a file of drafting heads")
        self._own_heads = IconButton("close", "Use the heads in or beside the model")
        self._numerics = Segments("Numerics")
        self._numerics.show_options(NUMERICS)
        self._keep = Tick("Keep it in memory when it is idle")
        self.add(
            self._context,
            column(
                label("Drafting heads", "muted"),
                row(Wide(self._heads), self._own_heads, self._choose, spacing=8),
                spacing=4,
            ),
            named("Numerics", self._numerics),
            self._keep,
        )
        self._context.changed.connect(self._take_context)
        self._choose.clicked.connect(self._choose_heads)
        self._own_heads.clicked.connect(lambda: self._take_load(heads=None))
        self._numerics.chosen.connect(lambda value: self._take_load(numerics=value))
        self._keep.clicked.connect(lambda is_on: self._take(replace(self.settings, keep=is_on)))
        self.show_settings(self.settings)

    def show_settings(self, settings: ModelSettings) -> None:
        """Show what is remembered of a model, unfolded where that is not what is usual."""
        self.settings = settings
        self._context.show_number(settings.load.context_length)
        self._context.show_recommended(None)
        self._show_heads()
        self._numerics.select(settings.load.numerics)
        self._keep.setChecked(settings.keep)
        self.open(settings != ModelSettings())

    def _show_heads(self) -> None:
        heads = self.settings.load.heads
        self._heads.show_text(str(heads) if heads else "Those in or beside the model")
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
        path, _ = QFileDialog.getOpenFileName(self.window(), "Drafting heads", "", HEADS)
        if path:
            self._take_load(heads=Path(path))
