"""What a model that drafts has read of a conversation, and what it is still to read.

A head's memory pairs token x_k with the target's hidden state of position k-1. It is made from
TRUE hidden states only, that of a small model from true tokens. Those of a round's accepted rows
are read in the same pass that makes the next draft, so rows wait; which of them are true may be
known to the device alone by then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import CachesSnapshot, LayerCaches, RowCount
from mlx_engine.cache.joint import JointCaches
from mlx_engine.drafting.chain import ModelDraft
from mlx_engine.drafting.contract import FEW_WAITING, FLUSH_ROWS, ROWS_OF_A_PROMPT, Rows
from mlx_engine.drafting.steps import Step, Steps, take_one
from mlx_engine.models.contract import MtpHead
from mlx_engine.values.options import CacheBits, DraftOptions

Forward = Callable[[mx.array, mx.array, LayerCaches | JointCaches], mx.array]
"""Rows (tokens [1, T], hidden states [1, T, H]) and what was read before -> their states; equal
where it is of the same weights.
"""


@dataclass(frozen=True, slots=True)
class _ByHead:
    """A head's."""

    head: MtpHead

    def __call__(
        self, tokens: mx.array, hidden: mx.array, caches: LayerCaches | JointCaches
    ) -> mx.array:
        """One pass."""
        return self.head.mtp_forward(tokens, hidden, caches)


class BeforeDraft(NamedTuple):
    """Where the last draft began: in the caches, and the rows that it may have read."""

    place: CachesSnapshot
    waiting: tuple[Rows, ...]


class Unsettled(NamedTuple):
    """Rows of which as many are true as the device knows; before: the draft that they verified."""

    rows: Rows
    pending: RowCount
    before: list[BeforeDraft]


class HeadMemory:
    """A head's cache of true rows, and those that wait for its next pass.

    Old ones that have waited for too long are left out. gap: how many rows of the cache are from
    before the last of those. unsettled: rows that wait behind all others. can_join: a pass may
    have rows of several conversations.
    """

    def __init__(self, forward: Forward, caches: LayerCaches, *, can_join: bool = True) -> None:
        self._forward, self._can_join = forward, can_join
        self.caches = caches
        self.gap = 0
        self.unsettled: Unsettled | None = None
        self.wait_only([])

    @staticmethod
    def of(head: MtpHead, bits: CacheBits = 16) -> "HeadMemory":
        """Empty; bits: of keys and values."""
        return HeadMemory(_ByHead(head), head.make_head_caches(bits))

    def wait_only(self, waiting: Sequence[Rows]) -> None:
        """These rows and no others; unread: how many."""
        self.waiting = list(waiting)
        self.unread = sum(rows.tokens.shape[0] for rows in waiting)

    def wait(self, rows: Rows) -> None:
        """For the next pass."""
        self.waiting.append(rows)
        self.unread += rows.tokens.shape[0]

    def leave_out(self, room: int) -> None:
        """All but so many of the rows that wait; with none of them also what comes next."""
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
        """One pass over waiting rows, which are kept, and drafted ones; states of all [1, T, H].

        Where rows are unsettled only the state of the newest.
        """
        if self.unsettled is not None:
            return self._read_unsettled(self.unsettled, drafted)
        return self._read_waiting(drafted)

    def _read_waiting(self, drafted: Sequence[Rows] = ()) -> Steps[mx.array]:
        states = yield self._pass(_joined([*self.waiting, *drafted]))
        self.caches.commit(self.unread)
        self.wait_only([])
        return states

    def missing(self, rows: int) -> int:
        """How many were left out of all the rows that a conversation has had."""
        return max(0, rows - self.caches.length - self.unread)

    def within(self, rows: int, missing: int) -> int:
        """How many rows to keep of the cache so that it knows so many of the conversation; none
        where those right before the next are missing.
        """
        return rows - missing if rows - missing >= self.gap else 0

    def _read_unsettled(self, unsettled: Unsettled, drafted: Sequence[Rows]) -> Steps[mx.array]:
        """True rows first, then drafted ones, then what is left."""
        self.unsettled = None
        if self.waiting:
            yield from self._read_waiting()
        rows, pending = _joined([unsettled.rows, *drafted]), unsettled.pending
        if drafted:
            order = mx.arange(pending.most + len(drafted))
            behind = order + mx.where(order < pending.rows, 0, pending.most - pending.rows)
            order = mx.minimum(behind, rows.tokens.shape[0] - 1)
            rows = Rows(mx.take(rows.tokens, order), mx.take(rows.hidden, order, axis=1))
        states = yield self._pass(rows)
        self.caches.commit(pending)
        return mx.take(states, pending.after(len(drafted) - 1), axis=1)

    def _pass(self, rows: Rows) -> Step:
        forward = self._forward
        joint = forward if self._can_join else None
        return Step((rows.tokens[None], rows.hidden), forward, joint, self.caches)

    def place(self) -> BeforeDraft:
        """What to come back to if the next draft is withdrawn; reads what has waited for long."""
        if self.unread > FEW_WAITING:
            take_one(self._read_waiting())
        return BeforeDraft(self.caches.place(), tuple(self.waiting))

    def go_back(self, before: BeforeDraft) -> None:
        """To the place before a draft."""
        self.caches.restore(before.place)
        self.wait_only(before.waiting)

    def flush(self) -> int:
        """Read the newest rows that wait, some at a time, without a draft; how many they are."""
        self.leave_out(ROWS_OF_A_PROMPT)
        waiting, count = self.waiting, self.unread
        self.wait_only([])
        for rows in waiting:
            self.wait(rows)
            if self.unread >= FLUSH_ROWS or rows is waiting[-1]:
                take_one(self._read_waiting())
        if count:
            mx.async_eval(self.caches.arrays())  # type: ignore[no-untyped-call]
        return count


