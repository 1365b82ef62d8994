"""What an answer goes on from, read in chunks until one token is left for the first round."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.values.conversation import Message, PromptProgress

LONGEST_LEAD_IN = 24
"""Tokens a template may put before an answer ("<|im_start|>assistant\\n<think>\\n")."""

NOTHING_SAID = Message("assistant", "")


class Opening(NamedTuple):
    """The beginning of an answer.

    prompt: at least one token. stable: how many of them the next turn's prompt is sure to begin
    with. thinking_open: the prompt ends inside a think block. answered: this answer's first tokens,
    when it is continued. said: its beginning where only the text is known (it is then part of the
    prompt).
    """

    prompt: tuple[int, ...]
    stable: int
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


def prefill(
    sequence: TokenSequence, opening: Opening, chunk: int, stopped: Callable[[], bool]
) -> Iterator[PromptProgress]:
    """Read all tokens of the opening but the last; ends early, between chunks, when `stopped`.

    What an earlier turn has read is reused. After the stable tokens the sequence makes a checkpoint
    to come back to; without effect where it is already past them.
    """
    prompt = opening.tokens
    reused = sequence.reuse(prompt)
    last = len(prompt) - 1
    yield PromptProgress(reused, len(prompt), reused)
    while not stopped():
        start = len(sequence.tokens)
        if start == opening.stable:
            sequence.mark()
        if start == last:
            return
        stops = [place for place in (opening.stable, last) if place > start]
        tokens = prompt[start : min(start + chunk, *stops)]
        hidden = sequence.adapter.forward(mx.array([tokens]), sequence.caches)
        sequence.commit(tokens, hidden)
        sequence.settle()
        yield PromptProgress(len(sequence.tokens), len(prompt), reused)
