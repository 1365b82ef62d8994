"""One round: propose, verify, accept. Plain decoding is the same round with an empty draft.

The target's token at a position is a function of its logits, the seed and the position alone. So
the emitted tokens are those of plain decoding, whatever was drafted; a draft only decides how many
of them one pass yields. A drafted token is accepted when it equals the target's, and what is
emitted is always the target's.

Every shape follows from k, the tokens drafted, which the host knows without waiting. It waits once
a round, in `run_round`, for drafted tokens, picks and a finiteness flag in one array. Waiting for
the draft first only reads the clock: the verify pass is queued behind it by then.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.drafting.contract import Proposal
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler, all_finite
from mlx_engine.values.errors import NumericsError


class Round(NamedTuple):
    """What a round found, before any of it is kept.

    tokens: the accepted drafts and the target's next token. drafted: k; draft_passes: of a head or
    small model, also for a draft that came to nothing. hidden: [1, k + 1, H]. Milliseconds on the
    device, by the clock.
    """

    tokens: tuple[int, ...]
    drafted: int
    draft_passes: int
    hidden: mx.array
    draft_ms: float
    verify_ms: float

    @property
    def accepted(self) -> int:
        """How many of the drafted tokens are the target's."""
        return len(self.tokens) - 1


class Verified(NamedTuple):
    """One pass of the target over the newest token and k drafted ones; lazy.

    Row i follows i drafted tokens. picked: the target's tokens int32 [k + 1]; finite: whether all
    logits were, a bool scalar; hidden: [1, k + 1, H].
    """

    picked: mx.array
    finite: mx.array
    hidden: mx.array


def run_round(sequence: TokenSequence, wanted: Proposal, sampler: Sampler) -> Round:
    """Draft what is wanted and check it in one pass; the caller keeps what it wants of it.

    Raises NumericsError when the model produces NaN or infinity.
    """
    # a GPU drafts while the host builds the verify pass; queueing on a CPU stream would block
    runs_ahead = mx.metal.is_available()

    draft = sequence.source.propose(wanted, sampler)
    began = perf_counter()
    if runs_ahead:
        mx.async_eval(draft.tokens)  # type: ignore[no-untyped-call]

    verified = verify(sequence, wanted, draft.tokens, sampler)
    finite = verified.finite.astype(mx.int32)[None]
    outcome = mx.concatenate([draft.tokens, verified.picked, finite])
    if runs_ahead:
        mx.async_eval(outcome)  # type: ignore[no-untyped-call]

    if not (runs_ahead and draft.depth):
        began = perf_counter()
    if draft.depth:
        mx.eval(draft.tokens)
    drafted_at = perf_counter()
    numbers: list[int] = outcome.tolist()  # type: ignore[assignment]
    verified_at = perf_counter()

    drafted, picked = numbers[: draft.depth], numbers[draft.depth : -1]
    if not numbers[-1] or max(picked) >= sequence.model.vocabulary:
        raise NumericsError(
            f"The model produced NaN or infinity at position {wanted.position}. Its weights may be "
            "damaged, or too large for 16-bit numbers: load the file again or use another one."
        )
    return Round(
        tokens=tuple(picked[: count_accepted(drafted, picked) + 1]),
        drafted=draft.depth,
        draft_passes=draft.passes,
        hidden=verified.hidden,
        draft_ms=1000 * (drafted_at - began) if draft.depth else 0.0,
        verify_ms=1000 * (verified_at - drafted_at),
    )


def verify(
    sequence: TokenSequence, wanted: Proposal, drafted: mx.array, sampler: Sampler
) -> Verified:
    """Run [last, d1..dk] as one block; the caller decides how many rows the caches keep.

    Without making logits where options and model allow it.
    """
    model = sequence.model
    tokens = mx.concatenate([mx.array([wanted.last], dtype=mx.int32), drafted])
    hidden = model.forward(tokens[None], sequence.caches)
    picked = _pick_without_logits(model, hidden, sampler, wanted.position)
    if picked is not None:
        return Verified(picked, mx.all(picked >= 0), hidden)
    logits = model.logits(hidden).squeeze(0)
    return Verified(sampler.pick(logits, wanted.position, drafted), all_finite(logits), hidden)


def _pick_without_logits(
    model: Model, hidden: mx.array, sampler: Sampler, position: int
) -> mx.array | None:
    """By a kernel, which says -1 where a logit is not finite; None where there is none."""
    rows = model.output_rows
    if rows is None:
        return None
    states = hidden[..., : model.hidden_size]
    how = sampler.choosing(position, states.shape[1])
    return rows.pick(states, how) if how is not None and rows.takes(states) else None


def count_accepted(drafted: Sequence[int], picked: Sequence[int]) -> int:
    """How many of k drafted tokens equal the target's k + 1, up to the first that does not."""
    assert len(picked) == len(drafted) + 1
    count = 0
    while count < len(drafted) and drafted[count] == picked[count]:
        count += 1
    return count
