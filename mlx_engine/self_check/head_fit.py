"""Whether the heads of a loaded model fit it.

A head of another model, or one read the wrong way, drafts without an error; only hardly anything is
accepted. So one pass of the model over some dozens of tokens, and one of the head, tell: where the
model is sure of the next token, a head that fits often drafts the same one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Model
from mlx_engine.self_check.teacher_forced import by_rows
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import Words

TEXT = '''The answer is yes. Here is a short example in Python:

def read_lines(path):
    """Return the lines of a file."""
    with open(path) as file:
        return [line.strip() for line in file if line.strip()]

First we open the file, then we read the lines one by one, and at the end we close the file.
'''
"""Prose and code: every model that talks is sure of some of it."""

MOST_TOKENS = 64
"""Of the text, so that the check costs about as much as a prompt of this length."""

FIRST_ROWS = 4
"""Rows not judged: a head has hardly any context there."""

SURE = 0.3
"""Probability of its first choice from which on the model counts as sure."""

FEWEST = 12
"""Rows with a sure model that a verdict needs; models with random weights have none."""

IMPLAUSIBLE = 0.15
"""Share of agreement below which a head does not fit.

Measured (tests/speed/head_fit.py): heads that fit 0.34 and 0.92, the first in a text unlike all
it was trained on; norms one too low, halves of the join swapped, a foreign head at most 0.08. The
hidden state before instead of after the final norm, or norms one too high, lower acceptance far
less than texts differ: this check is blind there.
"""


def with_head_check(loaded: LoadedModel, description: ModelDescription) -> ModelDescription:
    """The description, with a reason when the MTP heads do not fit; reads the heads."""
    fit = measure_fit(loaded.model, loaded.tokenizer.encode(TEXT, add_special=True))
    reason = misfit(fit, loaded.head_origin)
    if reason is None:
        return description
    return replace(description, declined=(*description.declined, reason))


class HeadFit(NamedTuple):
    """Rows where the model was sure, and those of them where the head agreed."""

    judged: int
    agreed: int

    @property
    def share(self) -> float:
        """Agreed of judged, 0 where nothing could be judged."""
        return self.agreed / self.judged if self.judged else 0.0

    @property
    def is_implausible(self) -> bool:
        """Whether a head that fits would hardly ever do so badly."""
        return self.judged >= FEWEST and self.share < IMPLAUSIBLE


def measure_fit(model: Model, tokens: Sequence[int]) -> HeadFit:
    """Compare the first head's choices with the model's on at most MOST_TOKENS of these tokens."""
    if len(tokens) < FEWEST:  # of a tokenizer that knows hardly any of it
        return HeadFit(0, 0)
    read = mx.array([list(tokens)[:MOST_TOKENS]])
    hidden = model.forward(read, model.make_caches())
    first = model.heads[0]
    states = first.mtp_forward(read[:, 1:], hidden[:, :-1], first.make_head_caches())
    said = by_rows(model.logits, hidden[:, 1 + FIRST_ROWS :])
    drafted = by_rows(first.mtp_logits, states[:, FIRST_ROWS:])
    judged, agreed = 0, 0
    for trunk, head in zip(said, drafted, strict=True):
        sure = np.array(mx.softmax(trunk, axis=-1).max(axis=-1) >= SURE)
        agrees = np.array(mx.argmax(head, axis=-1) == mx.argmax(trunk, axis=-1))
        judged += int(sure.sum())
        agreed += int((sure & agrees).sum())
    return HeadFit(judged, agreed)


def misfit(fit: HeadFit, origin: str) -> Reason | None:
    """What to tell the user of a head that does not fit; origin: where it comes from."""
    if not fit.is_implausible:
        return None
    return Reason(
        "heads-implausible",
        Words(
            "The MTP heads of {origin} seem not to fit this model: in a test text they "
            "foresaw {agreed} of {judged} tokens the model was sure of. Usual causes: heads "
            "of another model or of another training of it; norm weights stored with or "
            "without 1 added; heads made for the hidden state at another place. Text stays "
            "right, but drafting will not pay.",
            origin=origin,
            agreed=fit.agreed,
            judged=fit.judged,
        ),
    )
