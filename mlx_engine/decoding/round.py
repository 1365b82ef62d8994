"""One round: propose, verify, accept. Plain decoding is the same round with an empty draft.

The target's token at a position is a function of its logits, the seed and the position alone. So
the emitted tokens are those of plain decoding, whatever was drafted; a draft only decides how many
of them one pass yields. A drafted token is accepted when it equals the target's, and what is
emitted is always the target's.

Every shape follows from k, the tokens drafted, which the host knows without waiting. It waits once
a round, in `read`, for drafted tokens, picks and a finiteness flag in one array. What comes after a
round needs no more of it than the number of tokens accepted, 0 to k: the rest is lazy, so the next
round can be written down for each of these outcomes while the device works (ahead.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.drafting.contract import DraftSource, Proposal
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler, all_finite
from mlx_engine.values.errors import NumericsError


@dataclass(slots=True)
class State:
    """What a round goes on from, after the tokens that caches and source have read.

    model: as the source wants it run. last: the newest token, which nothing has read yet, int32
    [1]; it may still be on its way.
    """

    model: Model
    caches: LayerCaches
    source: DraftSource
    sampler: Sampler
    last: mx.array

    def fork(self) -> "State":
        """Another that goes on from here by itself."""
        return State(
            self.model, self.caches.fork(), self.source.fork(), self.sampler.fork(), self.last
        )

    def keep(self, tokens: mx.array, emitted: mx.array, hidden: mx.array) -> None:
        """Keep the first rows of the last pass: their tokens and those after them, int32 [R].

        hidden: [1, R or more, H].
        """
        rows = tokens.shape[0]
        self.caches.keep(rows)
        self.source.observe(tokens, hidden[:, :rows])
        self.sampler.commit(emitted)
        self.last = emitted[-1:]


class Outcome(NamedTuple):
    """What a round found. tokens: the accepted drafts and the target's next token.

    draft_ms: what of the wait was one for the draft, where that is told apart.
    """

    tokens: tuple[int, ...]
    draft_ms: float

    @property
    def accepted(self) -> int:
        """How many of the drafted tokens are the target's."""
        return len(self.tokens) - 1


class Verified(NamedTuple):
    """One pass of the target over the newest token and k drafted ones; lazy.

    Row i follows i drafted tokens. tokens: of the rows, int32 [k + 1]; picked: the target's, those
    after them; finite: whether all logits were, a bool scalar; hidden: [1, k + 1, H].
    """

    tokens: mx.array
    picked: mx.array
    finite: mx.array
    hidden: mx.array


class Round:
    """A round written down from a state, whose caches then hold its rows; nothing is computed.

    draft_at_once: it is sure to be run, so the device drafts while the verify pass is written down.
    """

    def __init__(self, state: State, wanted: Proposal, *, draft_at_once: bool = False) -> None:
        self.state = state
        self._wanted = wanted
        self.draft = state.source.propose(wanted, state.sampler)
        if draft_at_once and self.draft.depth:
            mx.async_eval(self.draft.tokens)  # type: ignore[no-untyped-call]
        self._verified = verify(state, self.draft.tokens, wanted.position)
        finite = self._verified.finite.astype(mx.int32)[None]
        told = [self._verified.picked, finite]
        self._outcome = mx.concatenate([self.draft.tokens, *told] if self.draft.depth else told)

    def queue(self) -> None:
        """Have the device begin. It is not told to keep keys and values, which come along: what it
        was asked for it holds, and the next round would have to copy them.
        """
        mx.async_eval(self._outcome)  # type: ignore[no-untyped-call]

    def read(self, *, draft_first: bool = False) -> Outcome:
        """Wait for the outcome; draft_first: with a look at the clock in between.

        Raises NumericsError when the model produced NaN or infinity.
        """
        began = perf_counter()
        if draft_first:
            mx.eval(self.draft.tokens)
        drafted_at = perf_counter()
        numbers: list[int] = self._outcome.tolist()  # type: ignore[assignment]
        depth = self.draft.depth
        drafted, picked = numbers[:depth], numbers[depth:-1]
        if not numbers[-1] or max(picked) >= self.state.model.vocabulary:
            raise NumericsError(
                f"The model produced NaN or infinity at position {self._wanted.position}. Its "
                "weights may be damaged, or too large for 16-bit numbers: load the file again or "
                "use another one."
            )
        tokens = tuple(picked[: count_accepted(drafted, picked) + 1])
        return Outcome(tokens, 1000 * (drafted_at - began) if depth else 0.0)

    def after(self, accepted: int) -> State:
        """The state after this outcome; the round's own stays as it is."""
        rows, found = accepted + 1, self._verified
        state = self.state.fork()
        state.keep(found.tokens[:rows], found.picked[:rows], found.hidden)
        return state

    def keep(self, tokens: Sequence[int], emitted: mx.array) -> State:
        """The round's own state after its first rows, of which the tokens are known."""
        self.state.keep(mx.array(list(tokens), dtype=mx.int32), emitted, self._verified.hidden)
        return self.state

    @property
    def next_token(self) -> mx.array:
        """What a plain round emits, int32 [1]; lazy."""
        return self._verified.picked

    def drop(self) -> None:
        """The round's own state as if there had been none."""
        self.state.caches.keep(0)
        self.state.source.withdraw()


def verify(state: State, drafted: mx.array, position: int) -> Verified:
    """Run [last, d1..dk] as one block; the caller decides how many rows the caches keep.

    Without making logits where options and model allow it.
    """
    model, sampler = state.model, state.sampler
    tokens = mx.concatenate([state.last, drafted]) if drafted.size else state.last
    hidden = model.forward(tokens[None], state.caches)
    picked = _pick_without_logits(model, hidden, sampler, position)
    if picked is not None:
        return Verified(tokens, picked, mx.all(picked >= 0), hidden)
    logits = model.logits(hidden).squeeze(0)
    return Verified(tokens, sampler.pick(logits, position, drafted), all_finite(logits), hidden)


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
