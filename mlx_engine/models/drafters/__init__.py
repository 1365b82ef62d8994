"""Draft models published apart from their target, which read what the target computes."""

from collections.abc import Callable
from functools import cached_property

from mlx_engine.models.contract import Model
from mlx_engine.models.drafters.dflash import DFlash
from mlx_engine.models.drafters.eagle3 import Eagle3
from mlx_engine.models.drafters.gemma4_assistant import Gemma4Assistant
from mlx_engine.values.errors import Reason

Drafter = Eagle3 | Gemma4Assistant | DFlash
"""Each has `target`, to be run in the target's place, `arrays` and `check_values`."""


class SmallModel:
    """A model that can draft for the target, read when it is first used.

    read: a whole model with the target's tokens, or one that reads what the target computes. share:
    its weights over those of the target. why_not: why it cannot draft for this target.
    """

    def __init__(
        self,
        read: Callable[[], Model | Drafter],
        share: float = 0.0,
        why_not: Reason | None = None,
    ) -> None:
        self._read, self.share, self.why_not = read, share, why_not

    @cached_property
    def opened(self) -> Model | Drafter:
        """In memory. Raises EngineError."""
        return self._read()
