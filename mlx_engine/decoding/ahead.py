"""The rounds of an answer, of which the next is begun before the outcome of the last is known.

A device that computes beside the host must not wait for it. So while it runs a round the next one
is written down and queued, whatever the outcome: how many rows count is a number on the device
(round.py), which the host reads while the next round runs. A round that was begun behind the end of
an answer, or that is asked for otherwise by then, is dropped by keeping none of its rows.

Where the answer may have all its tokens before it, the next round is written down and queued once
it is known to be needed. Its draft is as long as could be used; what is over counts for nothing.

The outcome of a draft is waited for where the state behind it has to know its rows: with classes of
mlx-lm, whose caches are told a number, and with DFlash and Gemma's assistant, which read what the
target has computed of the rows that count. So is that of any draft where the host's own processor
computes: a state that does not know its rows takes more operations than there is waiting to be
saved. (There a pass is begun layer by layer, while the rest is written down: MLX's CPU backend has
`async_eval` wait until a hundred operations are left, so of what is queued whole hardly anything
runs beside the host.) And of any round behind words that have stood in the conversation before,
where a copy would be drafted: where it goes on depends on the outcome. A copy of which the first
words come in a round that was begun ahead is drafted behind the next.

Of several conversations that share passes the first whose turn comes begins what follows for all
(together.py). So a round may be followed before its own turn: then it stands, and what was asked
for meanwhile is in effect from the round after it on.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.opening import Conduct, Settings
from mlx_engine.decoding.round import Begins, Pass, Round
from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.decoding.tally import Limits
from mlx_engine.decoding.verify import State
from mlx_engine.drafting.contract import Proposal
from mlx_engine.drafting.depth.adaptive import Choice
from mlx_engine.drafting.depth.choice import ALONE, RoundPlan
from mlx_engine.drafting.depth.costs import Others
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftOptions, SamplingOptions

BLINK = 5e-5
"""Seconds; an outcome that was waited for no longer had been there before."""


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
    """A round, and what it was asked for by; depth: of the draft it wanted."""

    round: Round
    planned: _Plan
    depth: int


class Found(NamedTuple):
    """A round's outcome: tokens are the accepted drafts and the target's next token.

    others: of other conversations, in its pass.

    position: of the first of them. asked: the depth that was asked for; draft_passes: of a head or
    small model, also for a draft that came to nothing. queued_at, read_at: of its outcome, by the
    clock; draft_ms: of that time what the draft took, where it is told apart. was_ahead: it was
    queued before the round before it had ended; is_followed: what comes after it was queued;
    was_awaited: the device was at work until it ended. took: the seconds that are the pass's
    own, idle those of them that the device waited for the host; None where outcomes are not stamped
    as they come.
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
    is_followed: bool
    was_awaited: bool
    took: float
    idle: float | None
    others: Others

    @property
    def accepted(self) -> int:
        """How many of the drafted tokens are the target's."""
        return len(self.tokens) - 1

    @property
    def is_seam(self) -> bool:
        """Whether either it was queued ahead or what follows it was, not both."""
        return self.was_ahead != self.is_followed


