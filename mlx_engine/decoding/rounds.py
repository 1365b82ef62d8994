"""One round: propose, verify, accept; the caller then keeps what it wants of it.

Plain decoding is the same round with an empty draft. There is one host sync a round: drafted
tokens, picks and a finiteness flag come back in one array. Waiting for the draft first only reads
the clock; the verify pass is queued behind it by then.
"""

from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.accept import Accepted, accept
from mlx_engine.decoding.track import Track
from mlx_engine.decoding.verify import pick, verify
from mlx_engine.drafting.contract import Proposal
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import NumericsError
from mlx_engine.values.options import DraftedBy


class Round(NamedTuple):
    """What a round won, before any of it is kept.

    hidden [1, drafted + 1, H]; milliseconds on the device, by the clock. draft_passes: of a head or
    small model.
    """

    won: Accepted
    drafted: int
    hidden: mx.array
    draft_ms: float
    verify_ms: float
    draft_passes: int

    def rows(self, last: int, keep: int) -> list[int]:
        """The tokens of the first `keep` rows: the newest token and the accepted drafts."""
        return [last, *self.won.tokens[: keep - 1]]


def play(
    track: Track, last: int, depth: int, sampler: Sampler, by: DraftedBy | None = None
) -> Round:
    """Draft at most `depth` tokens after `last` and check them; NumericsError on NaN or inf."""
    position = len(track.read) + 1
    draft = track.source.propose(Proposal(depth, last, position, by), sampler)
    # a GPU drafts while the host builds the verify pass; queueing on a CPU stream would block
    runs_ahead = mx.metal.is_available()
    began = perf_counter()
    if runs_ahead:
        mx.async_eval(draft.tokens)  # type: ignore[no-untyped-call]
    verified = verify(track.adapter, track.caches, last, draft.tokens)
    picked = pick(track.adapter, verified, sampler, position, draft.tokens)
    finite = picked.finite.astype(mx.int32)[None]
    outcome = mx.concatenate([draft.tokens, picked.tokens, finite])
    if runs_ahead:
        mx.async_eval(outcome)  # type: ignore[no-untyped-call]
    if not (runs_ahead and draft.depth):
        began = perf_counter()
    if draft.depth:
        mx.eval(draft.tokens)
    drafted_at = perf_counter()
    numbers: list[int] = outcome.tolist()  # type: ignore[assignment]
    verified_at = perf_counter()
    if not numbers[-1]:
        raise NumericsError(
            f"The model produced NaN or infinity at position {position}. Its weights may be "
            "damaged, or too large for 16-bit numbers: load the file again or use another one."
        )
    return Round(
        won=accept(numbers[: draft.depth], numbers[draft.depth : -1]),
        drafted=draft.depth,
        hidden=verified.hidden,
        draft_ms=1000 * (drafted_at - began) if draft.depth else 0.0,
        verify_ms=1000 * (verified_at - drafted_at),
        draft_passes=draft.passes,
    )
