"""The rounds of an answer; the next one is begun before the outcome of the last is known.

A device that computes beside the host must not wait for it. So while it runs a round the next one
is written down and queued, whatever the outcome: how many rows count is a number on the device
(round.py), which the host reads while the next round runs. A round that was begun behind the end of
an answer, or by settings that have changed since, is dropped: none of its rows is committed. Where
the answer may have all its tokens with a round, nothing is begun before its outcome.

The outcome of a draft is waited for where the state behind it has to know its rows: with classes of
mlx-lm, whose caches are told a number, and with DFlash and Gemma's assistant, which read what the
target has computed of the rows that count. So is that of any draft where the host's own processor
computes: a state that does not know its rows takes more operations than there is waiting to be
saved. (There a pass is begun layer by layer, while the rest is written down: MLX's CPU backend has
`async_eval` wait until a hundred operations are left, so of what is queued whole hardly anything
runs beside the host.) And so is that of any round behind words that have stood in the conversation
before, where a copy would be drafted: where it goes on depends on the outcome.

Of several conversations that share passes the first whose turn comes begins what follows for all
(batch.py). So a round may be followed before its own turn: then it stands, and settings that have
changed meanwhile are in effect from the round after it on.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import RowCount
from mlx_engine.decoding.config import DecodeConfig, Settings
from mlx_engine.decoding.round import Pass, Round, SequenceState
from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.decoding.tally import Limits
from mlx_engine.drafting.depth import ALONE, Choice
from mlx_engine.drafting.round_costs import Others
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftOptions, SamplingOptions

ALREADY_DONE_S = 5e-5
"""Seconds; an outcome that was waited for no longer had been there before."""


class _Plan(NamedTuple):
    """Who drafts, how deep, and the settings for which that holds."""

    choice: Choice
    sampling: SamplingOptions
    draft: DraftOptions


class _Begun(NamedTuple):
    """A round and its plan."""

    round: Round
    planned: _Plan


class Outcome(NamedTuple):
    """A round's outcome.

    tokens: the accepted drafts and the target's next token. position: of the first of them. asked:
    the depth that was asked for. draft_passes: of a head or small model, also for a draft that came
    to nothing. queued_at, read_at: when the device could begin it and when its tokens were read, by
    the clock. draft_ms: what of that time the draft took, where it is told apart. was_ahead: it was
    queued before the round before it had ended; is_followed: what comes after it was queued;
    was_awaited: the device was at work until it ended. took: the seconds that are the pass's own,
    idle those of them that the device waited for the host; None where outcomes are not stamped as
    they come. others: of other conversations, in its pass; where one of them has waited for the
    pass before, its end is told as now.
    """

    tokens: tuple[int, ...]
    position: int
    asked: int
    drafted: int
    draft_passes: int
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


class Lookahead:
    """Runs a sequence that has read all but the newest token, round by round.

    For each round first `find` its outcome, then `commit` as many of its tokens as the answer
    takes. settings: their owner may change them meanwhile; rounds follow from the next one on.
    new_sampler: makes one that knows the answer so far.
    """

    def __init__(
        self,
        config: DecodeConfig,
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
        self._batch = config.batch
        self._is_shared = False
        self._looks_ahead = config.looks_ahead
        self._follows_drafts = config.looks_ahead and config.follows_drafts
        self._sampling = settings.sampling
        self._sampler = new_sampler()
        self._begun: _Begun | None = None
        self._next: _Begun | None = None
        self._planned: _Plan | None = None
        self._failed: Exception | None = None

    @property
    def passes(self) -> Sequence[Pass]:
        """Those of the present round, and of the next where it has begun."""
        rounds = [begun.round for begun in (self._begun, self._next) if begun is not None]
        return [round_.verified_by for round_ in rounds if round_.verified_by is not None]

    @property
    def is_followed(self) -> bool:
        """Whether what comes after the present round has been begun."""
        return self._next is not None

    def find(self) -> Outcome:
        """The outcome of the next round, the one wait. Raises NumericsError.

        Of a draft that is longer than what is left of the answer only so much counts.
        """
        self._is_shared = self._batch.take_turn(self._sequence)
        begun = self._begun = self._fitting() or self._begin_now()
        round_, choice = begun.round, begun.planned.choice
        pass_ = round_.verified_by
        was_ahead = pass_ is not None and pass_.queued_at > 0
        if pass_ is None:
            pass_ = self._batch.begin(round_)
        if self._looks_ahead:
            pass_.queue()
            if not pass_.read_at:
                self._batch.look_ahead(pass_)
        asked_at = perf_counter()
        self._batch.read(pass_)
        useful = self._limits.deepest(self._generated, round_.position - 1)
        tokens = round_.read()[: useful + 1]
        draft = round_.draft
        return Outcome(
            tokens=tokens,
            position=round_.position,
            asked=min(round_.wanted.depth, useful),
            drafted=min(draft.depth, useful),
            draft_passes=draft.passes,
            choice=choice,
            # another conversation may have waited for it before
            queued_at=max(pass_.read_at, asked_at) - pass_.took,
            read_at=perf_counter(),
            draft_ms=pass_.draft_ms if draft.depth else 0.0,
            was_ahead=was_ahead,
            is_followed=self.is_followed,
            was_awaited=pass_.read_at - asked_at > ALREADY_DONE_S,
            took=pass_.took,
            idle=None if pass_.reader is None else pass_.idle,
            others=Others(pass_.rounds - 1, pass_.rows - draft.depth - 1),
        )

    def commit(self, tokens: Sequence[int], *, goes_on: bool) -> None:
        """Append the first tokens of the round whose outcome was found, all of them if it goes on.

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
            self._forget()
            return
        if following is not None and begun.round.draft.depth and not goes_on:
            following.round.drop()
            following = None
        begun.round.commit(len(tokens))
        self._begun = following
        self._sequence.stand(read)
        if following is None and goes_on and self._is_shared:
            self._begun = self._begin_now()
            self._batch.wait(self._begun.round)

    def drop(self) -> None:
        """Take back what was begun ahead: the sequence stands after the tokens that were committed,
        the newest included where a plain round that reads it was followed.
        """
        (begun, following), self._begun, self._next = (self._begun, self._next), None, None
        if self._failed is not None:
            self._forget()
            return
        if begun is not None and following is not None:
            following.round.drop()
            if begun.round.draft.depth:
                self._sampler = self._new_sampler()  # the present one has counted its tokens
            else:
                self._sequence.stand([self._last])
                return
        if begun is not None:
            self._batch.leave(begun.round)
            begun.round.drop()

    def _forget(self) -> None:
        self._sequence.forget()
        self._drafting.forget()

    def _fitting(self) -> _Begun | None:
        """The round that was begun ahead, if its settings are those of now, or it stands."""
        begun = self._begun
        if begun is not None and (self.is_followed or self._holds(begun.planned)):
            return begun
        self.drop()
        return None

    def _holds(self, planned: _Plan) -> bool:
        settings = self._settings
        return (planned.sampling, planned.draft) == (settings.sampling, settings.draft)

    def _begin_now(self) -> _Begun:
        """A round after what is known; the device has nothing to do meanwhile but to draft."""
        sequence = self._sequence
        if self._settings.sampling != self._sampling:
            self._sampling, self._sampler = self._settings.sampling, self._new_sampler()
        last = mx.array([self._last], dtype=mx.int32)
        planned, self._planned = self._planned, None
        if planned is None or not self._holds(planned):
            planned = self._plan()
        state = SequenceState(sequence.model, sequence.caches, sequence.source, self._sampler, last)
        deepest = self._limits.deepest(self._generated, sequence.caches.length)
        return self._begin(state, planned, deepest)

    def _plan(self) -> _Plan:
        """Once a round."""
        settings = self._settings
        sampling, draft = settings.sampling, settings.draft
        self._share()
        return _Plan(self._drafting.plan(self._sequence, draft, self._last), sampling, draft)

    def _share(self) -> None:
        """Tell drafting what room there is for its drafts."""
        self._drafting.share(self._batch.room if self._is_shared else ALONE)

    def _begin(
        self, state: SequenceState, planned: _Plan, deepest: int, after: RowCount | None = None
    ) -> _Begun:
        depth = min(planned.choice.depth, deepest)
        state.drafter.rest(rests=depth == 0)
        return _Begun(Round(state, depth, planned.choice.by, after), planned)

    def knows_ahead(self) -> bool:
        """Whether what follows the present round can be begun before its outcome is known; plans it
        if so.
        """
        begun = self._begun
        assert begun is not None
        round_ = begun.round
        looks = self._follows_drafts if round_.wanted.depth else self._looks_ahead
        if not looks or not round_.can_be_followed or not self._holds(begun.planned):
            return False
        position = round_.position + round_.draft.depth
        if self._limits.full(self._generated + round_.draft.depth + 1, position) is not None:
            return False
        self._share()
        drafter, draft = round_.state.drafter, begun.planned.draft
        if not self._drafting.knows_ahead(drafter, draft, self._last):
            return False
        self._planned = self._plan()
        # on the host's processor it would run in the time of this round, and look cheap
        return self._follows_drafts or self._planned.choice.depth == 0

    def begin_next(self) -> Round:
        """Begin what follows, whatever the outcome, where `knows_ahead`."""
        assert self._begun is not None
        assert self._planned is not None
        before, planned, self._planned = self._begun.round, self._planned, None
        after = before.commit_ahead()
        # one token more leaves room in the answer for the longest draft, all of them in the context
        read = before.position + before.draft.depth
        deepest = self._limits.deepest(self._generated + 1, read)
        self._next = self._begin(before.state, planned, deepest, after)
        return self._next.round

    def fail(self, error: Exception) -> None:
        """Raise this once the outcome of the present round is known, if the answer goes on."""
        if self._next is not None:
            self._batch.leave(self._next.round)
        self._failed, self._next = error, None
