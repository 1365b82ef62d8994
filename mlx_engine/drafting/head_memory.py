"""A head's caches of a conversation, the committed rows that it has not read, and its passes.

A row pairs token x_k with the target's hidden state of position k-1; a small model reads the tokens
alone. Caches hold TRUE rows only: a round's committed rows wait, and are read in the same pass that
makes the next draft; how many of them count may be known to the device alone by then.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import CachesSnapshot, RowCount
from mlx_engine.cache.joint import apart, joint_caches
from mlx_engine.drafting.drafter import ROWS_OF_A_PROMPT, Rows
from mlx_engine.drafting.output_head import OutputHead
from mlx_engine.models.contract import MtpHead
from mlx_engine.values.options import CacheBits

FLUSH_ROWS = 64
"""Committed rows that may wait for the next draft; more are read without one."""

MOST_WAITING = 2048
"""Rows that may wait while the drafter rests."""

FEW_WAITING = 32
"""Rows that a draft reads in its own pass; more are read before, to stay there if it is undone."""


class OpenRows(NamedTuple):
    """Committed rows of which only the device knows how many count.

    Each row pairs the target's picked token with the hidden state it was picked from, so that the
    last row that counts is that of the newest token.
    """

    rows: Rows
    counted: RowCount

    def first(self, count: int) -> Rows:
        """The first rows, once the host knows how many count."""
        return Rows(self.rows.tokens[:count], self.rows.hidden[:, :count])


class BeforeDraft(NamedTuple):
    """State of a HeadMemory before a draft, to go back to where nothing of it was committed."""

    place: CachesSnapshot
    waiting: tuple[Rows, ...]
    open: OpenRows | None


class HeadStep(NamedTuple):
    """Result of a HeadPass: the head's state [1, 1, H] after the newest row, and logits [1, V]."""

    state: mx.array
    logits: mx.array


class HeadPass(NamedTuple):
    """Rows of one conversation for a pass of its head.

    true_rows: how many of the rows stay in the caches. output: in the place of the head's own
    output matrix. newest: int32 [1], the row after which a token is drafted; None for the last.
    """

    memory: "HeadMemory"
    rows: Rows
    true_rows: int | RowCount
    output: OutputHead | None = None
    newest: mx.array | None = None

    def run(self) -> HeadStep:
        """Run the pass alone."""
        head, rows = self.memory.head, self.rows
        states = head.mtp_forward(rows.tokens[None], rows.hidden, self.memory.caches)
        self.memory.caches.commit(self.true_rows)
        newest, output = self.newest, self.output
        state = states[:, -1:] if newest is None else mx.take(states, newest, axis=1)
        logits = head.mtp_logits(state) if output is None else output.logits(head, state)
        return HeadStep(state, logits.squeeze(0))


