"""The prompt of an answer, and how it is read."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.drafter import ROWS_OF_A_PROMPT
from mlx_engine.values.conversation import Message, PromptProgress

LONGEST_LEAD_IN = 24
"""Tokens a template may put before an answer ("<|im_start|>assistant\\n<think>\\n")."""

NOTHING_SAID = Message("assistant", "")


class Prompt(NamedTuple):
    """What an answer goes on from.

    ids: at least one token. stable: how many of them the next turn's prompt is sure to begin with.
    thinking_open: whether a thought is open at their end, None where the template does not tell.
    answered: this answer's first tokens, when it is continued. said: the answer's beginning where
    only its text is known (it is then part of the ids). shared: how many of them other
    conversations may well begin with, too.
    """

    ids: tuple[int, ...]
    stable: int
    thinking_open: bool | None = None
    answered: tuple[int, ...] = ()
    said: Message = NOTHING_SAID
    shared: int = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """Everything that stands before the next token."""
        return self.ids + self.answered


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


def prefill(
    sequence: SequenceState, prompt: Prompt, chunk: int, stopped: Callable[[], bool]
) -> Iterator[PromptProgress]:
    """Read all tokens of the prompt but the last; ends early, between chunks, when `stopped`.

    What an earlier turn, or another conversation, has read is reused; a draft source that runs a
    model, and is new here, reads that first. The sequence makes a checkpoint to come back to after
    the shared tokens, after the stable ones, and on a long way to them; none where it is past them.
    Heads read at the first two of these, and only what is near before them: hidden states of all
    else are not computed. A prompt is read in the same parts with and without heads.
    """
    tokens = prompt.tokens
    reused = min(sequence.reuse(tokens), sequence.followed)
    last = len(tokens) - 1
    yield PromptProgress(reused, len(tokens), reused)
    while not stopped():
        start = len(sequence.tokens)
        if sequence.followed < start:
            sequence.catch_up(chunk)
            yield PromptProgress(sequence.followed, len(tokens), reused)
            continue
        if start and start in (prompt.shared, prompt.stable):
            head_rows = sequence.mark()
            if head_rows:
                yield PromptProgress(start, len(tokens), reused, head_rows)
        if start == last:
            return
        sequence.mark_if_far()
        marks = [place for place in (prompt.shared, prompt.stable) if place > start]
        near = [place - ROWS_OF_A_PROMPT - 1 for place in marks]
        is_far = bool(near) and start < min(near)
        stops = [place for place in (*marks, *near, last) if place > start]
        part = tokens[start : min(start + chunk, *stops)]
        hidden = sequence.model.forward(mx.array([part]), sequence.caches)
        sequence.read(part, hidden, is_far=is_far)
        sequence.settle()
        yield PromptProgress(len(sequence.tokens), len(tokens), reused)
