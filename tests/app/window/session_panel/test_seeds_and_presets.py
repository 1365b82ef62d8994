"""Seeds and presets in the session panel."""

from panel_driving import FULL, find, type_into
from PySide6.QtWidgets import QPushButton, QToolButton

from app.window.controls.choices import DropDown
from mlx_engine.values.options import SamplingOptions


def test_the_lock_takes_the_last_seed_and_lets_it_go(panel, heard):
    panel.show_last_seed(816233)
    find(panel, QToolButton, "Lock the seed").click()
    find(panel, QToolButton, "Locked: draw a fresh seed for each answer").click()
    assert [sampling.seed for _, sampling in heard] == [816233, None]


def test_the_models_recommendation_keeps_a_locked_seed(panel, heard):
    panel.show_settings(FULL)
    button = next(b for b in panel.findChildren(QPushButton) if "recommendation" in b.text())
    button.click()
    assert heard == [("sampling_changed", SamplingOptions(0.6, top_k=20, seed=99))]
    assert not button.isEnabled()


def test_presets(qtbot, panel, heard):
    panel.show_presets(["Code", "Prose"])
    delete = find(panel, QToolButton, "Delete this preset")
    assert not delete.isEnabled()
    choice = find(panel, DropDown, "Preset")
    choice.setCurrentIndex(1)
    choice.activated.emit(1)
    delete.click()
    type_into(qtbot, panel, "Name of a new preset", "  Mine ")
    type_into(qtbot, panel, "Name of a new preset", "   ")
    next(b for b in panel.findChildren(QPushButton) if "defaults" in b.text()).click()
    assert heard == [
        ("preset_chosen", "Prose"),
        ("preset_deleted", "Prose"),
        ("preset_saved", "Mine"),
        ("defaults_wanted",),
    ]
