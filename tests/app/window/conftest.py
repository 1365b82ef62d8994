"""Looks to try: the application dressed in them, and itself again afterwards."""

import pytest


@pytest.fixture
def wear(qapp):
    """Dresses the application in a scheme at a zoom."""
    from app.window.style_sheet import dress

    palette, font, sheet = qapp.palette(), qapp.font(), qapp.styleSheet()
    yield lambda scheme, zoom: dress(qapp, scheme, zoom)
    qapp.setPalette(palette)
    qapp.setFont(font)
    qapp.setStyleSheet(sheet)


@pytest.fixture(params=["light", "dark"])
def theme(request, wear):
    """Each theme in turn, and the application wears it."""
    from app.window.look import load_theme

    wear(request.param, 1.0)
    return load_theme(request.param)
