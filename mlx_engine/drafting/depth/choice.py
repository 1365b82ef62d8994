"""Who drafts next, and how deep: of all that is on offer, what promises most."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from mlx_engine.drafting.depth.adaptive import BESIDE, AdaptiveDepth, Choice, Findings
from mlx_engine.drafting.depth.costs import NOBODY, Others, PassCosts
from mlx_engine.drafting.drafter import DEEPEST, Offer
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import MAX_DEPTH, DraftedBy, DraftOptions
from mlx_engine.values.words import Words


class Room(NamedTuple):
    """What a pass has for one of the conversations that share it.

    others: how many more there are. deepest: the longest draft with which rows of all fit into it.
    """

    others: int = 0
    deepest: int = DEEPEST


ALONE = Room()


class _Kind(NamedTuple):
    """Rounds that cost the same: who drafts, and the options but for the depth."""

    by: DraftedBy
    options: DraftOptions


Known = dict[_Kind, Findings]
"""What the conversations of an engine have found, by kind."""


class Learned:
    """An adaptive depth for each source, kept for as long as its texts are alike.

    costs: of passes on this machine. small_share: what a pass of the small model costs, as a share
    of one of the target; bytes tell it well enough until rounds were run. known: shared by all
    conversations of an engine. room: in passes that others share.
    """

    def __init__(
        self,
        costs: Callable[[], PassCosts],
        small_share: float = 0.0,
        known: Known | None = None,
    ) -> None:
        self._passes = costs
        self._small_share = small_share
        self._known: Known = {} if known is None else known
        self._used: PassCosts | None = None
        self.room = ALONE
        self._options = DraftOptions(depth=0)
        self._depths: dict[DraftedBy, AdaptiveDepth] = {}

    def begin_text(self) -> None:
        """Before an answer: costs measured since the last one replace presumed ones."""
        self._take_costs()
        for depth in self._depths.values():
            depth.begin_text()

    def follow(self, options: DraftOptions) -> None:
        """These are in effect; what was learned of drafts made otherwise is doubted."""
        if options == self._options:
            return
        old, self._options = self._options, options
        otherwise = replace(old, depth=options.depth) != options
        for by, depth in self._depths.items():
            depth.asked_anew(self._findings(by) if otherwise else None)

    def _take_costs(self) -> None:
        costs = self._passes()
        if costs != self._used:
            self._used = costs
            for by, depth in self._depths.items():
                depth.recost(self._of_source(costs, by))

    def of(self, by: DraftedBy) -> AdaptiveDepth:
        """What is known of a source."""
        if by not in self._depths:
            if self._used is None:
                self._take_costs()
            assert self._used is not None
            limit = MAX_DEPTH if by == "mtp" else DEEPEST
            costs = self._of_source(self._used, by)
            self._depths[by] = AdaptiveDepth(costs, limit, self._findings(by))
            self._depths[by].share(self.room.others)
        return self._depths[by]

    def share(self, room: Room) -> None:
        """What the passes of the next rounds have for this conversation."""
        if room != self.room:
            self.room = room
            for depth in self._depths.values():
                depth.share(room.others)

    def learn_plain(self, milliseconds: float, others: Others = NOBODY) -> None:
        """A plain round costs the same whoever might have drafted."""
        for depth in self._depths.values():
            depth.learn_plain(milliseconds, others)

    def pass_over(self, milliseconds: float, others: Others) -> None:
        """The same of one with drafting off."""
        for depth in self._depths.values():
            depth.pass_over(milliseconds, others)

    def learn_seam(self, took_ms: float) -> None:
        """The same of a plain round that was not both begun ahead and followed so."""
        for depth in self._depths.values():
            depth.learn_seam(took_ms)

    def _findings(self, by: DraftedBy) -> Findings:
        return self._known.setdefault(_Kind(by, replace(self._options, depth=0)), Findings())

    def _of_source(self, costs: PassCosts, by: DraftedBy) -> PassCosts:
        if by == "mtp":
            return costs
        share = self._small_share if by == "model" else 0.0
        return costs._replace(draft_ms=share * costs.verify_ms[0], later_ms=())


class RoundPlan:
    """Chooses the depth of one round, or of many with the same offers, and learns from it.

    depth: the user's, "auto" for what pays most. nothing: why there is no offer. choice: the last.
    """

    def __init__(
        self,
        offers: Sequence[Offer],
        learned: Learned,
        depth: int | Literal["auto"],
        nothing: Reason | None,
    ) -> None:
        self._offers = offers
        self._learned = learned
        self._depth = depth
        self._nothing = nothing
        self._by: DraftedBy | None = None
        self._adaptive: AdaptiveDepth | None = None
        self.choice = Choice(0, nothing)

    def stays(self) -> bool:
        """Go on for one more round with the last choice; whether it holds: no draft is near."""
        return self._depth == 0 if self._adaptive is None else self._adaptive.rests_on()

    @property
    def copies(self) -> bool:
        """Whether words that are there already would be drafted."""
        is_copy = bool(self._offers) and self._preferred().by == "prompt-lookup"
        return is_copy and self.next().depth > 0

    def _preferred(self) -> Offer:
        """A copy of a long piece if it pays, else what promises most."""
        offer = self._offers[0]
        is_open = self._depth == "auto" and len(self._offers) > 1
        if is_open and not (offer.is_long and self._best(offer)):
            offer = max(self._offers, key=self._gain)
        return offer

    def next(self) -> Choice:
        """A depth, of what is preferred."""
        if self._offers:
            self.choice = self._of_preferred()
        return self.choice

    def _of_preferred(self) -> Choice:
        offer = self._preferred()
        self._by = offer.by
        if self._depth == "auto":
            self._adaptive = self._learned.of(offer.by)
            limit = min(offer.limit, self._learned.room.deepest)
            choice = self._adaptive.next(offer.chance, limit) if limit else Choice(0, BESIDE)
            return Choice(choice.depth, choice.why, by=offer.by)
        depth = min(self._depth, offer.limit)
        why = _too_deep(offer.limit) if depth < self._depth else None
        return Choice(depth, why, self._best(offer), offer.by)

    def learn(
        self, drafted: int, accepted: int, milliseconds: float, others: Others = NOBODY
    ) -> None:
        """What became of a draft and what the round cost, for the source that drafted; a plain
        round for all. others: in its pass.
        """
        if drafted and self._by is not None:
            self._learned.of(self._by).learn(drafted, accepted, milliseconds, others)
        elif self._depth == 0:
            self._learned.pass_over(milliseconds, others)
        else:
            self._learned.learn_plain(milliseconds, others)

    def learn_seam(self, took_ms: float) -> None:
        """The same of one where plain rounds that are begun ahead end or begin."""
        self._learned.learn_seam(took_ms)

    def _best(self, offer: Offer) -> int:
        return self._learned.of(offer.by).best(offer.chance, offer.limit)

    def _gain(self, offer: Offer) -> float:
        return max(self._learned.of(offer.by).gains(offer.chance, offer.limit))


def _too_deep(limit: int) -> Reason:
    words = Words(
        "{n} tokens at a time is the most that can be drafted here.",
        "1 token at a time is the most that can be drafted here.",
        limit,
    )
    return Reason("source-limit", words)
