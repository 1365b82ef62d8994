"""A panel on show, and what it says."""

import pytest


@pytest.fixture
def panel(qtbot):
    from panel_driving import CAN

    from app.window.session_panel.session_panel import SessionPanel

    widget = SessionPanel()
    qtbot.addWidget(widget)
    widget.show_model(None, CAN)
    widget.show()
    return widget


@pytest.fixture
def heard(panel):
    from panel_driving import told

    return told(panel)
