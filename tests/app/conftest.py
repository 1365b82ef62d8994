"""Qt without a screen."""

import pytest


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    return ["tests", "-platform", "offscreen"]
