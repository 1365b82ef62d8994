"""Prefill: the prompt of an answer, and how the model reads it."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.drafter import ROWS_OF_A_PROMPT
from mlx_engine.values.conversation import Message, PromptProgress

MAX_LEAD_IN_TOKENS = 24
"""Tokens a template may put before an answer ("<|im_start|>assistant\\n<think>\\n")."""

EMPTY_ANSWER = Message("assistant", "")


class Prompt(NamedTuple):
    """The tokens of an answer's prompt, and what is known about them.

    ids: tokens, one at least. stable: how many of them the next turn's prompt begins with, too.
    thinking_open: whether a thought is open at the end, None if the template does not tell.
    answered: first tokens of the answer, if it is continued. said: beginning of the answer, if only
    its text is known (it is then part of `ids`). shared: how many of `ids` the prompts of other
    chats probably begin with, too.
    """

    ids: tuple[int, ...]
    stable: int
    thinking_open: bool | None = None
    answered: tuple[int, ...] = ()
    said: Message = EMPTY_ANSWER
    shared: int = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens before the next one to generate: the prompt's, and a continued answer's."""
        return self.ids + self.answered


def stable_length(prompt: tuple[int, ...], special_ids: AbstractSet[int]) -> int:
    """Number of tokens of a chat prompt that the prompt of the next turn begins with, too.

    Tokens that a template puts before an answer ("<think>") may be left out of the history. They
    start at the last special token; without one near the end, all tokens but the last are stable.
    """
    end = len(prompt) - 1
    for start in range(end, max(0, end - MAX_LEAD_IN_TOKENS), -1):
        if prompt[start] in special_ids:
            return start
    return end


def prefill(
    sequence: SequenceState, prompt: Prompt, chunk: int, stopped: Callable[[], bool]
) -> Iterator[PromptProgress]:
    """Read all tokens of the prompt but the last; end early, between chunks, when `stopped`.

    Tokens that an earlier turn or another conversation has read are reused; a new draft source that
    runs a model reads them first. Checkpoints are made after the shared tokens, after the stable
    tokens, and on a long way to them. MTP heads read at the first two of these, and only tokens
    near before them: hidden states of all other tokens are not computed. Chunks are the same with
    and without heads.
    """
    tokens = prompt.tokens
    reused = min(sequence.reuse(tokens), sequence.drafter_length)
    last = len(tokens) - 1
    yield PromptProgress(reused, len(tokens), reused)
    while not stopped():
        start = len(sequence.tokens)
        if sequence.drafter_length < start:
            sequence.catch_up(chunk)
            yield PromptProgress(sequence.drafter_length, len(tokens), reused)
            continue
        if start and start in (prompt.shared, prompt.stable):
            head_rows = sequence.add_checkpoint()
            if head_rows:
                yield PromptProgress(start, len(tokens), reused, head_rows)
        if start == last:
            return
        sequence.add_checkpoint_if_far()
        marks = [place for place in (prompt.shared, prompt.stable) if place > start]
        near = [place - ROWS_OF_A_PROMPT - 1 for place in marks]
        is_far = bool(near) and start < min(near)
        stops = [place for place in (*marks, *near, last) if place > start]
        part = tokens[start : min(start + chunk, *stops)]
        hidden = sequence.model.forward(mx.array([part]), sequence.caches)
        sequence.read(part, hidden, is_far=is_far)
        sequence.evaluate()
        yield PromptProgress(len(sequence.tokens), len(tokens), reused)