class HeadMemory:
    """The caches of a head, and committed rows that wait for its next pass.

    Old rows that have waited for too long are left out. unread: how many rows wait. gap: how many
    rows of the caches are from before the last ones left out. open: rows behind all that wait.
    can_join: a pass of the head may have rows of several conversations.
    """

    def __init__(self, head: MtpHead, bits: CacheBits = 16, *, can_join: bool = True) -> None:
        """bits: of keys and values."""
        self.head, self.can_join = head, can_join
        self.caches = head.make_head_caches(bits)
        self.gap = self.unread = 0
        self.waiting: list[Rows] = []
        self.open: OpenRows | None = None

    def replace_waiting(self, waiting: Sequence[Rows]) -> None:
        """Set the rows that wait."""
        self.waiting, self.unread = list(waiting), 0
        for rows in waiting:
            self.unread += rows.tokens.shape[0]

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
        self.replace_waiting(newest)

    def read(self, drafted: Sequence[Rows] = ()) -> mx.array:
        """Read the rows that wait, to stay, and drafted rows behind them, to be written over.

        Returns the head's states [1, T, H] of all; open rows stay open.
        """
        rows, true_rows = _joined([*self.waiting, *drafted]), self.unread
        self.replace_waiting(())
        states = self.head.mtp_forward(rows.tokens[None], rows.hidden, self.caches)
        self.caches.commit(true_rows)
        return states

    def next_pass(self, output: OutputHead | None, drafted: Sequence[Rows] = ()) -> HeadPass:
        """The pass that reads all rows that wait, open ones included, and drafted ones behind."""
        opened, self.open = self.open, None
        if opened is None:
            rows, true_rows = _joined([*self.waiting, *drafted]), self.unread
            self.replace_waiting(())
            return HeadPass(self, rows, true_rows, output)
        if self.waiting:
            self.read()
        rows, count = _joined([opened.rows, *drafted]), opened.counted
        if drafted:  # rows that count first, then drafted ones, then what is left
            order = mx.arange(count.most + len(drafted))
            behind = order + mx.where(order < count.rows, 0, count.most - count.rows)
            order = mx.minimum(behind, rows.tokens.shape[0] - 1)
            rows = Rows(mx.take(rows.tokens, order), mx.take(rows.hidden, order, axis=1))
        return HeadPass(self, rows, count, output, count.after(len(drafted) - 1))

    def missing(self, rows: int) -> int:
        """How many of the `rows` of a conversation were left out, neither read nor waiting."""
        return max(0, rows - self.caches.length - self.unread)

    def within(self, rows: int, missing: int) -> int:
        """Length of the caches after `rows` of the conversation, of which some are missing.

        0 where the rows right before the next one are among the missing.
        """
        return rows - missing if rows - missing >= self.gap else 0

    def before_draft(self) -> BeforeDraft:
        """The present state, for `undo`."""
        return BeforeDraft(self.caches.place(), tuple(self.waiting), self.open)

    def undo(self, before: BeforeDraft) -> None:
        """Go back to before a draft; the row of the newest token is not among those that wait."""
        self.caches.restore(before.place)
        self.replace_waiting(before.waiting)
        self.open, opened = None, before.open
        known = None if opened is None else opened.counted.known
        if known is None:
            self.open = opened
        elif opened is not None and known > 1:
            self.wait(opened.first(known - 1))

    def flush(self) -> int:
        """Read the newest rows that wait, some at a time; return how many there were."""
        self.leave_out(ROWS_OF_A_PROMPT)
        waiting, count = self.waiting, self.unread
        self.replace_waiting(())
        for rows in waiting:
            self.wait(rows)
            if self.unread >= FLUSH_ROWS or rows is waiting[-1]:
                self.read()
        # waited for: what async_eval is given is held, and could not be written in place meanwhile
        mx.eval(self.caches.arrays() if count else [])
        return count


def run_passes(passes: Sequence[HeadPass]) -> list[HeadStep]:
    """Run the passes that several conversations ask for, those of equal heads as one.

    The weights are read once, each conversation's rows see their own caches (cache/joint.py), and
    no row's numbers depend on the rows beside it.
    """
    groups: dict[object, list[int]] = {}
    for number, pass_ in enumerate(passes):
        hidden, memory = pass_.rows.hidden, pass_.memory
        key = (memory.head, hidden.dtype, hidden.shape[-1]) if memory.can_join else number
        groups.setdefault(key, []).append(number)
    steps: dict[int, HeadStep] = {}
    for numbers in groups.values():
        group = [passes[number] for number in numbers]
        steps.update(zip(numbers, _run_joint(group), strict=True))
    return [steps[number] for number in range(len(passes))]


def _run_joint(passes: Sequence[HeadPass]) -> list[HeadStep]:
    """Run passes of one head as one; its output matrix is read once where all use the same."""
    if len(passes) == 1:
        return [passes[0].run()]
    head = passes[0].memory.head
    counts = [pass_.rows.tokens.shape[0] for pass_ in passes]
    caches = joint_caches([pass_.memory.caches for pass_ in passes], counts)
    rows = _joined([pass_.rows for pass_ in passes])
    every = apart(head.mtp_forward(rows.tokens[None], rows.hidden, caches), counts, axis=1)
    states = []
    for pass_, own in zip(passes, every, strict=True):
        pass_.memory.caches.commit(pass_.true_rows)
        newest = pass_.newest
        states.append(own[:, -1:] if newest is None else mx.take(own, newest, axis=1))
    by_output: dict[OutputHead | None, list[int]] = {}
    for number, pass_ in enumerate(passes):
        by_output.setdefault(pass_.output, []).append(number)
    logits: dict[int, mx.array] = {}
    for output, numbers in by_output.items():
        joined = mx.concatenate([states[number] for number in numbers], axis=1)
        made = head.mtp_logits(joined) if output is None else output.logits(head, joined)
        logits.update(zip(numbers, apart(made.squeeze(0), [1] * len(numbers), axis=0), strict=True))
    return [HeadStep(state, logits[number]) for number, state in enumerate(states)]


def _joined(parts: Sequence[Rows]) -> Rows:
    """All rows, one after the other."""
    if len(parts) == 1:
        return parts[0]
    tokens, hidden = zip(*parts, strict=True)
    return Rows(mx.concatenate(list(tokens)), mx.concatenate(list(hidden), axis=1))
