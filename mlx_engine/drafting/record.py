"""What the rounds of a chat show of drafts: their acceptance, what rounds cost, and their losses.

The costs begin with a table of passes that were timed alone. A depth that is seldom run follows the
depths that are, as the machine becomes slower or faster for all of them.
"""

from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import NamedTuple

from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.values.options import MAX_DEPTH, DraftedBy, DraftOptions

FIRST_GUESS, FIRST_WEIGHT, DEEPER_GUESS = 0.9, 4.0, 0.7
"""Acceptance assumed of first drafts, and the rounds that counts for; the least assumed deeper."""

REACHED, UNREACHED = 0.95, 0.99
"""Weight of the past, at each round, in the acceptance of depths reached, and of others."""

STALE, PACE = 0.97, 0.07
"""Weight of the past in costs, at each round; share of the deviation from the expected time that is
the machine's speed, at all depths."""

SPIKE, LASTING = 1.75, 3
"""Times the expected cost that is another program's time, unless so many rounds last as long."""

PLAIN_ROUNDS, PLAIN_LOSS = 3, 0.003
"""Plain rounds that measuring them takes, and the share of the time that this may lose."""

FIRST_LOSS = 2.5
"""Plain rounds that drafts may lose at first."""


class ConcurrentChats(NamedTuple):
    """The other chats in a pass of the target: how many they are, and the sum of their rows."""

    chats: int = 0
    rows: int = 0


NO_OTHERS = ConcurrentChats()


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

    def round_ms(self, depth: int, others: ConcurrentChats = NO_OTHERS) -> float:
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


class Acceptance:
    """Running estimate of the chance that the d-th drafted token is accepted after all before it.

    chances: [d-1] -> acceptance of the d-th token. tokens: [k] -> tokens that a round of depth k
    yields on average, 1 + a1 + a1*a2 + ...
    """

    def __init__(self) -> None:
        self._accepted = [FIRST_GUESS * FIRST_WEIGHT, *[0.0] * (DEEPEST - 1)]
        self._tried = [FIRST_WEIGHT, *[0.0] * (DEEPEST - 1)]
        self.is_measured = False
        self._estimate_acceptance()

    def add_round(self, drafted: int, accepted: int) -> None:
        """Count a round's drafted and accepted tokens in the estimated acceptance by depth."""
        self.is_measured = True
        for depth in range(DEEPEST):
            is_reached = depth < drafted and depth <= accepted
            kept = REACHED if is_reached else UNREACHED
            self._accepted[depth] = kept * self._accepted[depth] + (depth < accepted)
            self._tried[depth] = kept * self._tried[depth] + is_reached
        self._estimate_acceptance()

    def _estimate_acceptance(self) -> None:
        self.chances, self.tokens = list[float](), [1.0]
        guess, weight, every = 0.0, 0, 1.0
        for accepted, tried in zip(self._accepted, self._tried, strict=True):
            chance = (accepted + weight * guess) / (tried + weight)
            guess, weight = max(chance, DEEPER_GUESS), 1
            every *= chance
            self.chances.append(chance)
            self.tokens.append(self.tokens[-1] + every)


class RoundCosts:
    """Expected milliseconds of a decoding round by draft depth, corrected by the rounds that ran.

    passes: the table to begin with. others: number of other chats in the same pass, taken to draft
    as deep. ms: [depth] -> expected milliseconds; a depth that was not run lately costs as much
    more than the one before it as the table says, and none costs less. is_new_text: the next round
    is the first of a text, whose length is another.
    """

    def __init__(self, passes: PassCosts, others: int) -> None:
        self.passes, self._others = passes, others
        count = len(passes.verify_ms)
        table = (passes.round_ms(depth, self._all_draft_ms(depth)) for depth in range(count))
        self._table = list(accumulate(table, max))
        self.ms = list(self._table)
        self._mean, self._weight = [self._table[0], *[0.0] * (count - 1)], [0.0] * count
        self._slow_rounds = [0] * count
        self.is_new_text = True
        self._since_plain = inf  # drafted rounds since a plain one was timed

    def _all_draft_ms(self, depth: int) -> ConcurrentChats:
        return ConcurrentChats(self._others, self._others * (depth + 1))

    def _update_estimates(self) -> None:
        ms, before = self._mean[0], self._table[0]
        slope = ms / before if ms < before else 1.0  # what is longer is the host's, at all depths
        self.ms[0] = ms
        for depth, table in enumerate(self._table[1:], 1):
            guess, weight = ms + slope * (table - before), self._weight[depth]
            known = (guess + weight * self._mean[depth]) / (1 + weight)
            self.ms[depth] = ms = known if known > ms else ms
            before = table

    def scaled_round_ms(self, depth: int, milliseconds: float, others: ConcurrentChats) -> float:
        """Estimate the milliseconds of a round as if all chats in its pass drafted `depth` tokens.

        milliseconds: of the round as it ran, in a pass with the rows of `others`.
        """
        if others == self._all_draft_ms(depth):
            return milliseconds
        return milliseconds * self._table[depth] / self.passes.round_ms(depth, others)

    def add_round(self, depth: int, milliseconds: float) -> None:
        """Count the milliseconds of a round that drafted `depth` tokens in the expected costs.

        The first round, where the table is slower, and the first of a text tell how fast the
        machine is at all depths.
        """
        expected, weight = self.ms[depth], self._weight[depth]
        is_slow = milliseconds > SPIKE * expected
        self._slow_rounds[depth] = self._slow_rounds[depth] + 1 if is_slow else 0
        if is_slow and self._slow_rounds[depth] < LASTING:
            return
        pace = (1.0 if self.is_new_text else PACE) * weight / (weight + 1)
        if milliseconds < expected and not any(self._weight):
            pace = 1.0
        self.is_new_text = False
        change = 1 + pace * (milliseconds / (self._mean[depth] or expected) - 1)
        self._mean = [change * mean for mean in self._mean]
        self._mean[depth] = (weight * self._mean[depth] + milliseconds) / (weight + 1)
        self._weight = [STALE * rounds for rounds in self._weight]
        self._weight[depth] += 1
        self._since_plain = self._since_plain + 1 if depth else 0
        self._update_estimates()

    def wants_plain(self, gain: float) -> bool:
        """Whether to time plain rounds now, though drafting is `gain` times as fast."""
        return self._since_plain * PLAIN_LOSS >= PLAIN_ROUNDS * (gain - 1)


@dataclass
class DraftRecord:
    """Acceptance, costs and loss budget of one kind of draft, shared by all chats of an engine.

    budget: in plain rounds, what drafts may still lose. costs: by the number of other chats in a
    pass.
    """

    acceptance: Acceptance = field(default_factory=Acceptance)
    budget: float = FIRST_LOSS
    costs: dict[int, RoundCosts] = field(default_factory=dict)


class DraftKind(NamedTuple):
    """Key of a DraftRecord: the source that drafts, and the draft options without the depth."""

    by: DraftedBy
    options: DraftOptions


DraftRecords = dict[DraftKind, DraftRecord]
