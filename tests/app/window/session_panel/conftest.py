"""A panel on show, and what it says."""

import pytest


@pytest.fixture
def panel(qtbot):
    from panel_driving import CAN, Owner

    from app.window.session_panel.session_panel import SessionPanel

    widget = SessionPanel()
    qtbot.addWidget(widget)
    widget.owner = owner = Owner(widget)
    widget.settings.watch(lambda: owner.settings, owner.change, owner.changed)
    widget.show_model(None, CAN)
    widget.show()
    return widget


@pytest.fixture
def heard(panel):
    from panel_driving import told

    return told(panel)
