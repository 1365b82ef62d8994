"""Whether the built-in model loads, answers, and says the same with drafting on and off."""

from collections.abc import Callable
from typing import Protocol

from mlx_engine.doctor.finding import Finding
from mlx_engine.values.conversation import Generation
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import DraftOptions, SamplingOptions

PROMPT = "Hello"
LENGTH = 24
DEPTH = 2
GREEDY = SamplingOptions(temperature=0)


class Generates(Protocol):
    """The part of an engine these checks use."""

    def generate(
        self, prompt: str, *, max_tokens: int, sampling: SamplingOptions, draft: DraftOptions
    ) -> Generation:
        """Continue a raw prompt."""

    def close(self) -> None:
        """Give the memory back."""


def check_built_in_model(load: Callable[[], Generates]) -> list[Finding]:
    """Fail when it cannot be loaded or says nothing; warn when drafting changes its words."""
    try:
        engine = load()
        try:
            plain = _generate(engine, 0)
            drafted = _generate(engine, DEPTH)
        finally:
            engine.close()
    except EngineError as error:
        return [Finding("built-in", "fail", str(error))]
    return [_answers(plain), _same_words(plain, drafted)]


def _generate(engine: Generates, depth: int) -> Generation:
    draft = DraftOptions(depth=depth)
    return engine.generate(PROMPT, max_tokens=LENGTH, sampling=GREEDY, draft=draft)


def _answers(plain: Generation) -> Finding:
    if not plain.text.strip():
        return Finding("built-in", "fail", "the built-in model loaded but said nothing")
    speed = plain.stats.tokens_per_second
    return Finding("built-in", "ok", f"loads and answers, {speed:.0f} tok/s without drafting")


def _same_words(plain: Generation, drafted: Generation) -> Finding:
    if plain.text != drafted.text:
        return Finding("same words", "warn", "the text with drafting differs from the plain text")
    if not drafted.stats.drafted:
        return Finding("same words", "warn", "nothing was drafted, so there is nothing to compare")
    counts = f"{drafted.stats.accepted} of {drafted.stats.drafted}"
    return Finding("same words", "ok", f"drafting changes none; {counts} drafted tokens accepted")
