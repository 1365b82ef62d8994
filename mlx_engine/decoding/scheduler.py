"""Scheduling of rounds: lookahead in each conversation, and passes that conversations share.

Lookahead: a GPU must not wait for the host. While the device runs a round, the host writes the next
one down and queues it, whatever the outcome: the number of accepted rows is a scalar on the device
(round.py). A round that was queued beyond the end of an answer, or for settings that have changed
since, is dropped. If the present round may be the last, nothing is queued before its outcome.
Models that read rows of a table from the disk by token ids await every outcome first; a GPU begins
with the first layers of their passes while the host writes the others. The outcome of a drafted
round is awaited first in three cases:
- The caches or the drafter need the number of accepted rows on the host: mlx-lm's classes, DFlash,
  Gemma's assistant.
- The model runs on a CPU: to follow an unknown outcome takes more operations than the waiting would
  cost. (`async_eval` of MLX's CPU backend waits until a hundred operations are left, so hardly
  anything would run beside the host.)
- The text repeats earlier text, so prompt lookup would draft a copy, which depends on the outcome.

A write of keys and values copies a layer's whole buffer while a pass that reads it is still queued,
as it may on a GPU with small models. So nothing is queued ahead while such copies would exceed the
memory limit.

Shared passes: the caller may take events from several answers in any order. An answer that sees
that another one had a turn since its own last turn begins its next round as soon as the present one
has ended, and lets that round wait. The first answer that needs an outcome runs one pass for all
rounds that wait. If the caller never goes on with an answer, its last rounds were run in vain.

Both: the first answer that reads a pass first has the next pass queued. All answers in the pass
begin their next rounds, and waiting rounds join. If one of these answers needs its outcome first,
or may end with it, or if another pass is under way, nothing is queued: a shared pass is worth more
than a device that is never idle. So a round may begin before the turn of the round before it, which
is then kept, and changed settings are in effect one round later.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple
from weakref import ref

import mlx.core as mx

from mlx_engine.decoding.round import AnswerLimits, Pass, Round
from mlx_engine.decoding.state import CLEAR_EVERY, SequenceState
from mlx_engine.drafting.contract import ALONE, DEEPEST, BatchLimits, DraftChoice
from mlx_engine.drafting.record import ConcurrentChats
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.sampler import Sampler, TokenScores
from mlx_engine.values.conversation import Settings
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.words import Words

SHORT_OF_MEMORY = Reason(
    "lookahead-memory",
    Words("Each step waits for the one before it: memory is too short to prepare one early."),
)

ALREADY_DONE_S = 5e-5
"""Seconds of waiting, at most, after which an outcome counts as having been there before."""


def outcome_reader() -> Executor | None:
    """Make a thread that waits for the outcomes of passes on a GPU; None on a CPU.

    Queueing the next pass on a GPU can block until most of it has run, so the queueing thread would
    see the outcome of the present pass too late.
    """
    is_gpu = mx.default_device().type == mx.DeviceType.gpu
    return ThreadPoolExecutor(1, "outcomes") if is_gpu else None


class BatchScheduler:
    """Shares passes of the target among the answers of an engine.

    most_rows: the largest number of rows of a shared pass. reader: thread that waits for outcomes
    (round.py), None on a CPU. most_bytes: memory of MLX at most, 0 for no limit. looks_ahead: queue
    a round before the outcome of the present one is known; follows_drafts: also if the present one
    has a draft. shared: how many rounds so far joined the pass of another answer.
    """

    def __init__(
        self,
        most_rows: Callable[[], int] = lambda: DEEPEST + 1,
        reader: Executor | None = None,
        most_bytes: int = 0,
    ) -> None:
        self.most_rows = most_rows
        self._reader = reader
        self.most_bytes = most_bytes
        self.looks_ahead, self.follows_drafts = True, reader is not None
        self.shared = 0
        self._answers: list[Callable[[], Lookahead]] = []
        self._waiting: list[Round] = []
        self._last_read: Pass | None = None
        self._latest: Callable[[], object] = lambda: None

    @property
    def running_answers(self) -> int:
        """Number of answers of the engine that run now."""
        return len(self._answers)

    @property
    def limits(self) -> BatchLimits:
        """Return how deep one answer may draft in a pass that all running answers share."""
        each = self.most_rows() // max(1, self.running_answers)
        return BatchLimits(self.running_answers - 1, max(0, each - 1))

    @contextmanager
    def during_answer(self, rounds: "Callable[[], Lookahead]") -> Iterator[None]:
        """Context in which an answer runs; the first one resets the peak memory.

        rounds: returns the answer's present rounds, which are other ones after an error.
        """
        if not self._answers:
            mx.reset_peak_memory()
        self._answers.append(rounds)
        try:
            yield
        finally:
            self._answers = [other for other in self._answers if other is not rounds]

    def take_turn(self, answer: object) -> bool:
        """Note whose turn it is; return whether another answer had one since this one's last."""
        latest, self._latest = self._latest(), ref(answer)
        return latest is not None and latest is not answer

    def add_waiting(self, round_: Round) -> None:
        """Have an answer's round wait for the next shared pass."""
        self._waiting.append(round_)

    def remove_waiting(self, round_: Round) -> None:
        """Withdraw an answer's round from those that wait for the next shared pass."""
        if self._waiting:
            self._waiting = [other for other in self._waiting if other is not round_]

    def begin(self, first: Round) -> Pass:
        """Begin a pass of a round, with all waiting rounds of the same model that fit."""
        self.remove_waiting(first)
        model, rounds, rows = first.state.model, [first], first.most_rows
        for other in self._waiting:
            is_joint = other.state.model is model and model.joint_forward is not None
            if is_joint and rows + other.most_rows <= self.most_rows():
                rounds.append(other)
                rows += other.most_rows
        for other in rounds[1:]:
            self.remove_waiting(other)
        self.shared += len(rounds) - 1
        return Pass(rounds, self._reader)

    def await_pass(self, pass_: Pass) -> None:
        """Wait for the outcome of a pass; set the seconds it took once the device was free."""
        if pass_.read_at:
            return
        pass_.await_outcome()
        free_at = self._last_read.read_at if self._last_read else 0.0
        if self._reader is None:
            pass_.took = pass_.read_at - max(pass_.began_at, free_at)
        else:
            since = max(pass_.written_at, free_at)
            pass_.took = pass_.read_at - since
            pass_.idle = max(0.0, pass_.began_at - since)
        self._last_read = pass_

    def look_ahead(self, pass_: Pass) -> None:
        """Begin the next rounds of all answers in an unread pass, if all of them can."""
        every = [rounds() for rounds in self._answers]
        elsewhere = [other for rounds in every for other in rounds.passes if other is not pass_]
        if any(other is self._last_read or not other.read_at for other in elsewhere):
            return
        inside = [rounds for rounds in every if rounds.passes and rounds.passes[0] is pass_]
        try:
            if all(rounds.plan_next() for rounds in inside):
                begun = [rounds.begin_next() for rounds in inside]
                self._waiting = [*begun, *self._waiting]
                for round_ in begun:
                    if round_.verified_by is None:
                        self.begin(round_).queue_on_device()
        except Exception as error:
            for rounds in inside:
                rounds.set_error(error)


