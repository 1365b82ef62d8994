"""Depth policy: how many tokens each round of a chat drafts, by which source, and why no more.

Speculative decoding's trade (Leviathan et al. 2023, section 3.3) with measured costs: the depth
with the most expected tokens per second is drafted, and none where plain decoding is as fast. A
draft is made only if a loss budget could pay for it should none of its tokens be accepted. So an
answer takes hardly longer than with drafting off, however wrong the estimates:

    choice = policy.plan_round(offers, depth, nothing)                    # before a round
    policy.learn_round(choice, drafted, accepted, milliseconds, others)   # after the round

`plan_round` may run one round ahead of `learn_round`. The time of a round may hold a share of the
next round's time (queueing a round can block until most of it has run), so a time counts as the
cost of a depth only between rounds of the same depth; the loss budget counts all times.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Literal, NamedTuple

from mlx_engine.drafting.contract import ALONE, DEEPEST, BatchLimits, DraftChoice, DraftOffer
from mlx_engine.drafting.record import (
    FIRST_LOSS,
    NO_OTHERS,
    SPIKE,
    Acceptance,
    ConcurrentChats,
    DraftKind,
    DraftRecord,
    DraftRecords,
    PassCosts,
    RoundCosts,
)
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import MAX_DEPTH, DraftedBy, DraftOptions
from mlx_engine.values.words import Words

WORTH_IT = 1.02
"""Speed over plain decoding that a draft must promise: measurements are not exact."""

LOSS, MAX_KEPT, MAX_SAVED = 0.008, 3.5, 16.0
"""The loss budget: share of all time that drafts may lose; in plain rounds the most that is kept
for the next text, and the most that is saved in one."""

COOLDOWN, HOPELESS_COOLDOWN = 16, 512
"""Plain rounds after a try that failed; where not even full acceptance would pay."""

MEASURING = Reason(
    "measuring-plain",
    Words("Now and then one step runs without guesses, to measure what drafting gains."),
)
SHARED_PASS = Reason(
    "beside-others",
    Words("Other chats are answered at the same time: guesses would slow all of them."),
)


class SourcePolicy:
    """Chooses how many tokens one draft source drafts in the next round of one chat.

    others: the other chats in the last pass.
    """

    acceptance: Acceptance
    costs: RoundCosts

    def __init__(self, source: DraftedBy) -> None:
        self._by, self._deepest = source, MAX_DEPTH if source == "mtp" else DEEPEST
        self.others = NO_OTHERS
        self._chats, self._cooldown, self._plain_rounds = 1, 0, 0
        self.record = DraftRecord()
        self._parked = self._draft_choice(0)

    def begin(self, record: DraftRecord, passes: PassCosts, others: int) -> None:
        """Begin a text with this record and cost table, in passes that `others` other chats share.

        A source that had stopped drafting may try again as far as its loss budget allows: another
        text may be easier to draft.
        """
        if record is not self.record:
            self.record, record.budget = record, min(MAX_KEPT, record.budget)
            self.acceptance = record.acceptance = deepcopy(record.acceptance)
        self.others, self._chats, self._cooldown = NO_OTHERS, 1 + others, 0
        if others not in record.costs or record.costs[others].passes != passes:
            record.costs[others] = RoundCosts(passes, others)
        self.costs = record.costs[others]
        self.costs.is_new_text = True

    def speed_gains(self, acceptance: float | None = None, deepest: int = DEEPEST) -> list[float]:
        """Return by draft depth the speed over plain decoding: [k] -> 1.2 for 20 % faster.

        acceptance: acceptance of each token, where the source knows better than past rounds. What a
        draft takes from or gives to the other chats in a pass is counted as this chat's; their rows
        are taken to yield as many tokens as rows of this one.
        """
        costs, tokens, others = self.costs, self.acceptance.tokens, self.others
        if acceptance is not None:
            tokens = [1.0]
            for _ in range(DEEPEST):
                tokens.append(1 + acceptance * tokens[-1])
        ms = costs.ms[: min(deepest, self._deepest) + 1]
        if not others.chats:
            return [tokens[depth] * ms[0] / cost for depth, cost in enumerate(ms)]
        ms = [cost / costs.scaled_round_ms(depth, 1.0, others) for depth, cost in enumerate(ms)]
        theirs = others.chats * tokens[min(DEEPEST, round(others.rows / others.chats) - 1)]
        plain = (theirs + 1) / ms[0]
        speeds = [(theirs + tokens[depth]) / cost for depth, cost in enumerate(ms)]
        return [1 + (others.chats + 1) * (speed / plain - 1) for speed in speeds]

    def best_depth(self, acceptance: float | None = None, deepest: int = DEEPEST) -> int:
        """Return the draft depth with the highest expected speed; 0 where no draft is faster."""
        return _fastest_depth(self.speed_gains(acceptance, deepest))

    @property
    def can_afford_loss(self) -> bool:
        """Whether drafting is faster than plain decoding if every drafted token is accepted."""
        ms = self.costs.ms
        depths = range(1, min(self._deepest, len(ms) - 1) + 1)
        return any((depth + 1) * ms[0] >= WORTH_IT * ms[depth] for depth in depths)

    @property
    def skips_prompt(self) -> bool:
        """Whether the draft source may read only a prompt's end, as no draft seems faster.

        False for the first draft of all, so that its source reads everything.
        """
        return (self.acceptance.is_measured or not self.can_afford_loss) and not self.best_depth()

    def why_never(self) -> Reason | None:
        """Return why even drafts that are always accepted are slower; None if they are not."""
        return None if self.can_afford_loss else self._why_paused()

    def choose_while_paused(self) -> DraftChoice | None:
        """Return the choice of a source that pauses, and count down; None if it may draft."""
        if not self._cooldown:
            return None
        self._cooldown -= 1
        return self._parked

    def next_depth(self, acceptance: float | None = None, deepest: int = DEEPEST) -> DraftChoice:
        """Choose the draft depth of the next round. acceptance: the source's own estimate.

        Without that estimate, a depth that promises little is tried after a cooldown.
        """
        if acceptance is None and (parked := self.choose_while_paused()):
            return parked
        gains, ms, budget = self.speed_gains(acceptance, deepest), self.costs.ms, self.record.budget
        if not self.acceptance.is_measured:
            budget /= 2  # another draft can follow the first
        most_ms = (1 + budget * self._chats) * ms[0]
        best = _fastest_depth([gain * (ms[depth] <= most_ms) for depth, gain in enumerate(gains)])
        if best:
            wants_plain = acceptance is None and self.costs.wants_plain(gains[best])
            return self._draft_choice(0, MEASURING) if wants_plain else self._draft_choice(best)
        self._parked = self._draft_choice(0, self._why_paused(acceptance))
        if acceptance is None:
            self._cooldown = COOLDOWN
            is_due = self.can_afford_loss or self._plain_rounds >= HOPELESS_COOLDOWN
            tried = max(range(1, len(gains)), key=gains.__getitem__, default=0)
            if is_due and tried and ms[tried] <= most_ms:
                return self._draft_choice(tried)
        return self._parked

    def _draft_choice(self, depth: int, reason: Reason | None = None) -> DraftChoice:
        return DraftChoice(depth, reason, by=self._by)

    def learn_round(
        self, drafted: int, accepted: int, milliseconds: float, expected_ms: float | None
    ) -> None:
        """Count a drafted round. expected_ms: what such a round takes, None where not known."""
        depth = min(drafted, len(self.costs.ms) - 1)
        if expected_ms is not None:
            self.costs.add_round(depth, expected_ms)
        self.acceptance.add_round(drafted, accepted)
        self.charge_loss(milliseconds, accepted + 1, depth)
        self._plain_rounds = 0
        if accepted:
            self._cooldown = 0
        elif self._cooldown:
            self._parked = self._draft_choice(0, self._why_paused())

    def learn_plain_round(self, milliseconds: float, *, adds_to_budget: bool) -> None:
        """Count an undrafted round between undrafted ones, which may add to the loss budget."""
        self._plain_rounds += 1
        self.costs.add_round(0, milliseconds)
        if adds_to_budget and self.record.budget < MAX_SAVED:
            self.record.budget += LOSS / self._chats

    def charge_loss(self, milliseconds: float, tokens: int, depth: int) -> None:
        """Charge the loss budget with what a round took beyond `tokens` plain ones, less spikes.

        Chats that share a pass share in what it loses.
        """
        ms, record = self.costs.ms, self.record
        cost = min(milliseconds, SPIKE * ms[depth]) / ms[0]
        budget = record.budget + (LOSS * cost + tokens - cost) / self._chats
        record.budget = max(-FIRST_LOSS, min(MAX_SAVED, budget))

    def _why_paused(self, acceptance: float | None = None) -> Reason:
        ms = self.costs.ms
        if min(self._deepest, len(ms) - 1) == 0:
            return Reason("no-source", Words("Drafting is paused: nothing can guess in this chat."))
        cost = Words(
            "a step with one guess takes {ratio:.2f} times as long as one without",
            ratio=ms[1] / ms[0],
        )
        if not self.can_afford_loss:
            words = Words("Drafting is paused: {cost}, so no guess can help.", cost=cost)
            return Reason("parked-cost", words)
        if self._chats > 1 and 0 in self.record.costs:
            alone, tokens = self.record.costs[0].ms, self.acceptance.tokens
            if _fastest_depth([tokens[depth] * alone[0] / ms for depth, ms in enumerate(alone)]):
                return SHARED_PASS
        if acceptance is None and self.best_depth():
            words = Words(
                "Drafting is paused for a moment: it has saved too little time so far to risk "
                "wrong guesses."
            )
            return Reason("parked-loss", words)
        percent = 100 * (self.acceptance.chances[0] if acceptance is None else acceptance)
        words = (
            Words(
                "Drafting is paused: {cost}, and only {percent:.0f}% of first guesses are right.",
                percent=percent,
                cost=cost,
            )
            if self.acceptance.is_measured and acceptance is None
            else Words(
                "Drafting is paused: {cost}, and only {percent:.0f}% of first guesses are expected "
                "to be right.",
                percent=percent,
                cost=cost,
            )
        )
        return Reason("parked-acceptance", words)


class PastRound(NamedTuple):
    """The round that the depth policy learned last: source, drafted tokens, milliseconds."""

    by: DraftedBy | None = None
    drafted: int = 0
    milliseconds: float = 0.0


class DepthPolicy:
    """Chooses before each round of one chat how many tokens are drafted, and by which source.

    passes: returns the present table of pass costs. draft_model_cost: the cost of a pass of the
    draft model, as a share of one of the target. records: what earlier drafts have shown, shared by
    all chats of an engine.
    """

    def __init__(
        self,
        passes: Callable[[], PassCosts],
        draft_model_cost: float = 0.0,
        records: DraftRecords | None = None,
    ) -> None:
        self._measured = passes
        self._small_share = draft_model_cost
        self._records: DraftRecords = {} if records is None else records
        self._passes: PassCosts | None = None
        self._batch = ALONE
        self._options = DraftOptions(depth=0)
        self._sources: dict[DraftedBy, SourcePolicy] = {}
        self._planned = DraftChoice(0, None)
        self._is_off = False
        self._pausing: SourcePolicy | None = None
        self._before = PastRound()

    def begin_text(self) -> None:
        """Begin an answer: take over the newest pass costs; all sources may draft again."""
        self._passes, self._before = self._measured(), PastRound()
        self._begin_sources()

    def adopt_options(self, options: DraftOptions) -> None:
        """Apply new draft options of the user; each set of options has a record of its own."""
        if options != self._options:
            self._options = options
            self._begin_sources()
            for source in self._sources.values():
                source.record.budget = max(FIRST_LOSS, source.record.budget)  # whatever was lost

    def set_batch(self, limits: BatchLimits) -> None:
        """Set how many other chats share the next passes, and the deepest draft they allow."""
        if limits != self._batch:
            self._batch = limits
            self._begin_sources()

    def _begin_sources(self) -> None:
        for by in self._sources:
            self._begin_source(by)

    def source_policy(self, source: DraftedBy) -> SourcePolicy:
        """Return the policy that chooses how deep this source drafts; made at the first call."""
        if source not in self._sources:
            self._sources[source] = SourcePolicy(source)
            self._begin_source(source)
        return self._sources[source]

    def _begin_source(self, source: DraftedBy) -> None:
        if self._passes is None:
            self._passes = self._measured()
        passes, kind = self._passes, DraftKind(source, replace(self._options, depth=0))
        if source != "mtp":
            share = self._small_share if source == "model" else 0.0
            passes = passes._replace(draft_ms=share * passes.verify_ms[0], later_ms=())
        record = self._records.setdefault(kind, DraftRecord())
        self._sources[source].begin(record, passes, self._batch.other_chats)

    def plan_round(
        self,
        offers: Sequence[DraftOffer],
        depth: int | Literal["auto"],
        drafts_nothing: Reason | None,
    ) -> DraftChoice:
        """Choose draft source and depth of the next round from the drafters' offers.

        depth: the user's option. drafts_nothing: the reason where there are no offers.
        """
        self._is_off, self._pausing = depth == 0, None
        self._planned = (
            self._choose_draft(offers, depth) if offers else DraftChoice(0, drafts_nothing)
        )
        return self._planned

    def choose_while_paused(self) -> DraftChoice | None:
        """Return the last choice again while drafting is off or pauses, at next to no cost.

        None where `plan` has to choose.
        """
        if self._is_off:
            return self._planned
        return None if self._pausing is None else self._pausing.choose_while_paused()

    def would_copy_passage(
        self, offers: Sequence[DraftOffer], depth: int | Literal["auto"]
    ) -> bool:
        """Whether the next round would draft by prompt lookup, which needs the newest token."""
        offer = self._choose_offer(offers, depth) if offers else None
        if offer is None or offer.by != "prompt-lookup":
            return False
        return depth != "auto" or _fastest_depth(self._speed_gains(offer)) > 0

    def learn_round(
        self,
        choice: DraftChoice,
        drafted: int,
        accepted: int,
        milliseconds: float,
        others: ConcurrentChats = NO_OTHERS,
    ) -> None:
        """Count the outcome and milliseconds of a round that was planned by `choice`.

        others: other chats in the same pass, and their rows.

        A draft between undrafted rounds, a try, may have begun in the time of the round before it:
        both times together tell what it costs, at most as much as was expected, since the source
        has read first what it had not read yet.
        """
        before, self._before = self._before, PastRound(choice.by, drafted, milliseconds)
        after = self._planned
        if drafted and choice.by is not None:
            source = self.source_policy(choice.by)
            source.others = others
            depth = min(drafted, len(source.costs.ms) - 1)
            took_ms = source.costs.scaled_round_ms(depth, milliseconds, others)
            own_ms = took_ms if after.depth == choice.depth else None
            if not (after.depth or before.drafted):
                both_ms = took_ms + max(0.0, before.milliseconds - source.costs.ms[0])
                own_ms = min(both_ms, source.costs.ms[depth])
            source.learn_round(drafted, accepted, took_ms, own_ms)
            return
        neighbour = before.drafted or after.depth
        by = after.by if after.depth else before.by
        for name, source in self._sources.items():
            source.others, took_ms = others, milliseconds
            if others.chats or self._batch.other_chats:
                took_ms = source.costs.scaled_round_ms(0, milliseconds, others)
            if not neighbour:
                source.learn_plain_round(took_ms, adds_to_budget=not self._is_off)
            elif name == by:
                source.charge_loss(took_ms, 1, min(neighbour, len(source.costs.ms) - 1))

    def _choose_draft(
        self, offers: Sequence[DraftOffer], depth: int | Literal["auto"]
    ) -> DraftChoice:
        offer = self._choose_offer(offers, depth)
        if depth != "auto":
            why = _too_deep_reason(offer.limit) if offer.limit < depth else None
            auto = _fastest_depth(self._speed_gains(offer))
            return DraftChoice(min(depth, offer.limit), why, auto, offer.by)
        deepest = min(offer.limit, self._batch.deepest)
        if not deepest:
            return DraftChoice(0, SHARED_PASS, by=offer.by)
        self._pausing = self.source_policy(offer.by)
        return self._pausing.next_depth(offer.chance, deepest)

    def _choose_offer(
        self, offers: Sequence[DraftOffer], depth: int | Literal["auto"]
    ) -> DraftOffer:
        """Choose an offer of the draft sources: a long copy that pays, else the fastest."""
        first = offers[0]
        is_set = depth != "auto" or len(offers) == 1
        if is_set or (first.is_long and _fastest_depth(self._speed_gains(first))):
            return first
        return max(offers, key=lambda offer: max(self._speed_gains(offer)))

    def _speed_gains(self, offer: DraftOffer) -> list[float]:
        return self.source_policy(offer.by).speed_gains(offer.chance, offer.limit)


def _too_deep_reason(limit: int) -> Reason:
    many = "{n} tokens at a time is the most that can be guessed here."
    words = Words(many, "1 token at a time is the most that can be guessed here.", limit)
    return Reason("source-limit", words)


def _fastest_depth(speed_gains: Sequence[float]) -> int:
    """Return the depth of the largest gain, or 0 where drafting is not worth it."""
    best = speed_gains.index(max(speed_gains))
    return best if speed_gains[best] >= WORTH_IT else 0
