"""What passes and rounds of each depth cost on this machine: measured, then corrected by rounds."""

from typing import NamedTuple

from mlx_engine.drafting.drafter import DEEPEST
from mlx_engine.values.options import MAX_DEPTH

TRUST = 1.0
"""Rounds the first measurement is worth against rounds run at a depth."""

RECENT = 20.0
"""Rounds of a depth that count; older ones fade."""

FADING = 0.97
"""What is left, after any round, of what those of another depth count: the machine may have become
slower or faster since, and a depth that seems dear for that alone would never be run again.
"""

FADING_AT_REST = 0.995
"""The same after a plain round: drafts that were dear then may be so again."""

FADING_PLAIN = 0.99
"""What is left, after a drafted round, of what plain rounds count against the next of them."""

SPIKE = 1.5
"""A round counts as at most this many times dearer than expected, or than the last of its depth
counted: another program's time seldom comes twice in a row.
"""

PLAIN_EVERY = 48
"""Drafted rounds, at least, after which a plain one shows again what drafting gains."""

PLAIN_LOSS = 0.005
"""Share of the time that such plain rounds may lose."""

IN_A_ROW = 3
"""Of them at most: where rounds are begun ahead, only the one amid others shows what they take."""

AT_FIRST_EVERY = 6
"""The same until ENOUGH_PLAIN of them were run."""

FIRST_LOSS = 0.02
"""Share of the time of a conversation's first drafts that its first plain rounds may lose: behind
another context all takes longer, and what drafts take longer than plain rounds may pay no more.
"""

ENOUGH_PLAIN = 3
"""Plain rounds of which it is known well enough what they take."""

PACE = 0.07
"""Of what a round took longer than those of its depth, so much goes to rounds of all depths: the
machine has become slower.
"""

KNOWN = 3
"""Rounds of a depth after which two that are dear in a row are doubted, too."""

ROWS_KNOWN = 64
"""Rows read after a rest that count, at most."""

ROWS_PRESUMED = 8
"""Of them the first guess is worth."""


class Others(NamedTuple):
    """Rounds of other conversations in a pass, and their rows."""

    rounds: int = 0
    rows: int = 0


NOBODY = Others()


class PassCosts(NamedTuple):
    """Milliseconds measured on this machine: verify_ms[r-1] for a pass of r rows; one head pass.

    later_ms: a pass of each head after the first, where heads take turns. beside_ms: what another
    conversation adds to a pass but for its rows.
    """

    verify_ms: tuple[float, ...]
    draft_ms: float
    later_ms: tuple[float, ...] = ()
    beside_ms: float = 0.0

    @property
    def a_row_ms(self) -> float:
        """What a row adds to a pass, in mean."""
        return (self.verify_ms[-1] - self.verify_ms[0]) / max(1, len(self.verify_ms) - 1)

    def drafting_ms(self, depth: int) -> float:
        """Of a draft of `depth` tokens: a pass each."""
        if not self.later_ms:
            return depth * self.draft_ms
        return sum((self.draft_ms, *self.later_ms)[:depth])

    def pass_ms(self, rows: int, chats: int = 1) -> float:
        """Of so many rows of so many conversations; those that were not timed lie on a line."""
        further = max(0, rows - len(self.verify_ms))
        known = self.verify_ms[rows - further - 1]
        return known + further * self.a_row_ms + (chats - 1) * self.beside_ms

    def round_ms(self, depth: int, others: Others = NOBODY) -> float:
        """Of a draft of `depth` tokens, with those of others in one pass: they are drafted in
        common, where a row adds as much as it does to a pass of the target, in proportion.
        """
        its = self.drafting_ms(depth)
        if not others.rounds:
            return self.pass_ms(depth + 1) + its
        theirs = self.drafting_ms(round(others.rows / others.rounds) - 1)
        row = min(1.0, self.a_row_ms / self.verify_ms[0])
        drafts = (1 - row) * max(its, theirs) + row * (its + others.rounds * theirs)
        return self.pass_ms(depth + 1 + others.rows, others.rounds + 1) + drafts


PRESUMED = PassCosts(tuple(1 + 0.06 * row for row in range(MAX_DEPTH + 1)), 0.1)
"""Proportions to begin with when there is no time to measure; rounds that were run correct them."""