class RoundOutcome(NamedTuple):
    """What one decoding round has yielded: its tokens, its draft, and when and how it ran.

    tokens: the accepted drafts and the target's next token. drafted: how many drafted tokens were
    of use; tried: these, and the one for whose low probability a draft ended. draft_passes: passes
    of a head or small model, also for a draft of no tokens. began_at, read_at: from when on the
    time counts as this round's, and when its tokens were read, in seconds of `perf_counter`.
    device_s: seconds in which the device worked; idle_s: in which it waited for the host, None
    without an outcome reader. draft_ms: milliseconds of the draft, 0 where they cannot be told
    apart. scores: of these tokens at least, None where nobody asks for log-probabilities.
    """

    tokens: tuple[int, ...]
    drafted: int
    tried: int
    draft_passes: int
    choice: DraftChoice
    began_at: float
    read_at: float
    device_s: float
    idle_s: float | None
    draft_ms: float
    others: ConcurrentChats
    scores: TokenScores | None


class Lookahead:
    """Runs the rounds of an answer, for a state that has read all but the newest token.

    For each round first `run` its outcome, then `commit` as many of its tokens as the answer
    takes. settings: their owner may change them meanwhile; rounds follow from the next one on.
    new_sampler: makes one that knows the answer so far. last: the newest token; generated: how many
    tokens the answer has.
    """

    def __init__(
        self,
        batch: BatchScheduler,
        state: SequenceState,
        drafting: Drafting,
        settings: Settings,
        limits: AnswerLimits,
        new_sampler: Callable[[], Sampler],
        last: int,
        generated: int,
    ) -> None:
        self._state = state
        self._drafting, self._policy = drafting, drafting.policy
        self._settings = settings
        self._limits = limits
        self._new_sampler = new_sampler
        self._last = last
        self._generated = generated
        self._batch = batch
        self._is_shared = False
        self._memory_checked_at = -CLEAR_EVERY
        self._looks_ahead = self._follows_drafts = False
        self._sampling = settings.sampling
        self._draft: DraftOptions | None = None
        state.sampler = new_sampler()
        self._present: Round | None = None
        self._next: Round | None = None
        self._choice: DraftChoice | None = None
        self._failed: Exception | None = None
        self.ended_at = 0.0

    @property
    def passes(self) -> Sequence[Pass]:
        """Passes of the answer's present round, and of the next if it has begun."""
        found = [round_.verified_by for round_ in (self._present, self._next) if round_ is not None]
        return [pass_ for pass_ in found if pass_ is not None]

    @property
    def has_begun_successor(self) -> bool:
        """Whether the round after the present one has begun."""
        return self._next is not None

    def run(self) -> RoundOutcome:
        """Run the answer's next round and wait for its outcome. Raises NumericsError.

        Drafted tokens beyond the end of the answer do not count.
        """
        began_at, useful = perf_counter(), self._deepest_draft()
        if self._generated >= self._memory_checked_at + CLEAR_EVERY:
            self._check_memory()
        self._is_shared = self._batch.take_turn(self._state)
        if self._present is not None and self._next is None and self._are_settings_new():
            self.roll_back_rounds()
        round_ = self._present = self._present or self._begin_known_round(useful)
        pass_ = round_.verified_by
        was_ahead = pass_ is not None and pass_.queued_at > 0
        pass_ = pass_ or self._batch.begin(round_)
        if self._looks_ahead:
            pass_.queue_on_device()
            if not pass_.read_at and (self._follows_drafts or not round_.request.depth):
                self._batch.look_ahead(pass_)
        asked_at = perf_counter()
        self._batch.await_pass(pass_)
        tokens = round_.await_outcome()[: useful + 1]
        read_at = perf_counter()
        if was_ahead and pass_.read_at - asked_at > ALREADY_DONE_S:
            began_at = self.ended_at  # the device had been at work while events were read, too
        # another conversation may have waited for it before
        queued_at = max(pass_.read_at, asked_at) - pass_.took
        if pass_.rounds > 1:
            began_at = min(began_at, queued_at)
        if pass_.reader is None:
            device_s, idle_s = read_at - max(queued_at, began_at), None
        else:
            device_s, idle_s = pass_.took - pass_.idle, pass_.idle
        passes, drafted = round_.draft.passes, min(round_.depth, useful)
        was_cut = passes > 0 and round_.depth < round_.request.depth
        return RoundOutcome(
            tokens=tokens,
            drafted=drafted,
            tried=min(round_.depth + was_cut, useful),
            draft_passes=passes,
            choice=round_.choice,
            began_at=began_at,
            read_at=read_at,
            device_s=device_s,
            idle_s=idle_s,
            # a draft that waited for others' rounds was made while a pass of theirs still ran
            draft_ms=min(pass_.draft_ms, 1000 * device_s) if round_.depth else 0.0,
            others=ConcurrentChats(pass_.rounds - 1, pass_.rows - round_.depth - 1),
            scores=round_.scores,
        )

    def _check_memory(self) -> None:
        """Look ahead from now on if a copy of all keys and values fits into the memory limit."""
        batch, self._memory_checked_at = self._batch, self._generated
        total = mx.get_active_memory() + self._state.caches.nbytes
        waits = self._state.model.why_no_lookahead is not None
        fits = total <= (batch.most_bytes or total)
        self._looks_ahead = batch.looks_ahead and fits and not waits
        self._follows_drafts = self._looks_ahead and batch.follows_drafts

    def commit(self, tokens: Sequence[int], *, answer_continues: bool) -> None:
        """Append to the conversation the first tokens of the round that `run` has run.

        All of them if `answer_continues`. Raises the error noted by `fail`, if the answer goes on.
        """
        try:
            self._commit_tokens(tokens, answer_continues)
        finally:  # the tokens stand, whatever becomes of their rows
            self.ended_at = perf_counter()

    def _commit_tokens(self, tokens: Sequence[int], answer_continues: bool) -> None:
        round_, following = self._present, self._next
        self._present = self._next = None
        assert round_ is not None
        read = [self._last, *tokens[:-1]]
        self._last, self._generated = tokens[-1], self._generated + len(tokens)
        if self._failed is not None:
            if answer_continues:
                raise self._failed
            self._reset_state()
            return
        if following is not None and round_.depth and not answer_continues:
            following.roll_back()
            following = None
        round_.commit(len(tokens))
        self._present = following
        self._state.append(read)
        if following is None and answer_continues and self._is_shared:
            self._present = self._begin_known_round(self._deepest_draft())
            self._batch.add_waiting(self._present)

    def roll_back_rounds(self) -> None:
        """Roll back the answer's rounds that have begun but were not committed.

        A plain round whose next round has begun stays committed: it has read the newest token.
        """
        round_, following = self._present, self._next
        self._present = self._next = None
        if self._failed is not None:
            self._reset_state()
            return
        if round_ is not None and following is not None:
            following.roll_back()
            if round_.depth:
                self._state.sampler = self._new_sampler()  # the present one has counted its tokens
            else:
                self._state.append([self._last])
                return
        if round_ is not None:
            self._batch.remove_waiting(round_)
            round_.roll_back()

    def _reset_state(self) -> None:
        self._state.reset_state()
        self._drafting.forget_drafter()

    def _are_settings_new(self) -> bool:
        """Whether the settings have changed since rounds were begun for them."""
        settings = self._settings
        return settings.sampling != self._sampling or settings.draft != self._draft

    def _deepest_draft(self) -> int:
        """Return the largest useful draft depth after the newest token, which the host knows."""
        return self._limits.deepest_draft(self._generated, len(self._state.tokens))

    def _begin_known_round(self, deepest: int) -> Round:
        """Begin a round after the newest token, which the host knows. deepest: draft at most."""
        state, settings = self._state, self._settings
        if settings.sampling != self._sampling:
            self._sampling, state.sampler = settings.sampling, self._new_sampler()
        state.last = mx.array([self._last], dtype=mx.int32)
        choice, self._choice = self._choice, None
        if choice is None or settings.draft != self._draft:
            choice = self._choose_draft()
        return Round(state, choice, deepest)

    def _choose_draft(self) -> DraftChoice:
        """Choose draft source and depth of a round; called once for each round."""
        state, draft, limits = self._state, self._settings.draft, self._batch_limits
        is_new = draft != self._draft
        if is_new:
            self._draft = draft
            self._drafting.adopt_options(state, draft)
        drafter, forced = state.drafter, 0
        if state.sampler.depends_on_tokens and draft.source != "none" and draft.depth != 0:
            forced = 0 if state.model.why_no_drafts else len(state.sampler.forced_tokens())
        self._policy.set_batch(limits)
        may_rest = not (is_new or forced or drafter.lookup)
        choice = self._policy.choose_while_paused() if may_rest else None
        if choice is None:
            offers = drafter.draft_offers(self._last, forced)
            depth = draft.depth if offers or drafter.is_ready else 0
            choice = self._policy.plan_round(offers, depth, drafter.why_nothing)
        is_short = self._batch.looks_ahead and not self._looks_ahead
        if choice.why is None and is_short and state.model.why_no_lookahead is None:
            choice = choice._replace(why=SHORT_OF_MEMORY)
        return choice

    @property
    def _batch_limits(self) -> BatchLimits:
        return self._batch.limits if self._is_shared else ALONE

    def plan_next(self) -> bool:
        """Plan the next round, if it can begin before this one's outcome; return whether it can.

        The plan, its draft source and depth, is kept for `begin_next`.
        """
        round_ = self._present
        assert round_ is not None
        looks = self._follows_drafts if round_.request.depth else self._looks_ahead
        if not (looks and round_.can_be_followed) or self._are_settings_new():
            return False
        longest = round_.depth
        if (
            self._limits.reached_limit(self._generated + longest + 1, round_.position + longest)
            is not None
        ):
            return False
        drafter, depth = self._state.drafter, self._settings.draft.depth
        if drafter.lookup is not None:
            self._policy.set_batch(self._batch_limits)
            if self._policy.would_copy_passage(drafter.draft_offers(self._last), depth):
                return False
        self._choice = self._choose_draft()
        # on the host's processor it would run in the time of this round, and look cheap
        return self._follows_drafts or self._choice.depth == 0

    def begin_next(self) -> Round:
        """Begin the round planned by `plan_next`, before the present one's outcome is known."""
        round_, choice, self._choice = self._present, self._choice, None
        assert round_ is not None and choice is not None
        after = round_.commit_lazily()
        # one token more leaves room in the answer for the longest draft, all of them in the context
        deepest = self._limits.deepest_draft(self._generated + 1, round_.position + round_.depth)
        self._next = Round(round_.state, choice, deepest, after)
        return self._next

    def set_error(self, error: Exception) -> None:
        """Note an error, to be raised in place of the next round if the answer goes on."""
        if self._next is not None:
            self._batch.remove_waiting(self._next)
        self._failed, self._next = error, None
