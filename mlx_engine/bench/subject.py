"""What is measured: an engine, as far as the bench needs it."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mlx_engine.decoding.parts import ModelParts
from mlx_engine.drafting.depth.costs import PassCosts
from mlx_engine.values.conversation import Generation
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOptions, SamplingOptions


class Subject(Protocol):
    """A loaded engine (engine.py)."""

    @property
    def description(self) -> ModelDescription:
        """What was loaded."""

    @property
    def parts(self) -> ModelParts:
        """Adapter, tokenizer and template."""

    @property
    def pass_costs(self) -> PassCosts:
        """What passes cost here."""

    def generate(
        self,
        prompt: str | Sequence[int],
        max_tokens: int | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
    ) -> Generation:
        """Continue a raw prompt."""

    def tokenize(self, text: str) -> list[int]:
        """Text to tokens."""

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Teacher-forced logits."""

    def draft_logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Teacher-forced logits of the heads."""


PLAIN = DraftOptions(source="none")


def pinned(depth: int) -> DraftOptions:
    """Drafting at one depth; 0 is plain decoding."""
    return DraftOptions(depth=depth) if depth else PLAIN
