"""Engines that are made for an answer or two find out nothing behind them."""

from collections.abc import Iterator

import pytest

LONGEST_S = "mlx_engine.self_check.between_answers.LONGEST_S"


@pytest.fixture(scope="module", autouse=True)
def _nothing_behind_answers() -> Iterator[None]:
    """What passes cost is half of their work; what it is presumed to be is drafted with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LONGEST_S, -1.0)
        yield


@pytest.fixture
def a_little_behind_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that ask for what is found out there."""
    monkeypatch.setattr(LONGEST_S, 0.5)
