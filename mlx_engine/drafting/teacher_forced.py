"""What each MTP head predicts along a known text, as it would in a draft that is right so far."""

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.drafting.chained_mtp_draft import HeadMemory
from mlx_engine.drafting.mtp_draft import Rows
from mlx_engine.models.contract import Adapter


def teacher_forced(adapter: Adapter, tokens: mx.array, hidden: mx.array) -> NDArray[np.float32]:
    """Float32 logits [heads, T - 1, V] from int tokens [T] and their hidden states [1, T, H].

    Row t of head h is for token t + 2 + h: hidden states are the model's up to position t, tokens
    t + 2 to t + 1 + h count as drafted, each with the state of the head whose turn it was. The
    last h rows of head h have no such tokens and are NaN.
    """
    heads, rows = adapter.mtp_depth, tokens.shape[0] - 1
    if heads == 0 or rows == 0:
        return np.zeros((heads, rows, adapter.vocabulary), np.float32)
    if not adapter.later_heads:
        states = adapter.mtp_forward(tokens[None, 1:], hidden[:, :-1], adapter.make_head_caches())
        return np.array(adapter.mtp_logits(states))
    made = np.full((heads, rows, adapter.vocabulary), np.nan, np.float32)
    memories = [HeadMemory(head) for head in (adapter, *adapter.later_heads)]
    for row in range(rows):
        drafted: list[Rows] = []
        for turn, memory in enumerate(memories):
            memory.add([Rows(tokens[row + 1 : row + 2], hidden[:, row : row + 1])])
            if row + turn < rows:
                state = memory.read(drafted)[:, -1:]
                made[turn, row] = np.array(memory.head.mtp_logits(state)[0, 0])
                drafted.append(Rows(tokens[row + turn + 2 : row + turn + 3], state))
    return made
