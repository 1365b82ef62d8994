"""The rounds of an answer, of which the next is begun before the outcome of the last is known.

A device that computes beside the host must not wait for it. A round with k drafts has k + 1
outcomes, and what follows each of them is lazy (round.py). So while the device works, the next
round is written down for the likeliest outcome; when that comes, it is queued at once, else it is
dropped and another written down. A plain round has one outcome: what follows it is queued before it
is read, and dropped if the answer ends before it by keeping none of its rows. A round that is asked
for otherwise by then is dropped likewise.

One outcome and no more: to free the graph of a round takes more than half as long as to build it,
and it has to be gone before another is queued, since only with one holder of keys and values does
MLX write them in place.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.opening import Settings
from mlx_engine.decoding.round import Pass, Round
from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.decoding.tally import Limits
from mlx_engine.decoding.together import Together
from mlx_engine.decoding.verify import State
from mlx_engine.drafting.contract import Proposal
from mlx_engine.drafting.depth.choice import ALONE, Choice, RoundPlan
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftOptions, SamplingOptions

BLINK = 5e-5
"""Seconds; an outcome that was waited for no longer had been there before."""

LIKELY = 0.4
"""Chance from which on an outcome is worth a round that may have to be freed: what freeing takes,
over building and freeing."""

FADING = 0.9
"""Weight of the past in what outcomes are expected."""


class _Asked(NamedTuple):
    """Settings that a round follows."""

    sampling: SamplingOptions
    draft: DraftOptions


class _Plan(NamedTuple):
    """Who drafts, how deep, and for how many tokens of the answer that is good."""

    plan: RoundPlan
    choice: Choice
    asked: _Asked


class _Begun(NamedTuple):
    """A round, and what it was asked for by."""

    round: Round
    planned: _Plan
    wanted: Proposal

    def queue(self) -> None:
        """Have the device begin, as soon as it is free."""
        if self.round.its_pass is not None:
            self.round.its_pass.queue()


class _Next(NamedTuple):
    """What follows a round if so many of its drafts are accepted."""

    accepted: int
    begun: _Begun


class Found(NamedTuple):
    """A round's outcome: tokens are the accepted drafts and the target's next token.

    others_rows: of its pass, those of other conversations.

    position: of the first of them. asked: the depth that was asked for; draft_passes: of a head or
    small model, also for a draft that came to nothing. queued_at, read_at: of its outcome, by the
    clock; draft_ms: of that time what the draft took, where it is told apart. was_ahead: it was
    queued before the round before it had ended; was_awaited: the device was at work until it ended.
    Where another conversation has waited for the pass before, it is told as if it had just ended.
    """

    tokens: tuple[int, ...]
    position: int
    asked: int
    drafted: int
    draft_passes: int
    plan: RoundPlan
    choice: Choice
    queued_at: float
    read_at: float
    draft_ms: float
    was_ahead: bool
    was_awaited: bool
    others_rows: int

    @property
    def accepted(self) -> int:
        """How many of the drafted tokens are the target's."""
        return len(self.tokens) - 1


