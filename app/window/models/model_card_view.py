"""The card of a model: what it is, and how it would be loaded."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QPushButton
from typing_extensions import override

from app.state.card import OfferedModel
from app.state.settings import KeptSettings
from app.values.app_settings import ModelSettings
from app.window.controls.fields import keep_key
from app.window.controls.labels import label, paragraph, say, set_role
from app.window.controls.layouts import Wide, column, row
from app.window.language import tr
from app.window.models.load_fields import LoadFields
from app.window.models.model_facts import ModelFacts
from mlx_engine.values.words import Words

LOOKING = Words("Checking files")


class ModelCardView(QFrame):
    """Shows the model on offer. other: button of a command, to open another file."""

    _offered: OfferedModel

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
        self.other = QPushButton(tr("Choose another…"))
        foot = row(Wide(self._looking), self._cancel, self.other, self._load, spacing=8)
        lines = (self.facts, self.load_fields, self._problem)
        column(*lines, foot, of=self, margins=(16, 16, 16, 16), spacing=8)
        self._load.clicked.connect(self._try_load)
        self._cancel.clicked.connect(self._close)
        keep_key(self, Qt.Key.Key_Escape)

    def watch(self, offered: OfferedModel, settings: KeptSettings) -> None:
        """Show this model, and change how it is loaded. settings: know the folder chosen last."""
        self._offered = offered
        self.load_fields.remember_folders(settings)
        offered.changed.connect(self._refresh)
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
        self.other.setVisible(phase in ("failed", "unreadable"))
        set_role(self.other, "primary" if is_unreadable else "")
        # settings that make a model unreadable can be taken back
        is_odd = fields.settings != ModelSettings()
        fields.setVisible(is_odd if is_unreadable else not is_reading)
        say(self._problem, offered.problem)

    def _close(self) -> None:
        self._offered.close()

    def _try_load(self) -> None:
        self.load_fields.settle()
        self._offered.load()

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        match event.key():
            case Qt.Key.Key_Escape:
                self._close()
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                (self.other if self._load.isHidden() else self._load).click()
            case _:
                super().keyPressEvent(event)