class MemoryDraft(ModelDraft):
    """A source whose models remember true rows: one of them, or several heads in turns."""

    def __init__(self, options: DraftOptions, memories: Sequence[HeadMemory]) -> None:
        super().__init__(options, *(memory.caches for memory in memories))
        self._memories = memories
        self._before: list[BeforeDraft] = []
        self._unsettled: Unsettled | None = None

    def pend(self, picked: mx.array, hidden: mx.array, pending: RowCount) -> None:
        """After the last draft: each row's next token beside its hidden state is a row to read."""
        self._unsettled = Unsettled(Rows(picked, hidden), pending, self._before)
        self._before = []
        for memory in self._memories:
            memory.unsettled = self._unsettled

    def settle(self, rows: int) -> None:
        """They were so many; with none also the draft that they verified is undone."""
        assert self._unsettled is not None
        unsettled, self._unsettled = self._unsettled, None
        if rows == 0:
            self._before = unsettled.before
            self.withdraw()
            return
        true = unsettled.rows
        others = Rows(true.tokens[: rows - 1], true.hidden[:, : rows - 1])  # not the newest's
        read = () if rows == 1 else (others,)
        self.length += rows
        for number, memory in enumerate(self._memories):
            if self._before:
                before = self._before[number]
                self._before[number] = before._replace(waiting=(*before.waiting, *read))
            if memory.unsettled is not None:
                memory.unsettled = None
                memory.wait_only([*memory.waiting, *read])

    def withdraw(self) -> None:
        """Let the rows wait that the last draft has read, without that of the newest token."""
        for memory, before in zip(self._memories, self._before, strict=bool(self._before)):
            memory.go_back(before)
            memory.unsettled = self._unsettled
        self._before = []


def _joined(parts: Sequence[Rows]) -> Rows:
    """One behind the other."""
    tokens = mx.concatenate([part.tokens for part in parts])
    return Rows(tokens, mx.concatenate([part.hidden for part in parts], axis=1))
