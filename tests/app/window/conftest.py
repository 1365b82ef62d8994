"""Looks and languages to try: the application in them, and in the usual ones afterwards."""

import pytest


@pytest.fixture
def wear(qapp):
    """Dresses the application in a scheme at a zoom, and controls that are in no part of a window
    as well.
    """
    from app.window.look import look
    from app.window.style_sheet import dress, style_sheet

    def wear(scheme, zoom):
        list(dress(qapp, scheme, zoom))
        qapp.setStyleSheet("")
        qapp.setStyleSheet(style_sheet(look()))

    yield wear
    list(dress(qapp, "light", 1.0))
    qapp.setStyleSheet("")


@pytest.fixture(params=["light", "dark"])
def theme(request, wear):
    """Each theme in turn, and the application wears it."""
    from app.window.look import load_theme

    wear(request.param, 1.0)
    return load_theme(request.param)
