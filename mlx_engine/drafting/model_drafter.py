"""Drafters that run a model: token after token, behind the true rows that the model has read.

A head pairs token x_k with the target's hidden state of position k-1, a small model reads tokens
alone. Both read TRUE rows only: a round's committed rows are read in the same pass that makes the
next draft, so rows wait; how many of them count may be known to the device alone by then.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import CachesSnapshot, LayerCaches, RowCount
from mlx_engine.cache.joint import JointCaches
from mlx_engine.drafting.drafter import (
    ROWS_OF_A_PROMPT,
    Draft,
    Drafter,
    Proposal,
    ReadRows,
    Rows,
    SourceSnapshot,
    Step,
    Steps,
    empty_draft,
    run_alone,
)
from mlx_engine.models.contract import MtpHead
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import CacheBits, DraftOptions

FLUSH_ROWS = 64
"""Rows that may wait for a model's next draft before it reads them without one."""

MOST_WAITING = 2048
"""The same while the drafter rests."""

FEW_WAITING = 32
"""Rows that a draft reads in its own pass; more are read before, to stay there if it is undone."""

Forward = Callable[[mx.array, mx.array, LayerCaches | JointCaches], mx.array]
"""Tokens [1, T], hidden states [1, T, H] and caches -> states; equal for equal weights."""


