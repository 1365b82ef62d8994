"""Drafting of one conversation: its options, source and depth, as they change while it runs."""

from collections.abc import Callable

from mlx_engine.decoding.track import Track
from mlx_engine.drafting.draft_length import (
    DraftLength,
    FixedLength,
    PayingLength,
    PinnedLength,
)
from mlx_engine.drafting.mtp_draft import MtpDraft
from mlx_engine.drafting.no_draft import NoDraft
from mlx_engine.drafting.round_costs import PassCosts
from mlx_engine.drafting.sources import UNREAD, make_source, why_not
from mlx_engine.models.contract import Adapter
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.reason import Reason


class DraftControl:
    """Owns the track, because a change of source may need a new one.

    heads: what loading found wrong with the MTP heads. costs: measures a pass, on first need.
    """

    def __init__(
        self,
        options: DraftOptions,
        adapter: Adapter,
        heads: Reason | None,
        costs: Callable[[], PassCosts],
    ) -> None:
        self.options = options
        self._adapter = adapter
        self._heads = heads
        self._costs = costs
        self._track: Track | None = None
        self._paying: PayingLength | None = None

    def why_not(self) -> Reason | None:
        """Why the options cannot draft; None when they can."""
        return why_not(self.options, self._adapter, self._heads)

    def track_for_answer(self) -> Track:
        """The conversation's track, made anew when a head has to read it from the start."""
        can_draft = self.why_not() is None
        track = self._track
        if track is None or (can_draft and isinstance(track.source, NoDraft)):
            track = Track(self._adapter, make_source(self.options, self._adapter, can_draft))
        elif not can_draft and not isinstance(track.source, NoDraft):
            track.source = NoDraft(track.source.length)
        self._track = track
        if can_draft and self.options.depth != 0:
            self._auto()  # measures, if need be, before the answer's clocks start
        return track

    def forget(self) -> None:
        """Drop the track after an error; the next answer reads everything again."""
        self._track = None

    def let_go(self) -> None:
        """Drop the model for good; the options stay readable."""
        self.forget()
        del self._adapter

    def length(self) -> DraftLength:
        """Who chooses the depth of the next round."""
        reason = self.why_not()
        source = self._track.source if self._track else None
        if reason is None and isinstance(source, NoDraft):
            reason = UNREAD
        if reason is not None:
            return FixedLength(0, reason)
        if isinstance(source, MtpDraft):
            source.rule = self.options.rule
            source.min_probability = self.options.min_probability
        if self.options.depth == "auto":
            return self._auto()
        depth = self.options.depth
        return PinnedLength(depth, self._auto()) if depth else FixedLength(0)

    def _auto(self) -> PayingLength:
        if self._paying is None:
            limit = self._track.source.limit if self._track else 0
            self._paying = PayingLength(self._costs(), limit)
        return self._paying
