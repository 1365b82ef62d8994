"""Notes what the host waits for while a drafter drafts, and what the device is asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import pytest

from mlx_engine.decoding import round

WAITS = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__array__")


@dataclass
class Watched:
    """waits: by what the host waited in a draft. queued: arrays passed to `async_eval`."""

    drafts: int = 0
    waits: list[str] = field(default_factory=list)
    queued: list[mx.array] = field(default_factory=list)
    is_drafting: bool = False

    def noting(self, name: str, wait: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose calls in a draft are noted."""

        def noted(*given: Any) -> Any:
            if self.is_drafting:
                self.waits.append(name)
            return wait(*given)

        return noted


@contextmanager
def watched() -> Iterator[Watched]:
    """Context in which drafts of rounds are watched."""
    found, draft, async_eval = Watched(), round.draft_all, mx.async_eval

    def drafted(*given: Any) -> Any:
        found.drafts, found.is_drafting = found.drafts + 1, True
        try:
            return draft(*given)
        finally:
            found.is_drafting = False

    def queue(*arrays: Any) -> None:
        for array in arrays:
            found.queued.extend(array if isinstance(array, list | tuple) else [array])
        async_eval(*arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(round, "draft_all", drafted)
        patch.setattr(mx, "async_eval", queue)
        patch.setattr(mx, "eval", found.noting("eval", mx.eval))
        for name in WAITS:
            patch.setattr(mx.array, name, found.noting(name, getattr(mx.array, name)))
        yield found


def check(found: Watched, waits: int = 0) -> None:
    """The device has drafts to make, with so many waits for each; keys and values, of four axes,
    are never among what it is asked for by itself: they could not be written in place meanwhile.
    """
    assert found.drafts > 2
    assert len(found.waits) <= waits * found.drafts
    assert found.queued
    assert max(array.ndim for array in found.queued) < 4
