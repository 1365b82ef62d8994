"""Expected milliseconds of decoding rounds: timed passes, corrected by the rounds that ran."""

from typing import NamedTuple

from mlx_engine.drafting.drafter import DEEPEST
from mlx_engine.values.options import MAX_DEPTH

SPIKE, LASTING = 1.75, 3
"""Times the expected cost that is another program's time, unless so many rounds last as long."""

STALE, FADED, PACE = 0.97, 0.05, 0.07
"""Weight of the past in costs, at each round; weight below which the cost of a depth is forgotten;
share of a round's deviation from the expected time that is the machine's speed, at all depths."""

PLAIN_AFTER, PLAIN_ROUNDS, PLAIN_LOSS = 6, 3, 0.003
"""Drafted rounds before the first plain ones are measured; plain rounds that measuring takes; share
of the time that later measurements may lose."""


class OtherChats(NamedTuple):
    """The other chats in a pass of the target: how many they are, and the sum of their rows."""

    chats: int = 0
    rows: int = 0


NO_OTHERS = OtherChats()


class PassCosts(NamedTuple):
    """Milliseconds of passes: verify_ms[r-1] of the target over r rows, draft_ms of the first head.

    later_ms: of each head after the first, where heads take turns. per_chat_ms: added to a pass by
    each further chat, besides its rows. is_presumed: proportions alone, nothing was measured.
    """

    verify_ms: tuple[float, ...]
    draft_ms: float
    later_ms: tuple[float, ...] = ()
    per_chat_ms: float = 0.0
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


PRESUMED = PassCosts(tuple(1 + 0.06 * row for row in range(MAX_DEPTH + 1)), 0.1, is_presumed=True)
"""Proportions to begin with, until passes are measured; rounds that are run correct them."""


class RoundCosts:
    """Expected milliseconds of a decoding round by draft depth, corrected by the rounds that ran.

    Begins with a table of measured passes. others: number of other chats in the same pass, taken to
    draft as deep. ms: [depth] -> expected milliseconds; a depth that was not run costs as much more
    than the one before it as the table says, and none costs less. deepest_run: the deepest draft
    with a recent measurement. since_plain: drafted rounds after the last undrafted one that was
    timed.
    """

    def __init__(self, others: int) -> None:
        self._others = others
        self._mean, self._weight = [0.0] * (DEEPEST + 1), [0.0] * (DEEPEST + 1)
        self._spikes = [0] * (DEEPEST + 1)
        self._plain_run = self.since_plain = self.deepest_run = 0
        self._is_run = False

    def begin(self, passes: PassCosts) -> None:
        """Take over a table of pass costs for a new text; measured rounds stay as they are."""
        self._passes, self._is_new_text = passes, True
        equal = [OtherChats(self._others, self._others * rows) for rows in range(1, DEEPEST + 2)]
        depths = range(len(passes.verify_ms))
        self._table = [passes.round_ms(depth, equal[depth]) for depth in depths]
        if not self._is_run:
            self._mean[0] = self._table[0]
        self._expect()

    def _expect(self) -> None:
        ms, before = self._mean[0], self._table[0]
        slope = ms / before
        if slope > 1 and not self._passes.is_presumed:
            slope = 1.0  # what plain rounds take longer than passes may be the host's time
        self.ms, self.deepest_run = self._table[:], 0
        self.ms[0] = ms
        for depth, table in enumerate(self._table):
            if depth:
                weight = self._weight[depth]
                guess = ms + slope * (table - before) if table > before else ms
                known = (guess + weight * self._mean[depth]) / (1 + weight)
                ms, before = known if known > ms else ms, table
                self.ms[depth] = ms
                if weight > FADED:
                    self.deepest_run = depth

    def ms_with(self, others: OtherChats) -> list[float]:
        """Expected milliseconds of a round by draft depth, in a pass with these rows of others."""
        return [ms / self.at_equal_depth(depth, 1.0, others) for depth, ms in enumerate(self.ms)]

    def at_equal_depth(self, depth: int, milliseconds: float, others: OtherChats) -> float:
        """Convert a round's milliseconds to a pass in which every chat drafts `depth` tokens."""
        if others == (self._others, self._others * (depth + 1)):
            return milliseconds
        return milliseconds * self._table[depth] / self._passes.round_ms(depth, others)

    def add(self, depth: int, milliseconds: float) -> None:
        """Count the milliseconds of a round that drafted `depth` tokens in the expected costs."""
        if not depth:
            self.since_plain = 0
            self._plain_run += 1
        weight, change = self._weight[depth], 1.0
        is_first, is_known = not self._is_run, weight > FADED
        if not (is_first and self._passes.is_presumed):  # proportions alone
            most = SPIKE * self.ms[depth]
            self._spikes[depth] = self._spikes[depth] + 1 if milliseconds > most else 0
            if 0 < self._spikes[depth] < LASTING:
                return
            if is_known and milliseconds > most:
                milliseconds = most
        if is_first:
            change = milliseconds / self.ms[depth]
        elif is_known:
            # a new text is of another length, at all depths
            pace = 1.0 if self._is_new_text else PACE * weight / (weight + 1)
            change += pace * (milliseconds / self._mean[depth] - 1)
        self._is_run, self._is_new_text = True, False
        self._mean = [change * mean for mean in self._mean]
        self._mean[depth] = (weight * self._mean[depth] + milliseconds) / (weight + 1)
        self._weight = [STALE * rounds for rounds in self._weight]
        self._weight[depth] = STALE * weight + 1
        self._expect()

    def wants_plain(self, gain: float) -> bool:
        """Whether to time an undrafted round now, though drafting is `gain` times as fast."""
        if self._plain_run < PLAIN_ROUNDS:
            return self.since_plain >= PLAIN_AFTER
        return self.since_plain * PLAIN_LOSS >= PLAIN_ROUNDS * (gain - 1)
