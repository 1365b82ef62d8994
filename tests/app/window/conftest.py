"""Looks and languages to try: the application in them, and in the usual ones afterwards."""

import pytest


@pytest.fixture
def dressed(qapp):
    """Dresses whole windows in a scheme at a zoom, as the app does."""
    from app.window.style_sheet import dress

    yield lambda scheme, zoom: list(dress(qapp, scheme, zoom))
    list(dress(qapp, "light", 1.0))


@pytest.fixture
def wear(qapp, dressed):
    """Controls that are in no part of a window as well, which takes long where there are many."""
    from app.window.look import look
    from app.window.style_sheet import style_sheet

    def wear(scheme, zoom):
        dressed(scheme, zoom)
        qapp.setStyleSheet("")
        qapp.setStyleSheet(style_sheet(look()))

    yield wear
    qapp.setStyleSheet("")


@pytest.fixture(params=["light", "dark"])
def theme(request, wear):
    """Each theme in turn, and the application wears it."""
    from app.window.look import load_theme

    wear(request.param, 1.0)
    return load_theme(request.param)
