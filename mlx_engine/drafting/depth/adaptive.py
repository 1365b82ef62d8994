"""How deep a source should draft: from what its rounds cost here and what was accepted."""

from collections.abc import Sequence
from typing import NamedTuple

from mlx_engine.drafting.depth.acceptance import OF_ALL, Acceptance
from mlx_engine.drafting.depth.costs import (
    ENOUGH_PLAIN,
    NOBODY,
    SPIKE,
    Others,
    PassCosts,
    RoundCosts,
)
from mlx_engine.drafting.drafter import DEEPEST, ROWS_OF_A_REST
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftedBy
from mlx_engine.values.words import Words

WORTH_IT = 1.02
"""Drafting must promise this much more than plain decoding: measurements are not exact."""

LOSS = 0.008
"""Share of the time that drafts may lose which are made to find out whether they pay."""

AT_FIRST = 2.5
"""Tokens' worth of plain decoding that may be lost to begin with."""

MOST_SAVED = 16.0
"""The same at most, however long nothing was tried, or however much drafting has gained."""

MOST_OWED = 3.0
"""What of drafting's losses is remembered at most: it would take long to save it up again."""

DOUBT = 0.05
"""How much more drafting must promise for each token that it owes: what promised falsely before may
again.
"""

PROBE_EVERY = 16
"""Plain rounds between two drafts of a parked chat, at least."""

PROBE_AT_LAST = 256
"""The same where no draft seems to pay, by costs that may have been measured in a bad moment."""

PROBE_PROVEN = 1500
"""The same where rounds with drafts, not passes alone, have said so: it may have been another
program's time.
"""

PROOFS = 3
"""Rounds with a draft after which it is proven that none can pay."""

LATE = 2
"""Rows unread from which on a draft costs more than drafts do: its source reads them first."""

LONG_REST = 8
"""Plain rounds of which each is looked at by the clock."""

SAMPLED_EVERY = 8
"""The same of those after them, of which one is, and counts for all."""

MEASURING = Reason(
    "measuring-plain",
    Words("One round without a draft, to see what drafting gains in this chat."),
)


class Choice(NamedTuple):
    """A depth, and why it is less than what was asked for.

    auto: what would pay, when the depth is pinned. by: who is to draft, None for whoever offers.
    """

    depth: int
    why: Reason | None
    auto: int | None = None
    by: DraftedBy | None = None


BESIDE = Reason(
    "beside-others",
    Words("Other chats share these passes: what a draft adds to them would slow all of them."),
)


class Purse:
    """What drafting may still lose, in tokens of plain decoding.

    A share of all time goes into it, and all that drafting gains; what it loses is paid from it.
    So an answer never takes much more than LOSS longer than with drafting off, however wrong what
    is believed of drafts may be.
    """

    def __init__(self, left: float = AT_FIRST) -> None:
        self.left = left

    def of_another_text(self) -> "Purse":
        """Of the text after this one: what is left, at most as much as there is at first."""
        return Purse(min(AT_FIRST, self.left))

    def ran(self, cost: float, tokens: int) -> None:
        """A round took as long as `cost` plain ones, for so many tokens."""
        gained = tokens - cost if tokens > 1 or cost > 1 else 0.0
        self.left = min(MOST_SAVED, max(-MOST_OWED, self.left + LOSS * cost + gained))

    def refill(self) -> None:
        """As much as there was to begin with."""
        self.left = max(self.left, AT_FIRST)


class Findings:
    """What conversations of an engine have found of drafts that are made in one way.

    acceptance: in all their texts. costs, purse: of the latest, costs by how many others share
    its rounds.
    """

    def __init__(self) -> None:
        self.acceptance = Acceptance(OF_ALL)
        self.purse = Purse()
        self.costs: dict[int, RoundCosts] = {}


