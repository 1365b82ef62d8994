"""Values for the session panel in tests, and steps a user takes in it."""

from dataclasses import fields
from unittest.mock import Mock

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QLineEdit

from app.state.round_history import RoundHistory, SpeedBySetting
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.window.session_panel.abilities import (
    ModelAbilities,
    SourceAbility,
)
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

FULL = ChatSettings(
    system="Be brief.",
    draft=DraftOptions("mtp", 2, 0.25, "greedy"),
    sampling=SamplingChoice(0.3, 40, 0.9, 0.05, 1.1, 0.2, -0.3, 99),
    generation=GenerationOptions(200, ("END", "\n\n")),
)
WHY = "This model has no drafting heads; it runs without drafting."
CAN = ModelAbilities((SourceAbility("mtp", 3),), SamplingOptions(0.6, top_k=20))
CANNOT = ModelAbilities((SourceAbility("mtp", 0, WHY),))


class Owner(QObject):
    """Owns settings in place of a chat; `heard` grows by what the user changes: the name of a field
    of ChatSettings, and its value.
    """

    changed = Signal()

    def __init__(self, parent=None):
        super().__init__(parent)
        self.settings, self.heard = ChatSettings(), []

    def change(self, settings):
        for field in fields(settings):
            value = getattr(settings, field.name)
            if value != getattr(self.settings, field.name):
                self.heard.append((field.name, value))
        self.settings = settings
        self.changed.emit()

    def give(self, panel, settings):
        """As when another chat is opened."""
        self.settings = settings
        panel.settings.show_all()


class Figures(QObject):
    """Stands in for the figures that a panel watches."""

    changed = Signal()

    def __init__(self, panel):
        super().__init__(panel)
        self.history, self.output = RoundHistory(), None
        self.speeds_by_probability, self.speeds_by_output = SpeedBySetting(), SpeedBySetting()
        panel.draft.watch(self)

    def tell(self, state):
        """What drafting does now."""
        self.history.state = state
        self.changed.emit()


def field_of(panel, name):
    """The edit of a number or a line."""
    kinds = (QDoubleSpinBox, QLineEdit)
    return next(w for kind in kinds for w in panel.findChildren(kind) if w.accessibleName() == name)


def type_into(qtbot, panel, name, text):
    field = field_of(panel, name)
    field.selectAll()
    qtbot.keyClicks(field, text) if text else qtbot.keyClick(field, Qt.Key.Key_Delete)
    qtbot.keyClick(field, Qt.Key.Key_Return)


def choose(qtbot, choice, data):
    """By a key, from the row beside it: without a screen Qt warns of lists that pop up."""
    row = choice.findData(data)
    choice.setCurrentIndex(row - 1 if row else 1)
    qtbot.keyClick(choice, Qt.Key.Key_Down if row else Qt.Key.Key_Up)


def told(panel):
    """A list that grows by what the user changes: a field of ChatSettings, or what a preset is
    wanted for, and its value.
    """
    said = panel.owner.heard
    presets = panel.presets.presets = Mock()
    presets.use = lambda name: said.append(("preset chosen", name))
    presets.save = lambda name: said.append(("preset saved", name))
    presets.rename = lambda name, new: said.append(("preset renamed", name, new))
    presets.delete = lambda name: said.append(("preset deleted", name))
    presets.use_for_new_chats = lambda: said.append("defaults wanted")
    return said
