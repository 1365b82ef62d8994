"""Milliseconds of decoding rounds, added up from passes that were timed alone."""

from typing import NamedTuple

from mlx_engine.values.options import MAX_DEPTH


class OtherChats(NamedTuple):
    """The other chats in a pass of the target: how many they are, and the sum of their rows."""

    chats: int = 0
    rows: int = 0


NO_OTHERS = OtherChats()


class PassCosts(NamedTuple):
    """Milliseconds of passes: verify_ms[r-1] of the target over r rows, draft_ms of the first head.

    later_ms: of each head after the first, where heads take turns. per_chat_ms: added to a pass by
    each further chat, besides its rows.
    """

    verify_ms: tuple[float, ...]
    draft_ms: float
    later_ms: tuple[float, ...] = ()
    per_chat_ms: float = 0.0

    @property
    def a_row_ms(self) -> float:
        """Mean milliseconds that one more row adds to a pass of the target."""
        return (self.verify_ms[-1] - self.verify_ms[0]) / max(1, len(self.verify_ms) - 1)

    def drafting_ms(self, depth: int) -> float:
        """Milliseconds of a draft of `depth` tokens: one head pass each."""
        if not self.later_ms:
            return depth * self.draft_ms
        return sum((self.draft_ms, *self.later_ms)[:depth])

    def pass_ms(self, rows: int, chats: int = 1) -> float:
        """Milliseconds of a target pass; more rows than were timed are extrapolated on a line."""
        further = max(0, rows - len(self.verify_ms))
        known = self.verify_ms[rows - further - 1]
        return known + further * self.a_row_ms + (chats - 1) * self.per_chat_ms

    def round_ms(self, depth: int, others: OtherChats = NO_OTHERS) -> float:
        """Milliseconds of a round that drafts `depth` tokens, in one pass with other chats' rows.

        Drafts of several chats share head passes, in which a row adds the same proportion as in a
        pass of the target.
        """
        own = self.drafting_ms(depth)
        if not others.chats:
            return self.pass_ms(depth + 1) + own
        theirs = self.drafting_ms(round(others.rows / others.chats) - 1)
        row = min(1.0, self.a_row_ms / self.verify_ms[0])
        drafts = (1 - row) * max(own, theirs) + row * (own + others.chats * theirs)
        return self.pass_ms(depth + 1 + others.rows, others.chats + 1) + drafts


PRESUMED = PassCosts(tuple(10_000.0 + 600 * row for row in range(MAX_DEPTH + 1)), 1000.0)
"""Proportions to begin with, until passes are measured: slower than all machines, so that the
first round that is run tells the milliseconds of all."""
