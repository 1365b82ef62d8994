"""Lookahead: the next round of an answer is queued before the outcome of the present one is known.

A GPU must not wait for the host. So while the device runs a round, the host writes the next round
down and queues it, whatever the outcome: the number of accepted rows is a scalar on the device
(round.py), which the host reads while the next round runs. A round that was queued beyond the end
of an answer, or for settings that have changed since, is dropped: none of its rows is committed. If
the present round may be the last of the answer, nothing is queued before its outcome.

The outcome of a drafted round is awaited first in three cases:
- The caches or the drafter need the number of accepted rows on the host: mlx-lm's classes, DFlash,
  Gemma's assistant.
- The model runs on a CPU: to follow an unknown outcome takes more operations than the waiting would
  cost. (A CPU pass begins layer by layer while the rest is written down: `async_eval` of MLX's CPU
  backend waits until a hundred operations are left, so hardly anything would run beside the host.)
- The text repeats earlier text, so prompt lookup would draft a copy, which depends on the outcome.

When conversations share passes, the first one whose turn comes begins the next rounds of all
(batch.py). So the next round may begin before the present round's own turn: the present round is
then kept, and changed settings are in effect one round later.
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
from mlx_engine.drafting.round_costs import OtherChats
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.conversation import FinishReason

ALREADY_DONE_S = 5e-5
"""Seconds of waiting, at most, after which an outcome counts as having been there before."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Conditions that end an answer, besides stop strings, which StreamingText finds.

    end_ids: tokens that end the answer, empty to ignore them. max_tokens: tokens of the answer at
    most, None for no limit. context_length: tokens of the conversation at most.
    """

    end_ids: frozenset[int]
    max_tokens: int | None
    context_length: int

    def finish(self, token: int, generated: int, position: int) -> FinishReason | None:
        """Return why `token`, the answer's `generated`-th, at `position`, ends it; else None."""
        return "end" if token in self.end_ids else self.full(generated, position)

    def full(self, generated: int, position: int) -> FinishReason | None:
        """Return why an answer ends after `generated` tokens, whatever the newest is; else None."""
        if self.max_tokens is not None and generated >= self.max_tokens:
            return "max-tokens"
        if position + 1 >= self.context_length:
            return "context-full"
        return None

    def deepest(self, generated: int, read: int) -> int:
        """Return the largest useful draft depth.

        read: tokens of the chat that the model has read. generated: tokens of the answer.
        """
        room = self.context_length - read - 2
        budget = room if self.max_tokens is None else self.max_tokens - generated - 1
        return max(0, min(room, budget))


class Outcome(NamedTuple):
    """What one decoding round has yielded: its tokens, its draft, and when and how it ran.

    tokens: the accepted drafts and the target's next token. position: of the first of them. asked:
    the depth that was asked for; drafted, accepted: how many tokens of the draft were of use.
    draft_passes: passes of a head or small model, also for a draft of no tokens. queued_at,
    read_at: when the device could begin the round and when its tokens were read, in seconds of
    `perf_counter`. draft_ms: milliseconds of the draft, 0 where they cannot be told apart.
    was_ahead: the round was queued before the round before it had ended; is_followed: the next
    round is queued; was_awaited: the host waited for the outcome. took: seconds of the pass itself;
    idle: the part of them in which the device waited for the host, None without an outcome reader.
    others: rounds and rows of other conversations in the pass.
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
    others: OtherChats


class Lookahead:
    """Runs the rounds of an answer, for a state that has read all but the newest token.

    For each round first `run` its outcome, then `commit` as many of its tokens as the answer
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
        """Passes of the answer's present round, and of the next where it has begun."""
        found = [round_.verified_by for round_ in (self._begun, self._next) if round_ is not None]
        return [pass_ for pass_ in found if pass_ is not None]

    @property
    def is_followed(self) -> bool:
        """Whether the round after the present one has begun."""
        return self._next is not None

    def run(self) -> Outcome:
        """Run the answer's next round and wait for its outcome. Raises NumericsError.

        Drafted tokens beyond the end of the answer do not count.
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
            drafted=min(round_.drafted, useful),
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
            others=OtherChats(pass_.rounds - 1, pass_.rows - draft.depth - 1),
        )

    def commit(self, tokens: Sequence[int], *, goes_on: bool) -> None:
        """Append to the conversation the first tokens of the round that `run` has run.

        All of them if `goes_on`. Raises the error that beginning the next round has met with.
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
            self._batch.add_waiting(self._begun)

    def drop(self) -> None:
        """Roll back the answer's rounds that have begun but were not committed.

        A plain round that has been followed stays committed: it has read the newest token.
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
            self._batch.remove_waiting(round_)
            round_.drop()

    def _forget(self) -> None:
        self._state.forget()
        self._drafting.forget()

    def _holds(self, plan: Plan) -> bool:
        """Whether the settings are still those for which a round was planned."""
        settings = self._settings
        return plan.sampling == settings.sampling and plan.draft == settings.draft

    def _begin_now(self) -> Round:
        """Begin a round after the newest token, which the host knows."""
        state = self._state
        if self._settings.sampling != self._sampling:
            self._sampling, state.sampler = self._settings.sampling, self._new_sampler()
        state.last = mx.array([self._last], dtype=mx.int32)
        plan, self._plan = self._plan, None
        if plan is None or not self._holds(plan):
            plan = self._new_plan()
        return Round(state, plan, self._limits.deepest(self._generated, state.caches.length))

    def _new_plan(self) -> Plan:
        """Choose draft source and depth of a round; called once for each round."""
        sampling, draft = self._settings.sampling, self._settings.draft
        limits = self._batch.limits if self._is_shared else ALONE
        return Plan(self._drafting.plan(self._state, draft, self._last, limits), sampling, draft)

    def _may_follow(self, round_: Round) -> bool:
        """Whether device, caches and drafter can follow a round before its outcome is known."""
        looks = self._follows_drafts if round_.wanted.depth else self._looks_ahead
        return looks and round_.can_be_followed

    def knows_ahead(self) -> bool:
        """Whether the next round can begin before this one's outcome is known; plan it then."""
        round_ = self._begun
        assert round_ is not None
        if not self._may_follow(round_) or not self._holds(round_.plan):
            return False
        longest = round_.draft.depth
        if self._limits.full(self._generated + longest + 1, round_.position + longest) is not None:
            return False
        limits = self._batch.limits if self._is_shared else ALONE
        if not self._drafting.knows_ahead(self._state, round_.plan.draft, self._last, limits):
            return False
        self._plan = self._new_plan()
        # on the host's processor it would run in the time of this round, and look cheap
        return self._follows_drafts or self._plan.choice.depth == 0

    def begin_next(self) -> Round:
        """Begin the next round, whatever the outcome of the present one, after `knows_ahead`."""
        round_, plan, self._plan = self._begun, self._plan, None
        assert round_ is not None
        assert plan is not None
        after = round_.commit_ahead()
        # one token more leaves room in the answer for the longest draft, all of them in the context
        deepest = self._limits.deepest(self._generated + 1, round_.position + round_.draft.depth)
        self._next = Round(round_.state, plan, deepest, after)
        return self._next

    def fail(self, error: Exception) -> None:
        """Note an error, to be raised in place of the next round if the answer goes on."""
        if self._next is not None:
            self._batch.remove_waiting(self._next)
        self._failed, self._next = error, None
