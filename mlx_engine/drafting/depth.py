"""Depth policy: how many tokens each round of a chat drafts, by which source, and why no more.

Speculative decoding's trade (Leviathan et al. 2023, section 3.3) with measured costs: of all depths
the one with the most expected tokens per second, 0 where no draft beats plain decoding. What is not
known is tried, as far as a loss budget allows. The loop of rounds calls

    choice = policy.plan(offers, depth, nothing)                    # before a round
    policy.learn(choice, drafted, accepted, milliseconds, others)   # after it

`plan` may run one round ahead of `learn`. The time of a round may hold a share of the next one's
(queueing a round can block until most of it has run), so a time tells what its depth costs only
where the rounds beside it are of the same kind; the loss budget counts every time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import mul
from typing import Literal, NamedTuple

from mlx_engine.drafting.drafter import DEEPEST, Offer
from mlx_engine.drafting.round_costs import NOBODY, Others, PassCosts, RoundCosts
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import MAX_DEPTH, DraftedBy, DraftOptions
from mlx_engine.values.words import Words

WORTH_IT = 1.02
"""Speed over plain decoding that a draft must promise: measurements are not exact."""

FIRST_GUESS, FIRST_WEIGHT, HISTORY_WEIGHT = 0.9, 4.0, 8.0
"""Acceptance assumed before the first draft, and how many rounds that counts for; the same at most
of what earlier texts have shown."""

DEEPER_GUESS = 0.7
"""Acceptance assumed of a depth hardly tried, if the depth before it is not accepted more often."""

REACHED, UNREACHED = 0.95, 0.99
"""Share of the past that a round leaves in the acceptance of depths it reached, and of others."""

LOSS, FIRST_LOSS, MOST_SAVED, MOST_OWED = 0.008, 2.5, 16.0, 3.0
"""The loss budget: share of all time that drafts may lose; then in plain rounds the loss allowed at
first, the most that is saved up and the most that is remembered as owed."""

DOUBT = 0.05
"""Speed that a draft must promise in addition for each plain round that is owed."""

COOLDOWN, HOPELESS_COOLDOWN = 16, 512
"""Plain rounds between two tries of a parked chat at least; where not even full acceptance pays."""

LOOKED_AT, LOOK_EVERY = 8, 2
"""Plain rounds in a row that are learned from one by one; of later ones each second counts for
two, so that a parked chat costs no more than drafting off."""

MEASURING = Reason(
    "measuring-plain",
    Words("One round without a draft, to see what drafting gains in this chat."),
)
BESIDE = Reason(
    "beside-others",
    Words("Other chats share these passes: what a draft adds to them would slow all of them."),
)


class Choice(NamedTuple):
    """A depth, and the reason where it is less than what was asked for.

    auto: the depth that would pay, when the user has pinned one. by: the source that drafts.
    """

    depth: int
    why: Reason | None
    auto: int | None = None
    by: DraftedBy | None = None


class Room(NamedTuple):
    """Room of a chat in a pass: how many other chats share it, and the deepest draft that fits."""

    others: int = 0
    deepest: int = DEEPEST


ALONE = Room()


class Acceptance:
    """Running chance that the d-th drafted token is accepted where those before it were."""

    def __init__(self) -> None:
        self._accepted = [FIRST_GUESS * FIRST_WEIGHT, *[0.0] * (DEEPEST - 1)]
        self._tried = [FIRST_WEIGHT, *[0.0] * (DEEPEST - 1)]
        self._tokens: list[float] | None = None
        self.is_measured = False

    def for_new_text(self) -> "Acceptance":
        """Expectations of another text, worth HISTORY_WEIGHT rounds at most."""
        new = Acceptance()
        shares = [min(1.0, HISTORY_WEIGHT / tried) if tried else 0.0 for tried in self._tried]
        new._accepted = list(map(mul, shares, self._accepted))
        new._tried = list(map(mul, shares, self._tried))
        return new

    def add(self, drafted: int, accepted: int) -> None:
        """Count a round; depth d was reached when the d - 1 tokens before it were accepted."""
        self.is_measured, self._tokens = True, None
        reached = min(drafted, accepted + 1)
        for depth in range(DEEPEST):
            kept = REACHED if depth < reached else UNREACHED
            self._accepted[depth] = kept * self._accepted[depth] + (depth < accepted)
            self._tried[depth] = kept * self._tried[depth] + (depth < reached)

    def by_depth(self) -> list[float]:
        """[d-1] -> acceptance of the d-th token, given those before it."""
        chances = [self._accepted[0] / self._tried[0]]
        for accepted, tried in zip(self._accepted[1:], self._tried[1:], strict=True):
            chances.append((accepted + max(DEEPER_GUESS, chances[-1])) / (tried + 1))
        return chances

    def tokens(self) -> list[float]:
        """[k] -> tokens a round of depth k emits on average: 1 + a1 + a1*a2 + ..."""
        if self._tokens is None:
            self._tokens = list(accumulate(accumulate(self.by_depth(), mul), initial=1.0))
        return self._tokens


class LossBudget:
    """Plain rounds that drafts may still lose: a share of all time, and what drafts have gained.

    It bounds what an answer takes longer than with drafting off, however wrong the estimates.
    """

    def __init__(self) -> None:
        self.left = FIRST_LOSS

    @property
    def owed(self) -> float:
        """Plain rounds lost beyond the budget."""
        return max(0.0, -self.left)

    def spend(self, cost: float, tokens: int) -> None:
        """Book a round that took as long as `cost` plain ones and gave so many tokens."""
        self.left += LOSS * cost + tokens - cost
        self.left = min(MOST_SAVED, max(-MOST_OWED, self.left))

    def begin_text(self) -> None:
        """Leave a new text what is left, at most as much as there is at first."""
        self.left = min(FIRST_LOSS, self.left)

    def refill(self) -> None:
        """Grant as much as there was at first."""
        self.left = max(FIRST_LOSS, self.left)


@dataclass
class DraftRecord:
    """What all chats of an engine have found of drafts made in one way.

    costs: by the number of other chats in a pass. has_drafts: whether any was made.
    """

    acceptance: Acceptance = field(default_factory=Acceptance)
    budget: LossBudget = field(default_factory=LossBudget)
    costs: dict[int, RoundCosts] = field(default_factory=dict)
    has_drafts: bool = False


class _Kind(NamedTuple):
    """Drafts of one source with the same options but for the depth."""

    by: DraftedBy
    options: DraftOptions


DraftRecords = dict[_Kind, DraftRecord]


class SourceDepth:
    """The depth of one source's drafts in one chat.

    passes: the table of this source. deepest: the longest draft that it may be asked for.
    """

    def __init__(self, passes: PassCosts, deepest: int, record: DraftRecord | None = None) -> None:
        self._passes = passes
        self._deepest = deepest
        self._others = 0
        self._beside: Others | None = None
        self._cooldown = self._plain_rounds = 0
        self._parked: Choice | None = None
        self.use(record or DraftRecord())
        self._record.budget.begin_text()

    def use(self, record: DraftRecord) -> None:
        """Go on with what is known of drafts made in another way."""
        self._record = record
        self.acceptance = record.acceptance = record.acceptance.for_new_text()
        self._use_costs()
        self.costs.begin_text()

    def _use_costs(self) -> None:
        if self._others not in self._record.costs:
            self._record.costs[self._others] = RoundCosts(self._passes, self._others)
        self.costs = self._record.costs[self._others]
        self.costs.remeasured(self._passes)
        self._retry()

    def _retry(self) -> None:
        self._parked, self._cooldown = None, 0

    def begin_text(self) -> None:
        """Try again, if the budget allows: another text may be easier to draft."""
        self.costs.begin_text()
        self._retry()

    def saw(self, others: Others) -> None:
        """Take rows of others in the last pass for those in the next."""
        self._beside = others

    def asked_anew(self) -> None:
        """Try again whatever was lost: the user has changed how it drafts."""
        self._record.budget.refill()
        self._retry()

    def remeasured(self, passes: PassCosts) -> None:
        """Take over a new table of passes."""
        if passes != self._passes:
            self._passes = passes
            for costs in self._record.costs.values():
                costs.remeasured(passes)
            self._retry()

    def share(self, others: int) -> None:
        """Choose for passes that so many other chats share."""
        if others != self._others:
            self._others, self._beside = others, None
            self._use_costs()

    def gains(self, chance: float | None = None, deepest: int = DEEPEST) -> list[float]:
        """[k] -> speed at depth k over plain decoding.

        chance: acceptance of each token, where the source knows better than past rounds.
        """
        if chance is None:
            return self._gains(self.acceptance.tokens(), deepest)
        tokens = [sum(chance**n for n in range(depth + 1)) for depth in range(DEEPEST + 1)]
        return self._gains(tokens, deepest)

    def _gains(self, tokens: Sequence[float], deepest: int = DEEPEST) -> list[float]:
        """Beside rows of others, as in the last pass, the gain of all of them, as one chat's: their
        tokens are taken to be as many as this chat would have with as many rows.
        """
        depths = range(min(deepest, self._deepest, self.costs.deepest) + 1)
        beside = self._beside
        if beside is None or not beside.rounds:
            ms = self.costs.ms()
            return [tokens[depth] * ms[0] / ms[depth] for depth in depths]
        ms, rows = self.costs.beside(beside), min(DEEPEST, round(beside.rows / beside.rounds))
        theirs = beside.rounds * tokens[max(0, rows - 1)]
        plain = ms[0] / (theirs + tokens[0])
        every = [(theirs + tokens[depth]) * plain / ms[depth] for depth in depths]
        return [1 + (beside.rounds + 1) * (gain - 1) for gain in every]

    def best(self, chance: float | None = None, deepest: int = DEEPEST) -> int:
        """The depth that pays most by what is known now; 0 when none does."""
        return _best(self.gains(chance, deepest), WORTH_IT)

    @property
    def can_pay(self) -> bool:
        """Whether drafts of which every token is accepted would pay."""
        return max(self._gains(range(1, DEEPEST + 2))) >= WORTH_IT

    @property
    def skips_prompt(self) -> bool:
        """Whether the source need read no more of a prompt than its end: by what was seen no draft
        pays. The source of the first draft of all reads everything.
        """
        return (self._record.has_drafts or not self.can_pay) and not self.best()

    def why_never(self) -> Reason | None:
        """The reason where not even drafts that are always accepted pay."""
        return None if self.can_pay else self._why_parked()

    def stays_parked(self) -> bool:
        """Take one more round of the cooldown; whether there was one left."""
        if self._parked is None or self._cooldown == 0:
            return False
        self._cooldown -= 1
        return True

    def next(self, chance: float | None = None, deepest: int = DEEPEST) -> Choice:
        """The depth of the next round; drafts of a known chance need no tries."""
        if chance is None and self._parked is not None and self.stays_parked():
            return self._parked
        gains, budget = self.gains(chance, deepest), self._record.budget
        allowed = [gain if self._may_draft(depth) else 0.0 for depth, gain in enumerate(gains)]
        best = _best(allowed, WORTH_IT + DOUBT * budget.owed)
        if best:
            wants_plain = self.costs.wants_plain(gains[best])
            return Choice(0, MEASURING) if wants_plain else Choice(best, None)
        if chance is not None:
            return Choice(0, self._why_parked())
        can_pay = self.can_pay
        may_try = can_pay or self._plain_rounds >= HOPELESS_COOLDOWN
        if may_try and self._cooldown == 0 and len(gains) > 1 and self._loss(1) <= budget.left:
            self._cooldown = COOLDOWN
            return Choice(max(range(1, len(gains)), key=allowed.__getitem__), None)
        self._cooldown = (self._cooldown or (COOLDOWN if can_pay else HOPELESS_COOLDOWN)) - 1
        self._parked = Choice(0, self._why_parked())
        return self._parked

    def _loss(self, depth: int, tokens: float = 1.0) -> float:
        """Plain rounds that a draft loses which yields so many tokens."""
        ms = self.costs.ms()
        return ms[depth] / ms[0] - tokens

    def _may_draft(self, depth: int) -> bool:
        """Whether a depth was run before, or the budget bears that all its new tokens fall. The
        first draft of a text may lose half of the budget, for another to follow.
        """
        run, left = self.costs.deepest_run, self._record.budget.left
        if depth <= run:
            return True
        if not (self._others or self.acceptance.is_measured):
            return self._loss(depth) <= left / 2
        return self._loss(depth, self.acceptance.tokens()[run]) <= left

    def learn(self, drafted: int, accepted: int, milliseconds: float, own_ms: float | None) -> None:
        """Count a draft. own_ms: what such a round takes, where its time tells."""
        depth = min(drafted, self.costs.deepest)
        self.costs.note_draft(depth)
        if own_ms is not None:
            self.costs.add(depth, own_ms)
        self._book(milliseconds, accepted + 1, depth)
        self.acceptance.add(drafted, accepted)
        self._plain_rounds, self._parked, self._record.has_drafts = 0, None, True
        if accepted:
            self._cooldown = 0

    def learn_plain(self, milliseconds: float, *, saves: bool = True) -> None:
        """Count a plain round between plain rounds. saves: its share goes to the budget."""
        self._plain_rounds += 1
        counts = 1 if self._plain_rounds <= LOOKED_AT else LOOK_EVERY
        if self._plain_rounds % counts:
            return
        self.costs.add(0, milliseconds)
        if saves:
            self._record.budget.spend(counts, counts)
        if self._cooldown > COOLDOWN and self.can_pay:
            self._retry()

    def learn_plain_beside(self, milliseconds: float, depth: int) -> None:
        """Count a plain round before or after a draft of this depth, whose time it may hold."""
        self._plain_rounds += 1
        self._book(milliseconds, 1, min(depth, self.costs.deepest))

    def _book(self, milliseconds: float, tokens: int, depth: int) -> None:
        """Spend what a round took longer than a plain one, but no other program's time."""
        counted = self.costs.without_spike(depth, milliseconds)
        self._record.budget.spend(counted / self.costs.ms()[0], tokens)

    def of_try(self, drafted: int, took_ms: float, before_ms: float) -> float:
        """What a draft between plain rounds took. The round before it may hold a share of its time,
        and its source has read first what had waited: no more than was expected.
        """
        expected = self.costs.ms()
        excess = max(0.0, before_ms - expected[0])
        return min(took_ms + excess, expected[min(drafted, self.costs.deepest)])

    def _why_parked(self) -> Reason:
        if min(self._deepest, self.costs.deepest) == 0:
            return Reason("no-source", Words("Drafting parked: nothing can draft in this chat."))
        ms = self.costs.ms()
        cost = Words(
            "a round with one drafted token costs {ratio:.2f} of a plain one here",
            ratio=ms[1] / ms[0],
        )
        if not self.can_pay:
            words = Words("Drafting parked: {cost}, so no draft can pay.", cost=cost)
            return Reason("parked-cost", words)
        if self._others and self._pays_alone():
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

    def _pays_alone(self) -> bool:
        ms = self._record.costs.get(0, self.costs).ms()
        tokens = self.acceptance.tokens()
        return max(tokens[k] * ms[0] / ms[k] for k in range(len(ms))) >= WORTH_IT


