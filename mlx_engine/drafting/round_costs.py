"""Milliseconds of target passes and drafts, as the self-check measures them."""

from typing import NamedTuple

from mlx_engine.values.options import MAX_DEPTH


class Others(NamedTuple):
    """Other chats in the same pass of the target: their number (`rounds`) and sum of rows."""

    rounds: int = 0
    rows: int = 0


NOBODY = Others()


class PassCosts(NamedTuple):
    """Milliseconds of passes: verify_ms[r-1] of the target over r rows, draft_ms of the first head.

    later_ms: of each head after the first, where heads take turns. beside_ms: added to a pass by
    each further chat, besides its rows. is_presumed: proportions alone, nothing was measured.
    """

    verify_ms: tuple[float, ...]
    draft_ms: float
    later_ms: tuple[float, ...] = ()
    beside_ms: float = 0.0
    is_presumed: bool = False

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
        return known + further * self.a_row_ms + (chats - 1) * self.beside_ms

    def round_ms(self, depth: int, others: Others = NOBODY) -> float:
        """Milliseconds of a round that drafts `depth` tokens, in one pass with other chats' rows.

        Drafts of several chats share head passes, in which a row adds the same proportion as in a
        pass of the target.
        """
        own = self.drafting_ms(depth)
        if not others.rounds:
            return self.pass_ms(depth + 1) + own
        theirs = self.drafting_ms(round(others.rows / others.rounds) - 1)
        row = min(1.0, self.a_row_ms / self.verify_ms[0])
        drafts = (1 - row) * max(own, theirs) + row * (own + others.rounds * theirs)
        return self.pass_ms(depth + 1 + others.rows, others.rounds + 1) + drafts


PRESUMED = PassCosts(tuple(1 + 0.06 * row for row in range(MAX_DEPTH + 1)), 0.1, is_presumed=True)
"""Proportions to begin with, until passes are measured; rounds that are run correct them."""
