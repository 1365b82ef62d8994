"""One message as the transcript shows it: plain values."""

from dataclasses import dataclass
from typing import Literal

from app.window.transcript.drafted_spans import DraftedSpan
from mlx_engine.values.stats import GenerationStats

Role = Literal["user", "assistant"]
State = Literal["live", "done", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message of the branch on show.

    spans, thinking_spans: what was drafted, offsets in `text` and in `thinking`, sorted.
    stats: None while the answer runs and for the user's messages. branch_index: 0-based, of
    branch_count alternatives. notice: a line under the text, such as why it failed or ended.
    """

    id: int
    role: Role
    text: str
    thinking: str = ""
    thinking_seconds: float | None = None
    spans: tuple[DraftedSpan, ...] = ()
    stats: GenerationStats | None = None
    state: State = "done"
    branch_index: int = 0
    branch_count: int = 1
    notice: str = ""
    thinking_spans: tuple[DraftedSpan, ...] = ()
