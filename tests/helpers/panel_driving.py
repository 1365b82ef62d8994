"""Values for the session panel in tests, and steps a user takes in it."""

from unittest.mock import Mock

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from seen import find

from app.values.chat_settings import ChatSettings, SamplingChoice
from app.window.session_panel.abilities import (
    ModelAbilities,
    SourceAbility,
)
from mlx_engine.values.options import DraftOptions, GenerationOptions, LoadOptions, SamplingOptions

FULL = ChatSettings(
    system="Be brief.",
    draft=DraftOptions("mtp", 2, 0.25, "greedy"),
    sampling=SamplingChoice(0.3, 40, 0.9, 0.05, 1.1, 0.2, -0.3, 99),
    generation=GenerationOptions(200, ("END", "\n\n")),
    load=LoadOptions(numerics="fast"),
)
WHY = "This model has no MTP heads; it runs without drafting."
CAN = ModelAbilities((SourceAbility("mtp", 3),), "exact", "", SamplingOptions(0.6, top_k=20))
CANNOT = ModelAbilities((SourceAbility("mtp", 0, WHY),), "fast", "Rows differ here.")


def type_into(qtbot, panel, name, text):
    field = find(panel, QLineEdit, name)
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
    said = []
    panel.fields.changed.connect(lambda changes: said.extend(changes.items()))
    presets = panel.presets.presets = Mock()
    presets.use = lambda name: said.append(("preset chosen", name))
    presets.save = lambda name: said.append(("preset saved", name))
    presets.rename = lambda name, new: said.append(("preset renamed", name, new))
    presets.delete = lambda name: said.append(("preset deleted", name))
    presets.use_for_new_chats = lambda: said.append("defaults wanted")
    return said
