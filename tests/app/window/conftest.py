"""Looks and languages to try: the application in them, and in the usual ones afterwards."""

import pytest


@pytest.fixture
def wear(qapp):
    """Dresses the application in a scheme at a zoom."""
    from windows import undress

    from app.window.style_sheet import dress

    yield lambda scheme, zoom: dress(qapp, scheme, zoom)
    dress(qapp, "light", 1.0)
    undress()


@pytest.fixture(params=["light", "dark"])
def theme(request, wear):
    """Each theme in turn, and the application wears it."""
    from app.window.look import load_theme

    wear(request.param, 1.0)
    return load_theme(request.param)
