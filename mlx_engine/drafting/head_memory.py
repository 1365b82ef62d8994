"""The caches of an MTP head in one conversation, and the committed rows that it has not read yet.

A row pairs token x_k with the target's hidden state of position k-1; a small model reads the tokens
alone. Caches hold TRUE rows only: a round's committed rows wait, and are read in the same pass that
makes the next draft; how many of them count may be known to the device alone by then.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import CachesSnapshot, RowCount
from mlx_engine.drafting.drafter import ROWS_OF_A_PROMPT, Rows
from mlx_engine.models.contract import MtpHead
from mlx_engine.values.options import CacheBits

FLUSH_ROWS = 64
"""Committed rows that may wait for the next draft; more are read without one."""

MOST_WAITING = 2048
"""Rows that may wait while the drafter is paused."""

FEW_WAITING = 32
"""Rows that a draft reads in its own pass; more are read before, to stay there if it is undone."""


class UncountedRows(NamedTuple):
    """Committed rows for an MTP head, of which only the device knows how many count.

    Each row pairs the target's picked token with the hidden state it was picked from, so that the
    last row that counts is that of the newest token.
    """

    rows: Rows
    counted: RowCount

    def first(self, count: int) -> Rows:
        """Return the first `count` rows, once the host knows how many count."""
        return Rows(self.rows.tokens[:count], self.rows.hidden[:, :count])


class BeforeDraft(NamedTuple):
    """State of an MTP head's caches and unread rows before a draft, to undo that draft with."""

    place: CachesSnapshot
    waiting: tuple[Rows, ...]
    open: UncountedRows | None


class UnreadRows(NamedTuple):
    """Rows for an MTP head's next pass.

    true_rows: how many of them stay in the caches. newest: int32 [1], the row after which a token
    is drafted; None for the last.
    """

    rows: Rows
    true_rows: int | RowCount
    newest: mx.array | None = None


class HeadMemory:
    """The caches of an MTP head in one conversation, and committed rows that it has not read yet.

    If too many rows are unread, the oldest of them are dropped. waiting: the unread rows; unread:
    their number. open: rows after these, of which only the device knows how many count. gap: the
    caches' length when rows were last dropped. can_join: a pass of the head may have rows of
    several conversations.
    """

    def __init__(self, head: MtpHead, bits: CacheBits = 16, *, can_join: bool = True) -> None:
        """Make empty caches for an MTP head. bits: of keys and values."""
        self.head, self.can_join = head, can_join
        self.caches = head.make_head_caches(bits)
        self.gap = self.unread = 0
        self.waiting: list[Rows] = []
        self.open: UncountedRows | None = None

    def replace_waiting(self, waiting: Sequence[Rows]) -> None:
        """Replace the committed rows that the MTP head has not read yet."""
        self.waiting, self.unread = list(waiting), 0
        for rows in waiting:
            self.unread += rows.tokens.shape[0]

    def wait(self, rows: Rows) -> None:
        """Keep committed rows for the MTP head's next pass."""
        self.waiting.append(rows)
        self.unread += rows.tokens.shape[0]

    def leave_out(self, kept: int) -> None:
        """Drop unread rows of the MTP head, the oldest first, all but `kept`.

        Sets `gap`, for kept = 0 even if no row was unread.
        """
        if kept and self.unread <= kept:
            return
        first, over = 0, self.unread - kept
        while over and (count := self.waiting[first].tokens.shape[0]) <= over:
            first, over = first + 1, over - count
        newest = self.waiting[first:]
        if over:
            newest[0] = newest[0].last(newest[0].tokens.shape[0] - over)
        self.gap = self.caches.length
        self.replace_waiting(newest)

    def read(self, drafted: Sequence[Rows] = ()) -> mx.array:
        """Have the MTP head read all unread rows, then drafted rows, whose cache rows do not stay.

        Returns the head's states [1, T, H] of all of them; open rows stay unread.
        """
        rows, true_rows = joined([*self.waiting, *drafted]), self.unread
        self.replace_waiting(())
        states = self.head.mtp_forward(rows.tokens[None], rows.hidden, self.caches)
        self.caches.commit(true_rows)
        return states

    def begin_draft(self, newest: Rows | None) -> BeforeDraft:
        """Prepare a draft after the newest token's row; return the state to `undo` it with.

        newest: None where that row is the last open one that counts.
        """
        if self.unread > FEW_WAITING:
            self.read()
        before = BeforeDraft(self.caches.place(), tuple(self.waiting), self.open)
        if newest is not None:
            self.wait(newest)
        return before

    def take_unread(self, drafted: Sequence[Rows] = ()) -> UnreadRows:
        """Return all unread rows, then `open` ones and drafted ones, as input of the next pass.

        They no longer count as unread.
        """
        opened, self.open = self.open, None
        if opened is None:
            rows, true_rows = joined([*self.waiting, *drafted]), self.unread
            self.replace_waiting(())
            return UnreadRows(rows, true_rows)
        if self.waiting:
            self.read()
        rows, count = joined([opened.rows, *drafted]), opened.counted
        if drafted:  # rows that count first, then drafted ones, then what is left
            order = mx.arange(count.most + len(drafted))
            behind = order + mx.where(order < count.rows, 0, count.most - count.rows)
            order = mx.minimum(behind, rows.tokens.shape[0] - 1)
            rows = Rows(mx.take(rows.tokens, order), mx.take(rows.hidden, order, axis=1))
        return UnreadRows(rows, count, count.after(len(drafted) - 1))

    def undo(self, before: BeforeDraft) -> None:
        """Go back to before a draft; the newest token's row is not added to the unread rows."""
        self.caches.restore(before.place)
        self.replace_waiting(before.waiting)
        self.open, opened = None, before.open
        known = None if opened is None else opened.counted.known
        if known is None:
            self.open = opened
        elif opened is not None and known > 1:
            self.wait(opened.first(known - 1))

    def missing(self, rows: int) -> int:
        """Return how many of a conversation's first `rows` rows were dropped unread."""
        return max(0, rows - self.caches.length - self.unread)

    def within(self, rows: int, missing: int) -> int:
        """Return the caches' length after a conversation's first `rows` rows, less `missing`.

        0 if that is less than `gap`: the dropped rows would lie right before the next row.
        """
        return rows - missing if rows - missing >= self.gap else 0

    def flush(self) -> int:
        """Have the MTP head read its newest unread rows, in chunks; return their number.

        Older ones than ROWS_OF_A_PROMPT are dropped.
        """
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


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows (tokens and hidden states) into one block."""
    if len(parts) == 1:
        return parts[0]
    tokens, hidden = zip(*parts, strict=True)
    return Rows(mx.concatenate(list(tokens)), mx.concatenate(list(hidden), axis=1))
