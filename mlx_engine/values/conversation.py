"""Messages of a conversation, and the result of a raw generation."""

from dataclasses import dataclass
from typing import Literal

from mlx_engine.values.events import FinishReason
from mlx_engine.values.stats import GenerationStats

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `thinking` is the model's reasoning, kept apart from `text`."""

    role: Role
    text: str
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """What `Engine.generate` returns; `tokens` leaves out the end token."""

    text: str
    tokens: tuple[int, ...]
    stats: GenerationStats
    finish_reason: FinishReason