class Rounds:
    """From a sequence that has read all but the newest token, round by round.

    Of each round first the outcome is found, then so many of its tokens are kept as the answer
    takes. settings: their owner may change them meanwhile; rounds follow from the next one on.
    new_sampler: one that knows the answer so far. together: with other conversations of the
    engine. looks_ahead: the device computes beside the host.
    """

    def __init__(
        self,
        sequence: TokenSequence,
        drafting: Drafting,
        settings: Settings,
        limits: Limits,
        new_sampler: Callable[[], Sampler],
        last: int,
        generated: int,
        together: Together,
        *,
        looks_ahead: bool,
    ) -> None:
        self._sequence = sequence
        self._drafting = drafting
        self._settings = settings
        self._limits = limits
        self._new_sampler = new_sampler
        self._last = last
        self._generated = generated
        self._together = together
        self._is_shared = False
        self._looks_ahead = looks_ahead
        self._sampling = settings.sampling
        self._sampler = new_sampler()
        self._begun: _Begun | None = None
        self._next: _Next | None = None
        self._planned: _Plan | None = None
        self._failed: Exception | None = None
        self._found: dict[int, list[float]] = {}
        self._read_at = 0.0
        self._accepted = 0

    def find(self) -> Found:
        """The outcome of the next round, the one wait. Raises NumericsError."""
        self._is_shared = self._together.take_turn(self._sequence)
        begun = self._begun = self._fitting() or self._begin_now()
        its = begun.round.its_pass
        was_ahead = its is not None
        if its is None:
            its = self._together.begin(begun.round)
        if self._looks_ahead:
            its.queue()
            self._look_ahead(begun)
        asked_at = perf_counter()
        queued_at = max(self._read_at, its.queued_at) if its.queued_at else asked_at
        its.wait(draft_first=not self._looks_ahead)
        tokens = begun.round.read()
        read_at = self._read_at = perf_counter()
        was_awaited = its.read_at - asked_at > BLINK
        if its.read_at < asked_at:  # another conversation has waited for it
            queued_at = asked_at - (its.read_at - its.queued_at)
        draft, self._accepted = begun.round.draft, len(tokens) - 1
        self._learn(draft.depth, self._accepted)
        return Found(
            tokens=tokens,
            position=begun.wanted.position,
            asked=begun.wanted.depth,
            drafted=draft.depth,
            draft_passes=draft.passes,
            plan=begun.planned.plan,
            choice=begun.planned.choice,
            queued_at=queued_at,
            read_at=read_at,
            draft_ms=its.draft_ms if draft.depth else 0.0,
            was_ahead=was_ahead,
            was_awaited=was_awaited,
            others_rows=its.rows - draft.depth - 1,
        )

    def keep(self, tokens: Sequence[int], *, goes_on: bool) -> None:
        """Keep the first tokens of the round whose outcome was found, all of them if it goes on.

        Raises what beginning the next round has raised.
        """
        begun, self._begun = self._begun, None
        following, self._next = self._next, None
        assert begun is not None
        read = [self._last, *tokens[:-1]]
        self._last, self._generated = tokens[-1], self._generated + len(tokens)
        if self._failed is not None:
            if goes_on:
                raise self._failed
            self._sequence.forget()
            self._drafting.forget()
            return
        is_queued = following is not None and not begun.round.draft.depth
        fits = goes_on and following is not None and following.accepted == self._accepted
        if following is not None and (is_queued or fits):
            self._begun = following.begun
            state = self._begun.round.state
        else:
            self._planned = None if following is None else following.begun.planned
            state = begun.round.keep(read, mx.array(list(tokens), dtype=mx.int32))
        self._sampler = state.sampler
        self._sequence.stand(read, state.caches, state.source)
        del begun, following  # whose caches nobody else holds now
        if self._begun is not None:
            self._begun.queue()
        elif goes_on and self._is_shared:
            self._begun = self._begin_now()
            self._together.wait(self._begun.round)

    def drop(self) -> None:
        """Take back what was begun ahead: the sequence stands after the tokens that were kept."""
        begun, self._begun = self._begun, None
        if begun is not None:
            self._together.leave(begun.round)
            begun.round.drop()

    def _fitting(self) -> _Begun | None:
        """The round that was begun ahead, if it is what is asked for by now."""
        if self._begun is not None and self._begun.planned.asked == self._asked():
            return self._begun
        self.drop()
        return None

    def _asked(self) -> _Asked:
        return _Asked(self._settings.sampling, self._settings.draft)

    def _begin_now(self) -> _Begun:
        """A round after what is known; the device has nothing to do meanwhile but to draft."""
        sequence = self._sequence
        if self._settings.sampling != self._sampling:
            self._sampling, self._sampler = self._settings.sampling, self._new_sampler()
        last = mx.array([self._last], dtype=mx.int32)
        planned = self._plan(last)
        state = State(sequence.model, sequence.caches, sequence.source, self._sampler, last)
        return self._begin(state, planned, self._generated, draft_at_once=self._looks_ahead)

    def _plan(self, last: mx.array) -> _Plan:
        """Once a round: that of a round that was begun for another outcome is taken over."""
        asked, planned = self._asked(), self._planned
        self._planned = None
        if planned is not None and planned.asked == asked:
            return planned
        self._drafting.share(self._together.room if self._is_shared else ALONE)
        plan = self._drafting.plan(self._sequence, asked.draft, last)
        return _Plan(plan, plan.next(), asked)

    def _begin(
        self, state: State, planned: _Plan, generated: int, *, draft_at_once: bool
    ) -> _Begun:
        choice, read = planned.choice, state.caches.length
        depth = min(choice.depth, self._limits.deepest(generated, read))
        wanted = Proposal(depth, state.last, read + 1, choice.by)
        state.source.rest(rests=depth == 0)
        return _Begun(Round(state, wanted, draft_at_once=draft_at_once), planned, wanted)

    def _look_ahead(self, begun: _Begun) -> None:
        """Begin what follows, where that can be known; an error there may not hide this outcome."""
        source, asked = begun.round.state.source, self._asked()
        knows = not self._is_shared and begun.planned.asked == asked
        if knows and self._drafting.knows_ahead(source, asked.draft):
            try:
                self._begin_next(begun)
            except Exception as error:
                self._failed = error

    def _begin_next(self, begun: _Begun) -> None:
        depth = begun.round.draft.depth
        accepted = self._likely(depth)
        if accepted is None:
            return
        generated = self._generated + accepted + 1
        if self._limits.full(generated, begun.wanted.position + accepted) is not None:
            return
        if depth:
            state = begun.round.after(accepted)
        else:
            state = begun.round.keep([self._last], begun.round.next_token)
        following = self._begin(state, self._plan(state.last), generated, draft_at_once=not depth)
        self._next = _Next(accepted, following)
        alone = Pass([following.round])
        if not depth:
            alone.queue()

    def _likely(self, depth: int) -> int | None:
        """How many tokens of such a draft will be accepted, where that can be told."""
        weights = self._found.get(depth, [0.0] * depth + [float(depth == 0)])
        best = max(range(depth + 1), key=weights.__getitem__)
        return best if weights[best] > LIKELY * sum(weights) else None

    def _learn(self, depth: int, accepted: int) -> None:
        weights = self._found.setdefault(depth, [0.0] * (depth + 1))
        weights[:] = [FADING * weight for weight in weights]
        weights[accepted] += 1
