"""Teacher-forced logits of a model and its MTP heads, and a check whether the heads fit the model.

Hidden states are computed in chunks, as for a prompt, and logits ROWS at a time: a product of so
few rows reads an output head in the blocks of its GGUF, where more rows would unpack all of it (a
Q6_K head of 248k x 5120 takes 1.0 GB, and 5.1 GB unpacked).

A head of another model, or with tensors read the wrong way, raises no error; its drafts are hardly
ever accepted. Where the model is sure of the next token, a head that fits often drafts that token.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.tile_product import MOST_ROWS as ROWS
from mlx_engine.drafting.contract import UnreadRowArrays
from mlx_engine.drafting.drafter import HeadMemory
from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import token_scores
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import CacheBits
from mlx_engine.values.words import Words

TEXT = '''The answer is yes. Here is a short example in Python:

def read_lines(path):
    """Return the lines of a file."""
    with open(path) as file:
        return [line.strip() for line in file if line.strip()]

First we open the file, then we read the lines one by one, and at the end we close the file.
'''
"""The checked text, prose and code: a trained model is sure of some tokens of it."""

MOST_TOKENS = 64
"""Tokens of TEXT that are read, so that the check costs as much as a prompt of this length."""

FIRST_ROWS = 4
"""Rows at the start that do not count: a head has hardly any context there."""

SURE_PROBABILITY = 0.3
"""Probability of the likeliest token from which on the model counts as sure."""

FEWEST_JUDGED = 12
"""Rows with a sure model that a verdict needs; models with random weights have none."""

LEAST_AGREEMENT = 0.15
"""Share of agreement below which a head does not fit.

