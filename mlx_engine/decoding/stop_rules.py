"""When an answer ends: end tokens, the token budget, a full context."""

from dataclasses import dataclass

from mlx_engine.values.events import FinishReason


@dataclass(frozen=True, slots=True)
class StopRules:
    """Limits of one answer; stop strings are the business of the text (text/streaming_text.py).

    end_ids: tokens that end it, empty to ignore them. max_tokens: None for no budget.
    context_length: tokens of conversation at most.
    """

    end_ids: frozenset[int]
    max_tokens: int | None
    context_length: int

    def finish(self, token: int, generated: int, position: int) -> FinishReason | None:
        """Whether `token`, the `generated`-th of the answer, at index `position`, is the last."""
        if token in self.end_ids:
            return "end"
        if self.max_tokens is not None and generated >= self.max_tokens:
            return "max-tokens"
        if position + 1 >= self.context_length:
            return "context-full"
        return None

    def deepest(self, generated: int, read: int) -> int:
        """The longest draft that could still be used, `read` tokens having been read."""
        room = self.context_length - read - 2
        budget = room if self.max_tokens is None else self.max_tokens - generated - 1
        return max(0, min(room, budget))