class AdaptiveDepth:
    """The depth with the best expected tokens per second; 0 when drafting does not pay.

    Speculative decoding's usual trade (Leviathan et al. 2023, section 3.3) with measured costs.
    What was run is known; what is only assumed, of drafts deeper than any so far or before the
    first, is tried as far as the purse can pay for it. Where others share its passes it is judged
    as if they drafted alike: what a draft adds to a pass then stands against what it gains, as it
    does for all of them together.
    """

    def __init__(self, costs: PassCosts, limit: int, known: Findings | None = None) -> None:
        """known: by the conversations before this one, of the same source."""
        self._known = known or Findings()
        self._pass_costs = costs
        self._others = 0
        self._beside: Others | None = None
        self._costs_by_others: dict[int, RoundCosts] = {}
        self.costs = self._costs_beside(0)
        self._most = limit
        self._purse = self._known.purse = self._known.purse.of_another_text()
        self.acceptance = self._known.acceptance.of_another_text()
        self._rest = PROBE_EVERY if self.costs.drafts_run else ENOUGH_PLAIN
        self._rested = self._unread = 0
        self._parked: Choice | None = None
        self._settle()
        self._begin()

    def _costs_beside(self, others: int) -> RoundCosts:
        if others not in self._costs_by_others:
            elder = self._known.costs.get(others)
            self._take(others, RoundCosts(self._pass_costs, elder, others + 1))
        return self._costs_by_others[others]

    def _take(self, others: int, costs: RoundCosts) -> None:
        self._costs_by_others[others] = self._known.costs[others] = costs

    def share(self, others: int) -> None:
        """So many other conversations share its passes from now on."""
        if others != self._others:
            self._others = others
            self.costs = self._costs_beside(others)
            self.begin_text()
            self._settle()

    @property
    def _limit(self) -> int:
        return min(self._most, self.costs.deepest)

    def recost(self, costs: PassCosts) -> None:
        """Passes were measured; what is known of rounds and of acceptance stays."""
        self._pass_costs = costs
        for known in self._costs_by_others.values():
            known.measured(costs)
        if not self._pays_at_best():  # rounds may have been run in a bad moment
            self.costs = self.costs.of_other_drafts()
            self._take(self._others, self.costs)
        self._settle()

    def begin_text(self) -> None:
        """Another text may be easier to draft: try again, if the purse can pay for it."""
        if self._can_pay and self._may_lose(1):
            self._rest = 0
        self._begin()

    @property
    def leaves_prompt(self) -> bool:
        """Whether its source need not read a text before it drafts, and then no more than its end:
        no draft can pay, or by what was seen none does. The first of all shall have read all.
        """
        is_known = self._known.acceptance.is_measured or not self._can_pay
        return is_known and not self.best()

    def _begin(self) -> None:
        self._was_draft = False
        if self.leaves_prompt:
            self._unread = ROWS_OF_A_REST

    def asked_anew(self, known: Findings | None = None) -> None:
        """The user has changed how deep it drafts, or also how: try again, whatever was lost.

        known: of drafts made as they are made now, if that is otherwise.
        """
        self._purse.refill()
        self._rest = 0
        self._parked = None
        if known is not None:
            self._known = known
            for others, costs in self._costs_by_others.items():
                self._take(others, costs.of_other_drafts(known.costs.get(others)))
            self.costs = self._costs_beside(self._others)
            self._can_pay = True

    def gains(self, chance: float | None = None, limit: int = DEEPEST) -> list[float]:
        """[k] -> expected tokens per second at depth k over those of plain decoding.

        chance: that a token is accepted, where the source knows better than past rounds. limit: the
        deepest draft to be had.
        """
        tokens = self.acceptance.expected()
        if chance is not None:
            tokens = [sum(chance**n for n in range(k + 1)) for k in range(DEEPEST + 1)]
        return self._gains(tokens)[: limit + 1]

    def best(self, chance: float | None = None, limit: int = DEEPEST) -> int:
        """The depth that pays most by what is known now; 0 when none does."""
        return _best(self.gains(chance, limit))

    def rests_on(self) -> bool:
        """Take one more round of a rest, without a draft; whether there was one left."""
        if self._parked is None or self._rest == 0:
            return False
        self._rest -= 1
        return True

    def next(self, chance: float | None = None, limit: int = DEEPEST) -> Choice:
        """The best depth now, or a round to learn from; a known chance needs no probing.

        It may be asked again before it has learned what became of its last choice.
        """
        if self._parked is not None and chance is None and self.rests_on():
            return self._parked
        gains = self.gains(chance, limit)
        possible = [gain if self._may(depth) else 0.0 for depth, gain in enumerate(gains)]
        best = _best(possible, WORTH_IT + DOUBT * max(0.0, -self._purse.left))
        if best > 0:
            wants_plain = self.costs.wants_plain(gains[best])
            return Choice(0, MEASURING) if wants_plain else Choice(best, None)
        if chance is not None:
            return Choice(0, self._why_parked())
        if self._rest == 0 and self._may_probe():
            self._rest = 1
            return Choice(max(range(1, len(possible)), key=possible.__getitem__), None)
        self._rest = (self._rest or PROBE_EVERY) - 1
        self._parked = Choice(0, self._why_parked())
        return self._parked

    def learn(
        self, drafted: int, accepted: int, milliseconds: float, others: Others = NOBODY
    ) -> None:
        """A round was run, in a pass with those of others; a parked chat rests after a draft of
        which nothing was accepted, and for as long as the purse cannot pay for another.
        """
        if drafted == 0:
            self.learn_plain(milliseconds, others)
            return
        self._beside = others if others.rounds else None
        if self._others or others.rounds:
            milliseconds = self.costs.if_all_alike(drafted, milliseconds, others)
        depth = min(drafted, self.costs.deepest)
        unread, self._rested, self._unread = min(self._unread, ROWS_OF_A_REST), 0, 0
        self._was_draft = True
        was_late = unread >= LATE
        took = self.costs.without_spike(depth, milliseconds, unread if was_late else 0)
        self._purse.ran(took / self.costs.at(0), accepted + 1)
        self.acceptance.add(drafted, accepted)
        self._known.acceptance.add(drafted, accepted)
        is_new = depth > self.costs.deepest_run
        if was_late:
            self.costs.add_late(depth, milliseconds, unread)
        else:
            self.costs.add(depth, milliseconds)
        # another at once where it may go on so, and where this one could not tell what drafts cost
        self._rest = 0 if accepted or (was_late and is_new) else PROBE_EVERY
        self._settle()

    def learn_plain(self, milliseconds: float, others: Others) -> None:
        """The same of one without a draft: what it saves may pay for one."""
        self._beside = others if others.rounds else None
        rounds = self.pass_over(milliseconds, others)
        if not rounds:
            return
        self._purse.ran(rounds, rounds)
        is_first = self._rested == ENOUGH_PLAIN and not self.costs.drafts_run
        is_due = is_first or self._rested % PROBE_EVERY == 0
        if not self._can_pay and is_due and self._pays_at_best():
            # plain rounds are slower than their passes, or have become so
            self._rest = 0 if is_first else PROBE_EVERY
            self._settle()

    def pass_over(self, milliseconds: float, others: Others) -> int:
        """A plain round was run; where drafting is off, nothing is saved by it. How many rounds it
        counts for: none where it is not looked at.
        """
        self._was_draft = False
        self._rested += 1
        self._unread += 1
        if self._rested > LONG_REST and self._rested % SAMPLED_EVERY:
            return 0
        self.costs.add(0, self.costs.if_all_alike(0, milliseconds, others))
        return 1 if self._rested <= LONG_REST else SAMPLED_EVERY

    def learn_seam(self, took_ms: float) -> None:
        """A plain round before or after a draft, where plain rounds alone are begun ahead: of two
        such rounds one has the other's time, so it tells nothing of what they cost. What the one
        after takes longer is the draft's loss.
        """
        took = min(2 * SPIKE, took_ms / self.costs.at(0)) if self._was_draft else 1.0
        self._purse.ran(took, 1)
        self._was_draft = False
        self._rested += 1
        self._unread += 1

    def why_never(self) -> Reason | None:
        """Why not even drafts that are always accepted would pay; None where they do."""
        return None if self._can_pay else self._why_parked()

    def _settle(self) -> None:
        """Whether a parked chat goes on trying."""
        self._parked = None
        self._can_pay = self._pays_at_best()
        if not self._can_pay:
            is_proven = self.costs.drafts_run >= PROOFS
            self._rest = max(self._rest, PROBE_PROVEN if is_proven else PROBE_AT_LAST)

    def _pays_at_best(self) -> bool:
        """Whether drafts that are always accepted would pay."""
        return self._limit > 0 and max(self._gains(range(1, DEEPEST + 2))) >= WORTH_IT

    def _may(self, depth: int) -> bool:
        """Whether it is known what such drafts do, or can be found out."""
        return depth <= self.costs.deepest_run or self._may_lose(depth)

    def _may_lose(self, depth: int) -> bool:
        """All may fall that lies behind what was drafted before. The first draft of a text may lose
        half of what is left, for another to follow.
        """
        is_first = not self._others and not self.acceptance.is_measured
        share, known = (0.5, 0) if is_first else (1.0, min(depth, self.costs.deepest_run))
        lost = self.costs.at(depth) / self.costs.at(0) - self.acceptance.expected()[known]
        return lost <= share * self._purse.left

    def _may_probe(self) -> bool:
        """Whether a draft can be paid, and the rows that its source reads first where they have
        waited for long; with a full purse whatever that takes, as one measurement may have been
        wrong.
        """
        rows = min(self._unread, ROWS_OF_A_REST) if self._unread >= LATE else 0
        lost = self.costs.reading(rows) + self.costs.at(1) / self.costs.at(0) - 1
        return min(lost, MOST_SAVED) <= self._purse.left

    def _gains(self, tokens: Sequence[float], others: int | None = None) -> list[float]:
        """others: as many as there are, if it is not said."""
        costs = self._costs_beside(self._others if others is None else others)
        beside, depths = self._beside, range(self._limit + 1)
        if others is not None or not self._others or beside is None:
            return [tokens[k] * costs.at(0) / costs.at(k) for k in depths]
        theirs = beside.rounds * tokens[min(self._limit, round(beside.rows / beside.rounds) - 1)]
        plain = costs.beside(0, beside) / (theirs + 1)
        every = [(theirs + tokens[k]) * plain / costs.beside(k, beside) for k in depths]
        return [1 + (1 + self._others) * (gain - 1) for gain in every]

    def _why_parked(self) -> Reason:
        if self._limit == 0:
            return Reason("no-source", Words("Drafting parked: nothing can draft in this chat."))
        ratio = self.costs.at(1) / self.costs.at(0)
        cost = Words(
            "a round with one drafted token costs {ratio:.2f} of a plain one here", ratio=ratio
        )
        if not self._can_pay:
            words = Words("Drafting parked: {cost}, so no draft can pay.", cost=cost)
            return Reason("parked-cost", words)
        if self._others and max(self._gains(self.acceptance.expected(), 0)) >= WORTH_IT:
            return BESIDE
        percent = 100 * self.acceptance.by_depth()[0]
        words = (
            Words(
                "Drafting parked: {percent:.0f} % of first drafts are accepted, and {cost}.",
                percent=percent,
                cost=cost,
            )
            if self.acceptance.is_measured
            else Words(
                "Drafting parked: {percent:.0f} % of first drafts are expected to be accepted, "
                "and {cost}.",
                percent=percent,
                cost=cost,
            )
        )
        return Reason("parked-acceptance", words)


def _best(gains: Sequence[float], worth: float = WORTH_IT) -> int:
    """The index of the largest, 0 where none is worth it."""
    best = gains.index(max(gains))
    return best if gains[best] >= worth else 0