class _Ran(NamedTuple):
    """The round learned last: who drafted how many tokens, and its time."""

    by: DraftedBy | None
    drafted: int
    milliseconds: float


class DepthPolicy:
    """The depths of one chat: a SourceDepth for each source, pinned depths, and what is off.

    passes: the present table of pass costs. small_share: the cost of a pass of the small model, as
    a share of one of the target. records: shared by all chats of an engine.
    """

    def __init__(
        self,
        passes: Callable[[], PassCosts],
        small_share: float = 0.0,
        records: DraftRecords | None = None,
    ) -> None:
        self._passes = passes
        self._small_share = small_share
        self._records: DraftRecords = {} if records is None else records
        self._used: PassCosts | None = None
        self._room = ALONE
        self._options = DraftOptions(depth=0)
        self._sources: dict[DraftedBy, SourceDepth] = {}
        self._planned = Choice(0, None)
        self._is_off = False
        self._chooser: SourceDepth | None = None
        self._before = _Ran(None, 0, 0.0)

    def begin_text(self) -> None:
        """Begin an answer: measured costs replace presumed ones, and parked sources try again."""
        self._take_passes()
        self._before = _Ran(None, 0, 0.0)
        for source in self._sources.values():
            source.begin_text()

    def follow(self, options: DraftOptions) -> None:
        """Take over the user's options; drafts made in another way have a record of their own."""
        if options == self._options:
            return
        old, self._options = self._options, options
        for by, source in self._sources.items():
            if replace(old, depth=options.depth) != options:
                source.use(self._record(by))
            source.asked_anew()

    def share(self, room: Room) -> None:
        """Take over what the passes of the next rounds have room for."""
        if room != self._room:
            self._room = room
            for source in self._sources.values():
                source.share(room.others)

    def source(self, by: DraftedBy) -> SourceDepth:
        """What is known of a source."""
        if by not in self._sources:
            if self._used is None:
                self._take_passes()
            assert self._used is not None
            deepest = MAX_DEPTH if by == "mtp" else DEEPEST
            passes = self._passes_with(by, self._used)
            self._sources[by] = SourceDepth(passes, deepest, self._record(by))
            self._sources[by].share(self._room.others)
        return self._sources[by]

    def plan(
        self, offers: Sequence[Offer], depth: int | Literal["auto"], nothing: Reason | None
    ) -> Choice:
        """Choose for the next round. depth: the user's; nothing: why there is no offer."""
        self._is_off, self._chooser = depth == 0, None
        self._planned = self._choose(offers, depth) if offers else Choice(0, nothing)
        return self._planned

    def stays(self) -> bool:
        """Whether the last choice holds for one more round: drafting is off or stays parked."""
        return self._is_off or (self._chooser is not None and self._chooser.stays_parked())

    def would_copy(self, offers: Sequence[Offer], depth: int | Literal["auto"]) -> bool:
        """Whether words of the text would be drafted, which depends on the newest one."""
        if not offers or self._preferred(offers, depth).by != "prompt-lookup":
            return False
        return depth != "auto" or self._best_of(self._preferred(offers, depth)) > 0

    def learn(
        self,
        choice: Choice,
        drafted: int,
        accepted: int,
        milliseconds: float,
        others: Others = NOBODY,
    ) -> None:
        """Count a round that was planned so. others: of other chats in the same pass."""
        before, self._before = self._before, _Ran(choice.by, drafted, milliseconds)
        after = self._planned
        if drafted and choice.by is not None:
            source = self.source(choice.by)
            source.saw(others)
            took_ms = source.costs.if_alike(drafted, milliseconds, others)
            own_ms = took_ms if after.depth == choice.depth else None
            if not (after.depth or before.drafted):  # a try between plain rounds
                own_ms = source.of_try(drafted, took_ms, before.milliseconds)
            source.learn(drafted, accepted, took_ms, own_ms)
            return
        by = after.by if after.depth else before.by
        for name, source in self._sources.items():
            source.saw(others)
            took_ms = source.costs.if_alike(0, milliseconds, others)
            if not (before.drafted or after.depth):
                source.learn_plain(took_ms, saves=not self._is_off)
            elif name == by:
                source.learn_plain_beside(took_ms, max(before.drafted, after.depth))

    def _take_passes(self) -> None:
        passes = self._passes()
        if passes != self._used:
            self._used = passes
            for by, source in self._sources.items():
                source.remeasured(self._passes_with(by, passes))

    def _passes_with(self, by: DraftedBy, passes: PassCosts) -> PassCosts:
        if by == "mtp":
            return passes
        share = self._small_share if by == "model" else 0.0
        return passes._replace(draft_ms=share * passes.verify_ms[0], later_ms=())

    def _record(self, by: DraftedBy) -> DraftRecord:
        kind = _Kind(by, replace(self._options, depth=0))
        return self._records.setdefault(kind, DraftRecord())

    def _choose(self, offers: Sequence[Offer], depth: int | Literal["auto"]) -> Choice:
        offer = self._preferred(offers, depth)
        if depth != "auto":
            why = _too_deep(offer.limit) if offer.limit < depth else None
            return Choice(min(depth, offer.limit), why, self._best_of(offer), offer.by)
        deepest = min(offer.limit, self._room.deepest)
        if not deepest:
            return Choice(0, BESIDE, by=offer.by)
        self._chooser = self.source(offer.by)
        return self._chooser.next(offer.chance, deepest)._replace(by=offer.by)

    def _preferred(self, offers: Sequence[Offer], depth: int | Literal["auto"]) -> Offer:
        """A copy of a long piece if it pays, else what promises most."""
        first = offers[0]
        is_set = depth != "auto" or len(offers) == 1
        if is_set or (first.is_long and self._best_of(first)):
            return first
        return max(offers, key=self._gain_of)

    def _best_of(self, offer: Offer) -> int:
        return self.source(offer.by).best(offer.chance, offer.limit)

    def _gain_of(self, offer: Offer) -> float:
        return max(self.source(offer.by).gains(offer.chance, offer.limit))


def _too_deep(limit: int) -> Reason:
    words = Words(
        "{n} tokens at a time is the most that can be drafted here.",
        "1 token at a time is the most that can be drafted here.",
        limit,
    )
    return Reason("source-limit", words)


def _best(gains: Sequence[float], worth: float) -> int:
    """The index of the largest, 0 where none is worth it."""
    best = gains.index(max(gains))
    return best if gains[best] >= worth else 0