Measured (tests/speed/head_fit.py): heads that fit agree in 0.34 and 0.92 of such rows, the first in
a text unlike its training; with norms one too low, halves of the input swapped, or another model's
head at most in 0.08. The check does not see a hidden state taken before the final norm, or norms
one too high: these lower acceptance less than texts differ.
"""


def hidden_states(
    model: Model, tokens: Sequence[int], chunk: int, bits: CacheBits = 16
) -> mx.array:
    """Compute a model's hidden states [1, T, H] of tokens [T], T > 0, in chunks.

    bits: of keys and values in the caches.
    """
    caches = model.make_caches(bits)
    parts: list[mx.array] = []
    for start in range(0, len(tokens), chunk):
        piece = tokens[start : start + chunk]
        parts.append(model.forward(mx.array([list(piece)]), caches))
        caches.commit(len(piece))
        mx.eval(parts[-1], caches.arrays())
        mx.clear_cache()
    return mx.concatenate(parts, axis=1)


def logits_in_chunks(
    logits: Callable[[mx.array], mx.array], states: mx.array
) -> Iterator[mx.array]:
    """Apply an output head to states [1, T, H]; yields logits [rows, V] of ROWS rows at a time."""
    for start in range(0, states.shape[1], ROWS):
        yield logits(states[:, start : start + ROWS]).squeeze(0)


def trunk_logits(model: Model, hidden: mx.array) -> NDArray[np.float32]:
    """Logits [T, V] of hidden states [1, T, H]; row t scores token t + 1."""
    made = np.empty((hidden.shape[1], model.vocabulary), np.float32)
    return _write_rows(made, logits_in_chunks(model.logits, hidden))


class TokenLogprobs(NamedTuple):
    """Log-probabilities along a text of T tokens; row t scores token t + 1.

    chosen: of the text's own tokens, float32 [T - 1]. top_ids, top: the likeliest tokens of each
    row, the likeliest first, int32 and float32 [T - 1, k].
    """

    chosen: NDArray[np.float32]
    top_ids: NDArray[np.int32]
    top: NDArray[np.float32]


def token_logprobs(
    model: Model, tokens: Sequence[int], hidden: mx.array, top: int
) -> TokenLogprobs:
    """Log-probabilities of tokens [T] by hidden states [1, T, H]; top: k of the result."""
    rows = len(tokens) - 1
    found = TokenLogprobs(
        np.empty(rows, np.float32),
        np.empty((rows, top), np.int32),
        np.empty((rows, top), np.float32),
    )
    start = 0
    for piece in logits_in_chunks(model.logits, hidden[:, :-1]):
        end = start + piece.shape[0]
        own = mx.array([*tokens[start + 1 : end + 1]])
        scores = token_scores(piece, own, top)
        found.chosen[start:end] = np.array(scores.chosen)
        found.top_ids[start:end] = np.array(scores.top_ids)
        found.top[start:end] = np.array(scores.top)
        start = end
    return found


def head_logits(
    model: Model, tokens: mx.array, hidden: mx.array, bits: CacheBits = 16
) -> NDArray[np.float32]:
    """Logits [heads, T - 1, V] of each head along a text, as in a draft that is right so far.

    tokens: int [T]. hidden: the model's hidden states [1, T, H]. Row t of head h scores token
    t + 2 + h. It uses the model's hidden states up to position t; tokens t + 2 to t + 1 + h count
    as drafted, each with the state of the head that drafted it. The last h rows of head h lack such
    tokens and are NaN. bits: of the heads' keys and values.
    """
    heads, rows = model.heads, tokens.shape[0] - 1
    made = np.full((len(heads), rows, model.vocabulary), np.nan, np.float32)
    if not heads or rows == 0:
        return made
    if len(heads) == 1:
        caches = heads[0].make_head_caches(bits)
        states = heads[0].mtp_forward(tokens[None, 1:], hidden[:, :-1], caches)
        _write_rows(made[0], logits_in_chunks(heads[0].mtp_logits, states))
        return made
    memories = [HeadMemory(head, bits) for head in heads]
    for row in range(rows):
        drafted: list[UnreadRowArrays] = []
        for turn, memory in enumerate(memories):
            memory.add_unread_rows(
                UnreadRowArrays(tokens[row + 1 : row + 2], hidden[:, row : row + 1])
            )
            if row + turn < rows:
                state = memory.read_rows(drafted)[:, -1:]
                made[turn, row] = np.array(heads[turn].mtp_logits(state)[0, 0].astype(mx.float32))
                drafted.append(UnreadRowArrays(tokens[row + turn + 2 : row + turn + 3], state))
    return made


def _write_rows(
    target_array: NDArray[np.float32], parts: Iterator[mx.array]
) -> NDArray[np.float32]:
    """Copy arrays of rows into `target_array`, evaluated one by one; returns `target_array`."""
    row = 0
    for part in parts:
        target_array[row : row + part.shape[0]] = np.array(part.astype(mx.float32))
        row += part.shape[0]
    return target_array


class HeadFit(NamedTuple):
    """How often an MTP head agrees with its model: rows where the model was sure, and agreed."""

    judged: int
    agreed: int

    @property
    def agreement_share(self) -> float:
        """Share of rows where the MTP head agreed with its model, of those where that was sure.

        0 where there is no such row.
        """
        return self.agreed / self.judged if self.judged else 0.0

    @property
    def is_mismatched(self) -> bool:
        """Whether the MTP head agrees so rarely with the model that it can hardly belong to it."""
        return self.judged >= FEWEST_JUDGED and self.agreement_share < LEAST_AGREEMENT


def measure_fit(model: Model, tokens: Sequence[int]) -> HeadFit:
    """Compare the first MTP head's choices with the model's on a text; at most MOST_TOKENS."""
    if len(tokens) < FEWEST_JUDGED:  # a tokenizer that lacks most of the text
        return HeadFit(0, 0)
    read = mx.array([list(tokens)[:MOST_TOKENS]])
    hidden = model.forward(read, model.make_caches())
    first = model.heads[0]
    states = first.mtp_forward(read[:, 1:], hidden[:, :-1], first.make_head_caches())
    said = logits_in_chunks(model.logits, hidden[:, 1 + FIRST_ROWS :])
    drafted = logits_in_chunks(first.mtp_logits, states[:, FIRST_ROWS:])
    judged, agreed = 0, 0
    for trunk, head in zip(said, drafted, strict=True):
        sure = np.array(mx.softmax(trunk, axis=-1).max(axis=-1) >= SURE_PROBABILITY)
        agrees = np.array(mx.argmax(head, axis=-1) == mx.argmax(trunk, axis=-1))
        judged += int(sure.sum())
        agreed += int((sure & agrees).sum())
    return HeadFit(judged, agreed)


def with_head_check(loaded: LoadedModel, description: ModelDescription) -> ModelDescription:
    """Return the model's description, with a reason where its MTP heads do not fit it.

    Reads the heads' weights. Usual causes: heads of another model or of another training of it;
    norm weights stored with or without 1 added; heads made for the hidden state at another place.
    """
    fit = measure_fit(loaded.model, loaded.tokenizer.encode(TEXT, add_special=True))
    if not fit.is_mismatched:
        return description
    words = Words(
        "The drafting heads of {origin} seem not to fit this model: in a test text they guessed "
        "{agreed} of {judged} tokens that the model was sure of. They may belong to another model, "
        "or to another version of this one. The text stays right, but drafting hardly speeds it "
        "up.",
        origin=loaded.head_origin,
        agreed=fit.agreed,
        judged=fit.judged,
    )
    reason = Reason("heads-implausible", words)
    return replace(description, declined=(*description.declined, reason))
