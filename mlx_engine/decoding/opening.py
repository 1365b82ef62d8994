"""What an answer goes on from: the prompt, and what it has already said."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from mlx_engine.values.conversation import Message

LONGEST_LEAD_IN = 24
"""Tokens a template may put before an answer ("<|im_start|>assistant\\n<think>\\n")."""

NOTHING_SAID = Message("assistant", "")


class Opening(NamedTuple):
    """The beginning of an answer.

    prompt: at least one token. thinking_open: the prompt ends inside a think block. answered: this
    answer's first tokens, when it is continued. said: its beginning where only the text is known
    (it is then part of the prompt).
    """

    prompt: tuple[int, ...]
    thinking_open: bool = False
    answered: tuple[int, ...] = ()
    said: Message = NOTHING_SAID

    @property
    def tokens(self) -> tuple[int, ...]:
        """Everything that stands before the next token."""
        return self.prompt + self.answered


def stable_length(prompt: tuple[int, ...], special_ids: AbstractSet[int]) -> int:
    """How much of a chat prompt the next turn's prompt is sure to begin with.

    What a template puts before an answer may be gone from the history ("<think>"): it starts at
    the last special token. Where there is none near the end, all but the last token.
    """
    end = len(prompt) - 1
    for start in range(end, max(0, end - LONGEST_LEAD_IN), -1):
        if prompt[start] in special_ids:
            return start
    return end
