"""Whether the built-in model loads and answers."""

from collections.abc import Callable
from typing import Protocol

from mlx_engine.doctor.finding import Finding
from mlx_engine.values.conversation import Generation
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import SamplingOptions

QUESTION = "Hello"
LENGTH = 16


class Generates(Protocol):
    """The part of an engine this check uses."""

    def generate(self, prompt: str, *, max_tokens: int, sampling: SamplingOptions) -> Generation:
        """Continue a raw prompt."""

    def close(self) -> None:
        """Give the memory back."""


def check_built_in_model(load: Callable[[], Generates]) -> Finding:
    """Fail when it cannot be loaded or says nothing."""
    try:
        engine = load()
        try:
            greedy = SamplingOptions(temperature=0)
            made = engine.generate(QUESTION, max_tokens=LENGTH, sampling=greedy)
        finally:
            engine.close()
    except EngineError as error:
        return Finding("built-in", "fail", str(error))
    if not made.text.strip():
        return Finding("built-in", "fail", "the built-in model loaded but said nothing")
    speed = f"{made.stats.tokens_per_second:.0f} tok/s"
    drafted = f"{made.stats.accepted} of {made.stats.drafted} drafted tokens accepted"
    return Finding("built-in", "ok", f"loads and answers, {speed}, {drafted}")
