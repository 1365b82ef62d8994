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
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.config import DecodeConfig, Settings
from mlx_engine.decoding.round import Pass, Plan, Round
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.depth import ALONE, Choice
from mlx_engine.drafting.round_costs import Others
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.conversation import FinishReason

ALREADY_DONE_S = 5e-5
"""Seconds; an outcome that was waited for no longer had been there before."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Conditions that end an answer; stop strings are found by StreamingText.

    end_ids: tokens that end it, empty to ignore them. max_tokens: None for no budget.
    context_length: tokens of conversation at most.
    """

    end_ids: frozenset[int]
    max_tokens: int | None
    context_length: int

    def finish(self, token: int, generated: int, position: int) -> FinishReason | None:
        """Why `token`, at index `position` and `generated`-th of the answer, ends it, if so."""
        return "end" if token in self.end_ids else self.full(generated, position)

    def full(self, generated: int, position: int) -> FinishReason | None:
        """Why the answer ends after `generated` tokens, if it does, whatever the newest is."""
        if self.max_tokens is not None and generated >= self.max_tokens:
            return "max-tokens"
        if position + 1 >= self.context_length:
            return "context-full"
        return None

    def deepest(self, generated: int, read: int) -> int:
        """Tokens of a draft that could still be used after `read` tokens of conversation."""
        room = self.context_length - read - 2
        budget = room if self.max_tokens is None else self.max_tokens - generated - 1
        return max(0, min(room, budget))


class Outcome(NamedTuple):
    """A round's outcome.

    tokens: the accepted drafts and the target's next token. position: of the first of them. asked:
    the depth that was asked for; drafted, accepted: how many tokens of the draft were of use.
    draft_passes: of a head or small model, also for a draft that came to nothing. queued_at,
    read_at: when the device could begin it and when its tokens were read, by the clock. draft_ms:
    what of that time the draft took, where it is told apart. was_ahead: it was queued before the
    round before it had ended; is_followed: what comes after it was queued; was_awaited: the device
    was at work until it ended. took: the seconds that are the pass's own, idle those of them that
    the device waited for the host; None where outcomes are not stamped as they come. others: of
    other conversations, in its pass; where one of them has waited for the pass before, its end is
    told as now.
    """

    tokens: tuple[int, ...]
    position: int
    asked: int
    drafted: int
    accepted: int
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


