"""Milliseconds of passes, as self-check measures them, and of rounds, as rounds that ran show."""

from typing import NamedTuple

from mlx_engine.drafting.drafter import DEEPEST
from mlx_engine.values.options import MAX_DEPTH

RECENT, KNOWN = 20.0, 3.0
"""Rounds in the running mean of a depth's cost at most, and from which on it is well known."""

SPIKE, SPIKE_KNOWN = 1.5, 1.2
"""Times the expected cost that one round counts for at most, and the same at a well-known depth:
another program's time is no cost of drafting."""

PACE = 0.07
"""Share of the difference between a round and its expectation that all depths take over."""

STALE, FORGOTTEN = 0.97, 100
"""Weight that a round leaves to the measured costs of other depths, since the machine may have
changed; rounds after which a depth that was not run counts as never run."""

PLAIN_EVERY, FIRST_PLAIN_EVERY = 32, 6
"""Drafted rounds, at least, before plain ones are measured again; before there were enough."""

PLAIN_LOSS, PLAIN_ROUNDS = 0.005, 3
"""Share of the time that measuring plain rounds may lose, and how many it takes in a row."""


class Others(NamedTuple):
    """Other chats in a pass: how many, and their rows in all."""

    rounds: int = 0
    rows: int = 0


NOBODY = Others()


class PassCosts(NamedTuple):
    """Milliseconds: verify_ms[r-1] of a target pass of r rows, draft_ms of one of the first head.

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
        """Mean milliseconds that one more row adds to a pass."""
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


class RoundCosts:
    """Milliseconds of a round by depth: the table of passes, corrected by rounds that were run.

    others: chats beside this one in a pass, taken to draft as deep.
    """

    def __init__(self, passes: PassCosts, others: int = 0) -> None:
        self._passes = passes
        self._others = others
        self._factor = [1.0] * (DEEPEST + 1)  # of rounds that were run over the table
        self._rounds = [0.0] * (DEEPEST + 1)
        self._latest = [0.0] * (DEEPEST + 1)
        self._expected: list[float] | None = None
        self._is_new_text = False
        self._plain_run = self._since_plain = 0
        self._round, self._last_run = 0, [-FORGOTTEN] * (DEEPEST + 1)

    def remeasured(self, passes: PassCosts) -> None:
        """Take over a new table; rounds that were run keep their milliseconds."""
        known = range(min(len(self._passes.verify_ms), len(passes.verify_ms)))
        before = [self._table_ms(depth) for depth in known]
        self._passes, self._expected = passes, None
        for depth in known:
            self._factor[depth] *= before[depth] / self._table_ms(depth)

    def begin_text(self) -> None:
        """Let the next round set the speed of all depths: the context may be of another length."""
        self._is_new_text = True

    @property
    def deepest(self) -> int:
        """The deepest draft whose pass is in the table."""
        return len(self._passes.verify_ms) - 1

    @property
    def deepest_run(self) -> int:
        """The deepest draft of the last FORGOTTEN rounds."""
        return max(
            (d for d, run in enumerate(self._last_run) if self._round - run < FORGOTTEN), default=0
        )

    def note_draft(self, depth: int) -> None:
        """Take drafts of this depth for known, whether or not their times tell anything."""
        self._last_run[depth] = self._round

    def without_spike(self, depth: int, milliseconds: float) -> float:
        """The time of a round as far as it is not another program's."""
        return min(milliseconds, SPIKE * max(self.ms()[depth], self._latest[depth]))

    def _table_ms(self, depth: int) -> float:
        return self._passes.round_ms(depth, Others(self._others, self._others * (depth + 1)))

    def if_alike(self, depth: int, milliseconds: float, others: Others) -> float:
        """What a round would have taken, had all chats in its pass drafted as deep."""
        alike = Others(self._others, self._others * (depth + 1))
        if others == alike:
            return milliseconds
        return milliseconds * self._table_ms(depth) / self._passes.round_ms(depth, others)

    def beside(self, others: Others) -> list[float]:
        """[depth] -> expected milliseconds in a pass with these rows of others."""
        return [ms / self.if_alike(depth, 1.0, others) for depth, ms in enumerate(self.ms())]

    def ms(self) -> list[float]:
        """[depth] -> expected milliseconds.

        A depth that was not run costs as much more than the one before it as the table says; none
        costs less.
        """
        if self._expected is None:
            table = [self._table_ms(depth) for depth in range(self.deepest + 1)]
            found = [self._factor[0] * table[0]]
            slope = self._factor[0]
            if not self._passes.is_presumed:  # what plain rounds take longer may be the host's time
                slope = min(1.0, slope)
            for depth in range(1, len(table)):
                guess = found[-1] + slope * max(0.0, table[depth] - table[depth - 1])
                run, known = self._rounds[depth], self._factor[depth] * table[depth]
                found.append(max(found[-1], (guess + run * known) / (1 + run)))
            self._expected = found
        return self._expected

    def add(self, depth: int, milliseconds: float) -> None:
        """Count the time of a round of this depth."""
        run, is_first = min(self._rounds[depth], RECENT - 1), not any(self._rounds)
        counted = milliseconds if is_first else self.without_spike(depth, milliseconds)
        if run >= KNOWN:
            counted = min(counted, SPIKE_KNOWN * self.ms()[depth])
        found = counted / self._table_ms(depth)
        if is_first:  # the table may hold proportions alone
            self._factor = [found] * (DEEPEST + 1)
        elif run:
            pace = 1.0 if self._is_new_text else PACE * run / RECENT
            change = 1 + pace * (max(found / self._factor[depth], 1 / SPIKE) - 1)
            self._factor = [change * factor for factor in self._factor]
        self._is_new_text = False
        self._factor[depth] = (run * self._factor[depth] + found) / (run + 1)
        self._rounds = [STALE * other for other in self._rounds]
        self._rounds[depth], self._latest[depth] = run + 1, milliseconds
        self._since_plain = self._since_plain + 1 if depth else 0
        self._plain_run += depth == 0
        self._round += 1
        self._expected = None

    def wants_plain(self, gain: float) -> bool:
        """Whether plain rounds are due, of which each loses `gain` - 1."""
        if self._plain_run < KNOWN:
            return self._since_plain >= FIRST_PLAIN_EVERY
        return self._since_plain >= max(PLAIN_EVERY, PLAIN_ROUNDS * (gain - 1) / PLAIN_LOSS)