class ModelDrafter(Drafter):
    """Drafts with a model, one token after the other."""

    @abstractmethod
    def draft_logits(self, state: mx.array) -> Steps[mx.array]:
        """A state [1, 1, H] -> float32 logits [1, V] of the target's vocabulary."""

    @abstractmethod
    def read_drafted(self, token: mx.array, state: mx.array) -> Steps[mx.array]:
        """The state after one more drafted token int32 [1]; state: the one it was drafted from."""

    def chain(self, state: mx.array, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """At most `wanted.depth` tokens from the state [1, 1, H] after `wanted.last`.

        The pass that made `state` counts as the first. Lazy, unless min_probability is set: a draft
        then ends before the first token that the model finds less likely (one host sync a token).

        That is so on a device that is queued ahead, too: who sets it wants fewer rows verified, and
        a cut that the host never sees saves none, as every shape has to be known to it. In a model
        of rounds (27B on an M4 Pro, tokens a second over plain) a wait for each token gives 1.81,
        the whole draft made and cut after one wait 1.73, and all of it verified, without a cut,
        2.19.
        """
        drafted: list[mx.array] = []
        prefix, passes, noisy = empty_draft().tokens, 1, self.options.rule == "shared-noise"
        if noisy:
            sampler.draw(wanted.position, wanted.depth + 1)
        pick = sampler.pick_draft if noisy else sampler.pick_greedy
        while True:
            logits = yield from self.draft_logits(state)
            token = pick(logits, wanted.position + len(drafted), prefix)
            least = self.options.min_probability
            if least > 0 and not (sampler.probability(logits, token, prefix) >= least).item():
                return Draft(prefix, passes)
            drafted.append(token)
            prefix = mx.concatenate(drafted) if len(drafted) > 1 else token
            if len(drafted) == wanted.depth:
                return Draft(prefix, passes)
            state = yield from self.read_drafted(token, state)
            passes += 1


@dataclass(frozen=True, slots=True)
class _ByHead:
    head: MtpHead

    def __call__(
        self, tokens: mx.array, hidden: mx.array, caches: LayerCaches | JointCaches
    ) -> mx.array:
        return self.head.mtp_forward(tokens, hidden, caches)


class _Open(NamedTuple):
    """Committed rows whose count the host does not know: each row's picked token beside its hidden
    state, so that the last one that counts is the row of the newest token.
    """

    rows: Rows
    counted: RowCount

    def first(self, count: int) -> Rows:
        return Rows(self.rows.tokens[:count], self.rows.hidden[:, :count])


class _Undo(NamedTuple):
    """Where a draft began: in the caches, and the rows that it may have read."""

    place: CachesSnapshot
    waiting: tuple[Rows, ...]
    open: _Open | None


class HeadMemory:
    """The caches of a head or small model, and the rows that wait for its next pass.

    Old rows that have waited for too long are left out. gap: how many rows of the caches are from
    before the last of those. open: rows behind all that wait. can_join: a pass may have rows of
    several conversations.
    """

    def __init__(self, forward: Forward, caches: LayerCaches, *, can_join: bool = True) -> None:
        self._forward, self._can_join = forward, can_join
        self.caches = caches
        self.gap = 0
        self.open: _Open | None = None
        self.wait_only([])

    @staticmethod
    def of(head: MtpHead, bits: CacheBits = 16) -> "HeadMemory":
        """Empty; bits: of keys and values."""
        return HeadMemory(_ByHead(head), head.make_head_caches(bits))

    def wait_only(self, waiting: Sequence[Rows]) -> None:
        """Replace the rows that wait; unread: how many they are."""
        self.waiting = list(waiting)
        self.unread = sum(rows.tokens.shape[0] for rows in waiting)

    def wait(self, rows: Rows) -> None:
        """Add rows for the next pass."""
        self.waiting.append(rows)
        self.unread += rows.tokens.shape[0]

    def leave_out(self, room: int) -> None:
        """Drop all but `room` of the rows that wait; 0 leaves a gap also where none waits."""
        if room and self.unread <= room:
            return
        first, over = 0, self.unread - room
        while over and (count := self.waiting[first].tokens.shape[0]) <= over:
            first, over = first + 1, over - count
        newest = self.waiting[first:]
        if over:
            newest[0] = newest[0].last(newest[0].tokens.shape[0] - over)
        self.gap = self.caches.length
        self.wait_only(newest)

    def read(self, drafted: Sequence[Rows] = ()) -> Steps[mx.array]:
        """One pass over the rows that wait, which are committed, and drafted ones, which are not;
        states of all [1, T, H]; with open rows only the state of the newest.
        """
        if self.open is not None:
            return self._read_open(self.open, drafted)
        return self.read_waiting(drafted)

    def read_waiting(self, drafted: Sequence[Rows] = ()) -> Steps[mx.array]:
        """The same, but for open rows, which stay so."""
        states = yield self._pass(_joined([*self.waiting, *drafted]))
        self.caches.commit(self.unread)
        self.wait_only([])
        return states

    def _read_open(self, opened: _Open, drafted: Sequence[Rows]) -> Steps[mx.array]:
        """Rows that count first, then drafted ones, then what is left."""
        self.open = None
        if self.waiting:
            yield from self.read_waiting()
        rows, count = _joined([opened.rows, *drafted]), opened.counted
        if drafted:
            order = mx.arange(count.most + len(drafted))
            behind = order + mx.where(order < count.rows, 0, count.most - count.rows)
            order = mx.minimum(behind, rows.tokens.shape[0] - 1)
            rows = Rows(mx.take(rows.tokens, order), mx.take(rows.hidden, order, axis=1))
        states = yield self._pass(rows)
        self.caches.commit(count)
        return mx.take(states, count.after(len(drafted) - 1), axis=1)

    def _pass(self, rows: Rows) -> Step:
        joint = self._forward if self._can_join else None
        return Step((rows.tokens[None], rows.hidden), self._forward, joint, self.caches)

    def missing(self, rows: int) -> int:
        """How many were left out of the rows that a conversation has had."""
        return max(0, rows - self.caches.length - self.unread)

    def within(self, rows: int, missing: int) -> int:
        """How many rows to keep of the caches so that they know `rows` of the conversation; none
        where those right before the next are missing.
        """
        return rows - missing if rows - missing >= self.gap else 0

    def before_draft(self) -> _Undo:
        """What `undo` goes back to."""
        return _Undo(self.caches.place(), tuple(self.waiting), self.open)

    def undo(self, before: _Undo) -> None:
        """Go back to before a draft; the row of the newest token is not among those that wait."""
        self.caches.restore(before.place)
        self.wait_only(before.waiting)
        self.open, opened = None, before.open
        known = None if opened is None else opened.counted.known
        if known is None:
            self.open = opened
        elif opened is not None and known > 1:
            self.wait(opened.first(known - 1))

    def flush(self) -> int:
        """Read the newest rows that wait, some at a time, without a draft; how many they are."""
        self.leave_out(ROWS_OF_A_PROMPT)
        waiting, count = self.waiting, self.unread
        self.wait_only([])
        for rows in waiting:
            self.wait(rows)
            if self.unread >= FLUSH_ROWS or rows is waiting[-1]:
                run_alone(self.read_waiting())
        # waited for: what async_eval is given is held, and could not be written in place meanwhile
        mx.eval(self.caches.arrays() if count else [])
        return count


class MemoryDrafter(ModelDrafter):
    """A drafter whose models remember true rows: one model, or several heads that take turns."""

    def __init__(self, options: DraftOptions, memories: Sequence[HeadMemory], limit: int) -> None:
        """limit: the deepest draft."""
        super().__init__(options, *(memory.caches for memory in memories))
        self.limit = limit
        self._memories = memories
        self._open: _Open | None = None
        self._verified: list[_Undo] = []
        self._drafted_from: list[_Undo] = []

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """Have the committed rows wait."""
        super().commit(rows, count)
        if isinstance(count, int):
            self._commit_known(rows.first(count))
            return
        assert rows.picked is not None
        self._open = _Open(Rows(rows.picked, rows.hidden), count)
        self._verified, self._drafted_from = self._drafted_from, []
        for memory in self._memories:
            memory.open = self._open

    def _commit_known(self, rows: ReadRows) -> None:
        tokens, hidden = rows.tokens, rows.hidden
        count, has_draft = tokens.shape[0], bool(self._drafted_from)
        waiting: Rows | None
        if self._newest is None or has_draft:
            # the very first token has no state before it; or the last draft has read its row
            waiting = Rows(tokens[1:], hidden[:, :-1]) if count > 1 else None
        elif count == 1:
            waiting = Rows(tokens, self._newest)
        else:
            waiting = Rows(tokens, mx.concatenate([self._newest, hidden[:, :-1]], axis=1))
        self._newest = hidden if count == 1 else _last_row(hidden)
        if waiting is not None:
            for memory in self._memories:
                memory.wait(waiting)
        self._drafted_from = []
        self._limit_waiting(has_draft=has_draft)

    @abstractmethod
    def _limit_waiting(self, *, has_draft: bool) -> None:
        """Read or leave out rows that have waited for too long; has_draft: they are of a round
        whose draft may not have come to the later heads.
        """

    def _resolve(self) -> None:
        opened = self._open
        if opened is None or (count := opened.counted.known) is None:
            return
        super()._resolve()
        self._open, verified = None, self._verified
        self._verified = []
        if count == 0:
            for memory in self._memories:
                memory.open = None
            self._drafted_from = verified
            return
        self._newest = _last_row(opened.rows.hidden[:, :count])
        # a draft made since has read the row of the newest token, or has it wait
        waiting = opened.first(count if self._drafted_from else count - 1)
        for memory in self._memories:
            if memory.open is not None and waiting.tokens.shape[0]:
                memory.wait(waiting)
            memory.open = None
        self._limit_waiting(has_draft=True)

    def _undo_draft(self) -> None:
        """Take back what was read for a draft of which nothing was committed."""
        for memory, before in zip(self._memories, self._drafted_from, strict=False):
            memory.undo(before)
        self._drafted_from = []

    def draft(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """`wanted.depth` tokens, no more than `limit`."""
        self._resolve()
        self._undo_draft()
        if wanted.depth == 0 or (self._newest is None and self._open is None):
            return empty_draft()
        for memory in self._memories:
            if memory.unread > FEW_WAITING:
                yield from memory.read_waiting()
        self._drafted_from = [memory.before_draft() for memory in self._memories]
        if self._open is None:
            assert self._newest is not None
            for memory in self._memories:
                memory.wait(Rows(wanted.last, self._newest))
        first = self._memories[0]
        states = yield from first.read()
        true_rows = first.caches.place()
        few = wanted._replace(depth=min(wanted.depth, self.limit))
        draft = yield from self.chain(states[:, -1:], few, sampler)
        first.caches.restore(true_rows)
        return draft

    def snapshot(self) -> SourceSnapshot:
        """Without a draft of which nothing was committed."""
        self._resolve()
        self._undo_draft()
        return super().snapshot()

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        self._open, self._verified, self._drafted_from = None, [], []
        for memory in self._memories:
            memory.open = None
        super().restore(snapshot)


def _joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    tokens = mx.concatenate([part.tokens for part in parts])
    return Rows(tokens, mx.concatenate([part.hidden for part in parts], axis=1))


def _last_row(hidden: mx.array) -> mx.array:
    """[1, T, H] -> [1, 1, H]; taken, since a slice would keep the whole block alive."""
    return hidden if hidden.shape[1] == 1 else mx.take(hidden, mx.array([-1]), axis=1)