class Lookahead:
    """Runs the rounds of an answer, for a state that has read all but the newest token.

    For each round first `find` its outcome, then `commit` as many of its tokens as the answer
    takes. settings: their owner may change them meanwhile; rounds follow from the next one on.
    new_sampler: makes one that knows the answer so far. last: the newest token; generated: how many
    tokens the answer has.
    """

    def __init__(
        self,
        config: DecodeConfig,
        state: SequenceState,
        drafting: Drafting,
        settings: Settings,
        limits: Limits,
        new_sampler: Callable[[], Sampler],
        last: int,
        generated: int,
    ) -> None:
        self._state = state
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
        state.sampler = new_sampler()
        self._begun: Round | None = None
        self._next: Round | None = None
        self._plan: Plan | None = None
        self._failed: Exception | None = None

    @property
    def passes(self) -> Sequence[Pass]:
        """Passes of the present round, and of the next where it has begun."""
        found = [round_.verified_by for round_ in (self._begun, self._next) if round_ is not None]
        return [pass_ for pass_ in found if pass_ is not None]

    @property
    def is_followed(self) -> bool:
        """Whether what comes after the present round has been begun."""
        return self._next is not None

    def find(self) -> Outcome:
        """The outcome of the next round, the one wait. Raises NumericsError.

        Of a draft that is longer than what is left of the answer only so much counts.
        """
        self._is_shared = self._batch.take_turn(self._state)
        round_ = self._begun
        if round_ is not None and self._next is None and not self._holds(round_.plan):
            self.drop()
            round_ = None
        if round_ is None:
            round_ = self._begun = self._begin_now()
        pass_ = round_.verified_by
        was_ahead = pass_ is not None and pass_.queued_at > 0
        if pass_ is None:
            pass_ = self._batch.begin(round_)
        if self._looks_ahead:
            pass_.queue()
            if not pass_.read_at and self._may_follow(round_):
                self._batch.look_ahead(pass_)
        asked_at = perf_counter()
        self._batch.read(pass_)
        position, draft = round_.position, round_.draft
        useful = self._limits.deepest(self._generated, position - 1)
        tokens = round_.read()[: useful + 1]
        return Outcome(
            tokens=tokens,
            position=position,
            asked=min(round_.wanted.depth, useful),
            drafted=min(draft.depth, useful),
            accepted=len(tokens) - 1,
            draft_passes=draft.passes,
            choice=round_.plan.choice,
            # another conversation may have waited for it before
            queued_at=max(pass_.read_at, asked_at) - pass_.took,
            read_at=perf_counter(),
            draft_ms=pass_.draft_ms if draft.depth else 0.0,
            was_ahead=was_ahead,
            is_followed=self._next is not None,
            was_awaited=pass_.read_at - asked_at > ALREADY_DONE_S,
            took=pass_.took,
            idle=None if pass_.reader is None else pass_.idle,
            others=Others(pass_.rounds - 1, pass_.rows - draft.depth - 1),
        )

    def commit(self, tokens: Sequence[int], *, goes_on: bool) -> None:
        """Append the first tokens of the round whose outcome was found, all of them if it goes on.

        Raises what beginning the next round has raised.
        """
        (round_, following), self._begun, self._next = (self._begun, self._next), None, None
        assert round_ is not None
        read = [self._last, *tokens[:-1]]
        self._last, self._generated = tokens[-1], self._generated + len(tokens)
        if self._failed is not None:
            if goes_on:
                raise self._failed
            self._forget()
            return
        if following is not None and round_.draft.depth and not goes_on:
            following.drop()
            following = None
        round_.commit(len(tokens))
        self._begun = following
        self._state.append(read)
        if following is None and goes_on and self._is_shared:
            self._begun = self._begin_now()
            self._batch.wait(self._begun)

    def drop(self) -> None:
        """Take back what was begun ahead: the state is that after the tokens that were committed,
        the newest included where a plain round that reads it was followed.
        """
        (round_, following), self._begun, self._next = (self._begun, self._next), None, None
        if self._failed is not None:
            self._forget()
            return
        if round_ is not None and following is not None:
            following.drop()
            if round_.draft.depth:
                self._state.sampler = self._new_sampler()  # the present one has counted its tokens
            else:
                self._state.append([self._last])
                return
        if round_ is not None:
            self._batch.leave(round_)
            round_.drop()

    def _forget(self) -> None:
        self._state.forget()
        self._drafting.forget()

    def _holds(self, plan: Plan) -> bool:
        """Whether a plan was made for the settings of now."""
        settings = self._settings
        return plan.sampling == settings.sampling and plan.draft == settings.draft

    def _begin_now(self) -> Round:
        """A round after what is known; the device has nothing to do meanwhile but to draft."""
        state = self._state
        if self._settings.sampling != self._sampling:
            self._sampling, state.sampler = self._settings.sampling, self._new_sampler()
        state.last = mx.array([self._last], dtype=mx.int32)
        plan, self._plan = self._plan, None
        if plan is None or not self._holds(plan):
            plan = self._new_plan()
        return Round(state, plan, self._limits.deepest(self._generated, state.caches.length))

    def _new_plan(self) -> Plan:
        """Plan one round; called once for each."""
        sampling, draft = self._settings.sampling, self._settings.draft
        room = self._batch.room if self._is_shared else ALONE
        return Plan(self._drafting.plan(self._state, draft, self._last, room), sampling, draft)

    def _may_follow(self, round_: Round) -> bool:
        """Whether a round can be followed before its outcome is known, as far as that depends on
        the device and what drafts.
        """
        looks = self._follows_drafts if round_.wanted.depth else self._looks_ahead
        return looks and round_.can_be_followed

    def knows_ahead(self) -> bool:
        """Whether what follows the present round can be begun before its outcome is known; plans it
        if so.
        """
        round_ = self._begun
        assert round_ is not None
        if not self._may_follow(round_) or not self._holds(round_.plan):
            return False
        longest = round_.draft.depth
        if self._limits.full(self._generated + longest + 1, round_.position + longest) is not None:
            return False
        room = self._batch.room if self._is_shared else ALONE
        if not self._drafting.knows_ahead(self._state, round_.plan.draft, self._last, room):
            return False
        self._plan = self._new_plan()
        # on the host's processor it would run in the time of this round, and look cheap
        return self._follows_drafts or self._plan.choice.depth == 0

    def begin_next(self) -> Round:
        """Begin what follows, whatever the outcome, where `knows_ahead`."""
        round_, plan, self._plan = self._begun, self._plan, None
        assert round_ is not None
        assert plan is not None
        after = round_.commit_ahead()
        # one token more leaves room in the answer for the longest draft, all of them in the context
        deepest = self._limits.deepest(self._generated + 1, round_.position + round_.draft.depth)
        self._next = Round(round_.state, plan, deepest, after)
        return self._next

    def fail(self, error: Exception) -> None:
        """Raise this once the outcome of the present round is known, if the answer goes on."""
        if self._next is not None:
            self._batch.leave(self._next)
        self._failed, self._next = error, None