class _Read(NamedTuple):
    """Rows that waited for their source, and what reading them took, in plain rounds."""

    rows: float
    took: float


class _Milliseconds(NamedTuple):
    """In mean."""

    of_rounds: float
    of_passes: float

    @property
    def scale(self) -> float:
        """Of rounds over those of the same passes."""
        return self.of_rounds / self.of_passes if self.of_passes else 1.0


class RoundCosts:
    """Milliseconds of a round by depth.

    A depth that was run lately is known by its own rounds. Of the others it is known how much
    longer passes of their width took than one of the nearest shallower depth that was run: what a
    round takes beside its pass does not grow with its rows. None is taken to be cheaper than that
    one. elder: another conversation's, of the same source: what its rounds took is then known in
    place of passes. chats: conversations that share the pass of a round, as if each had a draft of
    this depth.
    """

    def __init__(self, costs: PassCosts, elder: "RoundCosts | None" = None, chats: int = 1) -> None:
        self._chats = chats
        self._mean = [0.0] * (DEEPEST + 1)
        self._rounds = [0.0] * (DEEPEST + 1)
        self._latest = [0.0] * (DEEPEST + 1)
        self._since_plain, self._deepest_run, self._drafts_run = 0, 0, 0
        self._plain_known = 0
        self._read = _Read(0.0, 0.0)
        self.measured(costs)
        if elder is not None:
            if elder._costs != costs:  # otherwise it keeps what it was told itself
                elder.measured(costs)
            self._passes = [elder.at(depth) for depth in range(self.deepest + 1)]
            self._deepest_run, self._drafts_run = elder.deepest_run, elder.drafts_run
            self._read = elder._read
            self._plain_known, self._since_plain = elder._plain_known, elder._since_plain

    def of_other_drafts(self, elder: "RoundCosts | None" = None) -> "RoundCosts":
        """Of the same conversation, where something else drafts from now on."""
        others = RoundCosts(self._costs, elder, self._chats)
        others._mean[0], others._rounds[0] = self._mean[0], self._rounds[0]
        others._plain_known = self._plain_known
        return others

    def measured(self, costs: PassCosts) -> None:
        """Passes were measured anew; what rounds took stays."""
        self._costs = costs
        depths = range(len(costs.verify_ms))
        self._passes = [costs.round_ms(depth, self._alike(depth)) for depth in depths]
        self._expected: list[float] | None = None

    @property
    def deepest(self) -> int:
        """The deepest draft whose cost is known."""
        return len(self._passes) - 1

    def at(self, depth: int) -> float:
        """Milliseconds to expect of a round that drafts `depth` tokens."""
        if self._expected is None:
            self._expected = self._expect()
        return self._expected[depth]

    @property
    def drafts_run(self) -> int:
        """Rounds with a draft, of the conversations before this one, too."""
        return self._drafts_run

    @property
    def deepest_run(self) -> int:
        """The deepest draft that a round had."""
        return self._deepest_run

    def _alike(self, depth: int) -> Others:
        """The others with drafts of this depth, too."""
        return Others(self._chats - 1, (self._chats - 1) * (depth + 1))

    def if_all_alike(self, depth: int, milliseconds: float, others: Others) -> float:
        """What a round may have taken, had those in its pass been `chats`, with drafts like its."""
        alike = self._alike(depth)
        if others == alike:
            return milliseconds
        its = self._costs.round_ms(depth, others)
        return milliseconds * self._costs.round_ms(depth, alike) / its

    def beside(self, depth: int, others: Others) -> float:
        """The same as `at`, in a pass with these rows of others."""
        alike = self._costs.round_ms(depth, self._alike(depth))
        return self.at(depth) * self._costs.round_ms(depth, others) / alike

    def without_spike(self, depth: int, milliseconds: float, unread: int = 0) -> float:
        """What a round of this depth may have taken without another program's time. unread: rows
        that its source had to read first; what they take is not known before they were read once.
        """
        if unread and not self._read.rows:
            return milliseconds
        expected = self._mean[depth] if self._rounds[depth] else self.at(depth)
        if unread:
            expected += self.reading(unread) * self.at(0)
        return min(milliseconds, SPIKE * max(expected, self._latest[depth]))

    def add(self, depth: int, milliseconds: float) -> None:
        """A round of this depth took so long."""
        rounds = min(self._rounds[depth], RECENT - 1)
        if depth == 0:
            rounds *= FADING_PLAIN**self._since_plain
        counted = self.without_spike(depth, milliseconds)
        if rounds:
            longer = counted / self._mean[depth] - 1
            self._mean = [mean * (1 + PACE * rounds / RECENT * longer) for mean in self._mean]
        self._mean[depth] = (rounds * self._mean[depth] + counted) / (rounds + 1)
        faded = FADING if depth else FADING_AT_REST
        self._rounds[1:] = [faded * known for known in self._rounds[1:]]
        self._latest[depth] = counted if rounds >= KNOWN else milliseconds
        self._rounds[depth] = rounds + 1
        self._deepest_run = max(depth, self._deepest_run)
        self._drafts_run += depth > 0
        self._plain_known += depth == 0
        self._since_plain = 0 if depth == 0 else self._since_plain + 1
        self._expected = None

    def add_late(self, depth: int, milliseconds: float, rows: int) -> None:
        """The same of a draft before which its source had to read so many rows that had waited: a
        round that was no cheaper for it tells what reading costs, and that drafts are dear.
        """
        longer = self.without_spike(depth, milliseconds, rows) - self.at(depth)
        known = min(1.0, ROWS_KNOWN / (self._read.rows + rows))
        took = known * (self._read.took + longer / self.at(0))
        self._read = _Read(known * (self._read.rows + rows), took)
        if longer < 0:
            self.add(depth, milliseconds)
        else:
            self._drafts_run += 1

    def reading(self, rows: int) -> float:
        """Plain rounds that it takes a source to read so many rows which have waited for it.

        Until it was seen, half as many as the target takes for further rows of a pass, by the
        proportion of a pass of theirs: the other half of a head is its output head, for one row.
        """
        verify = self._costs.verify_ms
        presumed = self._costs.a_row_ms / verify[0] * self._costs.draft_ms / self._passes[0] / 2
        took = self._read.took + ROWS_PRESUMED * presumed
        return rows * max(0.0, took) / (self._read.rows + ROWS_PRESUMED)

    def wants_plain(self, gain: float) -> bool:
        """Whether a plain round is due, so that its cost stays known.

        gain: of the rounds that are run, over a plain one: a plain round loses so much.
        """
        if self._plain_known < ENOUGH_PLAIN:
            return self._since_plain >= AT_FIRST_EVERY
        lost = IN_A_ROW * (gain - 1)
        if not self._rounds[0]:
            return self._since_plain >= min(PLAIN_EVERY, max(AT_FIRST_EVERY, lost / FIRST_LOSS))
        return self._since_plain >= max(PLAIN_EVERY, lost / PLAIN_LOSS)

    def _expect(self) -> list[float]:
        """[depth] -> milliseconds."""
        found: list[float] = []
        seen = self._in_mean()
        anchor, speed = 0, self._speed(seen)
        for depth, passes in enumerate(self._passes):
            if depth == 0:
                expected = seen.scale * passes
            else:
                expected = found[anchor] + speed * max(0.0, passes - self._passes[anchor])
            rounds = self._rounds[depth]
            found.append((TRUST * expected + rounds * self._mean[depth]) / (TRUST + rounds))
            anchor = depth if rounds else anchor
        return found

    def _speed(self, seen: _Milliseconds) -> float:
        """What a round takes longer for each millisecond that its pass takes longer: a line through
        rounds of several depths. Before there are such it is 1, or less where rounds took less.
        """
        expected, width = min(1.0, seen.scale), TRUST * self._passes[0] ** 2
        both, across = expected * width, width
        for rounds, took, passes in zip(self._rounds, self._mean, self._passes, strict=False):
            both += rounds * (took - seen.of_rounds) * (passes - seen.of_passes)
            across += rounds * (passes - seen.of_passes) ** 2
        return max(0.0, both / across)

    def _in_mean(self) -> _Milliseconds:
        """Of rounds that were run lately, and of the same passes."""
        known = list(zip(self._rounds, self._mean, self._passes, strict=False))
        count = sum(self._rounds[: len(known)]) or 1.0
        return _Milliseconds(
            sum(rounds * mean for rounds, mean, _ in known) / count,
            sum(rounds * passes for rounds, _, passes in known) / count,
        )
