"""Themes and languages to try: the application in them, and in the usual ones afterwards."""

import pytest


@pytest.fixture
def wear(qapp):
    """Applies a scheme at a text zoom, as the app does."""
    from app.window.style_sheet import apply_theme

    yield lambda scheme, zoom: apply_theme(qapp, scheme, zoom)
    apply_theme(qapp, "light", 1.0)
    qapp.setStyleSheet("")


@pytest.fixture(params=["light", "dark"])
def theme(request, wear):
    """Each theme in turn, and the application wears it."""
    from app.window.look import load_theme

    wear(request.param, 1.0)
    return load_theme(request.param)