class Rounds:
    """From a sequence that has read all but the newest token, round by round.

    Of each round first the outcome is found, then so many of its tokens are kept as the answer
    takes. settings: their owner may change them meanwhile; rounds follow from the next one on.
    new_sampler: one that knows the answer so far.
    """

    def __init__(
        self,
        conduct: Conduct,
        sequence: TokenSequence,
        drafting: Drafting,
        settings: Settings,
        limits: Limits,
        new_sampler: Callable[[], Sampler],
        last: int,
        generated: int,
    ) -> None:
        self._sequence = sequence
        self._drafting = drafting
        self._settings = settings
        self._limits = limits
        self._new_sampler = new_sampler
        self._last = last
        self._generated = generated
        self._together = conduct.together
        self._is_shared = False
        self._looks_ahead = conduct.looks_ahead
        self._follows_drafts = conduct.looks_ahead and conduct.follows_drafts
        self._begins: Begins = "drafts" if conduct.follows_drafts else "everything"
        if not conduct.looks_ahead:
            self._begins = "nothing"
        self._sampling = settings.sampling
        self._sampler = new_sampler()
        self._begun: _Begun | None = None
        self._next: _Begun | None = None
        self._failed: Exception | None = None

    @property
    def passes(self) -> Sequence[Pass]:
        """Of the round that was begun, and of that which follows it."""
        rounds = [begun.round for begun in (self._begun, self._next) if begun is not None]
        return [its.its_pass for its in rounds if its.its_pass is not None]

    @property
    def is_followed(self) -> bool:
        """Whether what comes after the present round has been begun."""
        return self._next is not None

    def find(self) -> Found:
        """The outcome of the next round, the one wait. Raises NumericsError.

        Of a draft that is longer than what is left of the answer only so much counts.
        """
        self._is_shared = self._together.take_turn(self._sequence)
        begun = self._begun = self._fitting() or self._begin_now()
        its = begun.round.its_pass
        was_ahead = its is not None and its.queued_at > 0
        if its is None:
            its = self._together.begin(begun.round, self._begins)
        if self._looks_beyond(begun):
            its.queue()
            if not its.read_at:
                self._together.look_ahead(its, self._begins)
        asked_at = perf_counter()
        self._together.read(its)
        useful = self._limits.deepest(self._generated, begun.round.position - 1)
        tokens = begun.round.read()[: useful + 1]
        read_at = perf_counter()
        was_awaited = its.read_at - asked_at > BLINK
        # another conversation may have waited for it before
        queued_at = max(its.read_at, asked_at) - its.took
        draft = begun.round.draft
        return Found(
            tokens=tokens,
            position=begun.round.position,
            asked=min(begun.depth, useful),
            drafted=min(draft.depth, useful),
            draft_passes=draft.passes,
            plan=begun.planned.plan,
            choice=begun.planned.choice,
            queued_at=queued_at,
            read_at=read_at,
            draft_ms=its.draft_ms if draft.depth else 0.0,
            was_ahead=was_ahead,
            is_followed=self._next_is_queued,
            was_awaited=was_awaited,
            took=its.took,
            idle=None if its.reader is None else its.idle,
            others=Others(its.rounds - 1, its.rows - draft.depth - 1),
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
        if following is None:
            begun.round.commit(len(tokens))
        elif begun.round.draft.depth:
            if not goes_on:
                following.round.drop()
            begun.round.commit(len(tokens))
            following.round.position += len(tokens)
            following = following if goes_on else None
        self._begun = following
        self._sequence.stand(read)
        if following is None and goes_on and self._is_shared:
            self._begun = self._begin_now()
            self._together.wait(self._begun.round)

    def drop(self) -> None:
        """Take back what was begun ahead: the sequence stands after the tokens that were kept, the
        newest included where a plain round that reads it was followed.
        """
        (begun, following), self._begun, self._next = (self._begun, self._next), None, None
        if self._failed is not None:
            self._sequence.forget()
            self._drafting.forget()
        elif begun is not None:
            if following is not None and begun.round.draft.depth:
                following.round.drop()
                self._sampler = self._new_sampler()  # this one has counted tokens
            elif following is not None:
                self._sequence.stand([self._last])
                begun = following
            self._together.leave(begun.round)
            begun.round.drop()

    def _fitting(self) -> _Begun | None:
        """The round that was begun ahead, if it is what is asked for by now, or stands."""
        begun = self._begun
        if begun is not None and (self.is_followed or begun.planned.asked == self._asked()):
            return begun
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
        planned = self._plan()
        state = State(sequence.model, sequence.caches, sequence.source, self._sampler, last)
        deepest = self._limits.deepest(self._generated, sequence.caches.length)
        return self._begin(state, planned, deepest)

    def _plan(self) -> _Plan:
        """Once a round."""
        asked = self._asked()
        self._share()
        plan = self._drafting.plan(self._sequence, asked.draft, self._last)
        return _Plan(plan, plan.choice, asked)

    def _share(self) -> None:
        """Tell drafting what room there is for its drafts."""
        self._drafting.share(self._together.room if self._is_shared else ALONE)

    def _begin(self, state: State, planned: _Plan, deepest: int) -> _Begun:
        depth = min(planned.choice.depth, deepest)
        wanted = Proposal(depth, state.last, state.caches.length + 1, planned.choice.by)
        state.source.rest(rests=depth == 0)
        return _Begun(Round(state, wanted), planned, depth)

    @property
    def may_end(self) -> bool:
        """Whether the answer may have all its tokens with the present round."""
        assert self._begun is not None
        return self._is_full(self._begun.round.draft.depth + 1)

    def _is_full(self, more: int) -> bool:
        """Whether it has them all with so many more than are known."""
        assert self._begun is not None
        position = self._begun.round.position + more - 1
        return self._limits.full(self._generated + more, position) is not None

    @property
    def waits(self) -> bool:
        """Whether what was begun to follow had better be queued once the outcome is known."""
        return self._next is not None and self._next.depth > 0 and not self._follows_drafts

    @property
    def _next_is_queued(self) -> bool:
        its = self._next.round.its_pass if self._next is not None else None
        return its is not None and its.queued_at > 0

    def _looks_beyond(self, begun: _Begun) -> bool:
        return self._follows_drafts if begun.depth else self._looks_ahead

    def knows_ahead(self) -> bool:
        """Whether what follows the present round can be begun before its outcome is known."""
        begun, asked = self._begun, self._asked()
        assert begun is not None
        its = begun.round
        if begun.planned.asked != asked or not its.can_be_followed:
            return False
        if not self._looks_beyond(begun):
            return False
        self._share()
        return self._drafting.knows_ahead(its.state.source, asked.draft, self._last)

    def begin_next(self) -> Round | None:
        """Begin what follows, whatever the outcome; None where the answer ends before it."""
        assert self._begun is not None
        before = self._begun.round
        if self._is_full(1):
            return None
        before.follow()  # first, for the states that it no longer needs
        planned = self._plan()
        # one token more leaves room in the answer for the longest draft, all of them in the context
        read = before.position + before.draft.depth
        deepest = self._limits.deepest(self._generated + 1, read)
        self._next = self._begin(before.state, planned, deepest)
        return self._next.round

    def fail(self, error: Exception) -> None:
        """Raise this once the outcome of the present round is known, if the answer goes on."""
        if self._next is not None:
            self._together.leave(self._next.round)
        self._failed, self._next = error, None
