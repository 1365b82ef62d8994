"""What a model and its MTP heads say along a known text, in memory that a few rows take.

Hidden states are read in chunks, as a prompt is, and logits are made ROWS at a time: a pass of so
few rows reads an output head in the blocks of its file, where more rows would unpack all of it
while no kernel for many rows is in use (a Q6_K head of 248k x 5120 takes 1.0 GB, and 5.1 GB
unpacked beside the product's own float32).
"""

from collections.abc import Callable, Iterator, Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.decoding.device_memory import clear_by_tokens
from mlx_engine.drafting.contract import Rows
from mlx_engine.drafting.head_memory import HeadMemory
from mlx_engine.drafting.steps import take_one
from mlx_engine.models.contract import Model
from mlx_engine.models.few_rows import MOST_OF_BLOCKS as ROWS
from mlx_engine.values.options import CacheBits


def hidden_states(
    model: Model, tokens: Sequence[int], chunk: int, bits: CacheBits = 16
) -> mx.array:
    """Tokens [T], one at least -> [1, T, H], read from the beginning in chunks over a cache of so
    many bits.
    """
    caches = model.make_caches(bits)
    parts: list[mx.array] = []
    for start in range(0, len(tokens), chunk):
        piece = tokens[start : start + chunk]
        parts.append(model.forward(mx.array([list(piece)]), caches))
        caches.commit(len(piece))
        mx.eval(parts[-1], caches.arrays())
        clear_by_tokens(start, start + len(piece))
    return mx.concatenate(parts, axis=1)


def by_rows(logits: Callable[[mx.array], mx.array], states: mx.array) -> Iterator[mx.array]:
    """States [1, T, H] through an output head, float32 [rows, V] at a time."""
    for start in range(0, states.shape[1], ROWS):
        yield logits(states[:, start : start + ROWS]).squeeze(0)


def trunk_logits(model: Model, hidden: mx.array) -> NDArray[np.float32]:
    """Hidden states [1, T, H] -> [T, V]; row t scores token t + 1."""
    made = np.empty((hidden.shape[1], model.vocabulary), np.float32)
    return _filled(made, by_rows(model.logits, hidden))


def head_logits(
    model: Model, tokens: mx.array, hidden: mx.array, bits: CacheBits = 16
) -> NDArray[np.float32]:
    """What each head predicts, as it would in a draft that is right so far.

    Float32 logits [heads, T - 1, V] from int tokens [T] and their hidden states [1, T, H]. Row t of
    head h is for token t + 2 + h: hidden states are the model's up to position t, tokens t + 2 to
    t + 1 + h count as drafted, each with the state of the head whose turn it was. The last h rows
    of head h have no such tokens and are NaN. bits: of the heads' keys and values.
    """
    heads, rows = model.heads, tokens.shape[0] - 1
    made = np.full((len(heads), rows, model.vocabulary), np.nan, np.float32)
    if not heads or rows == 0:
        return made
    if len(heads) == 1:
        caches = heads[0].make_head_caches(bits)
        states = heads[0].mtp_forward(tokens[None, 1:], hidden[:, :-1], caches)
        _filled(made[0], by_rows(heads[0].mtp_logits, states))
        return made
    memories = [HeadMemory.of(head, bits) for head in heads]
    for row in range(rows):
        drafted: list[Rows] = []
        for turn, memory in enumerate(memories):
            memory.wait(Rows(tokens[row + 1 : row + 2], hidden[:, row : row + 1]))
            if row + turn < rows:
                state = take_one(memory.read(drafted))[:, -1:]
                made[turn, row] = np.array(heads[turn].mtp_logits(state)[0, 0].astype(mx.float32))
                drafted.append(Rows(tokens[row + turn + 2 : row + turn + 3], state))
    return made


def _filled(made: NDArray[np.float32], parts: Iterator[mx.array]) -> NDArray[np.float32]:
    """`made` with the parts in its rows, one evaluated after the other."""
    row = 0
    for part in parts:
        made[row : row + part.shape[0]] = np.array(part.astype(mx.float32))
        row += part.shape[0]
    return made
