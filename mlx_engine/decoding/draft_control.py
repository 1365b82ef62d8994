"""Drafting of one conversation: its options, source and depth, as they change while it runs."""

from collections.abc import Sequence
from typing import NamedTuple

from mlx_engine.decoding.track import Track
from mlx_engine.drafting.combined_draft import CombinedDraft
from mlx_engine.drafting.contract import DraftSource, Offer
from mlx_engine.drafting.draft_length import DraftLength, FixedLength
from mlx_engine.drafting.no_draft import NoDraft
from mlx_engine.drafting.round_plan import Learned, RoundPlan
from mlx_engine.drafting.sources import (
    NEXT_ROUND,
    NO_MATCH,
    OFF,
    UNREAD,
    DraftKit,
    follow_options,
    has_lost_its_place,
    looks_up,
    make_source,
    model_of,
    needs_hidden_states,
    output_of,
    own_head,
    target_for,
    why_no_model,
)
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import DraftedBy, DraftOptions, DraftOutput
from mlx_engine.values.reason import Reason


class _Unreadable(NamedTuple):
    """A model that cannot draft, as was found when it was first needed."""

    model: DraftedBy | None
    why: Reason


class DraftControl:
    """Owns the track, because a change of source may need a new one.

    learned: what is known of each source, of this conversation or of many like it.
    """

    def __init__(self, options: DraftOptions, kit: DraftKit, learned: Learned) -> None:
        self.options = options
        self._kit = kit
        self._learned = learned
        self._track: Track | None = None
        self._unreadable: _Unreadable | None = None
        self._made = options
        """The options that the track's source was made by, or follows."""

    def why_not(self) -> Reason | None:
        """Why the options cannot draft; None when they can."""
        if self.options.source == "none":
            return OFF
        if looks_up(self.options):
            return self._kit.adapter.plain_only
        return self._why_no_model()

    def _why_no_model(self) -> Reason | None:
        """Why the model that the options name cannot draft, alone or beside prompt lookup."""
        found = self._unreadable
        if found is not None and found.model == model_of(self.options):
            return found.why
        return why_no_model(self.options, self._kit)

    def _make_source(self) -> DraftSource:
        has_model = self._why_no_model() is None
        return make_source(self.options, self._kit, has_model=has_model)

    def output_in_effect(self) -> DraftOutput | None:
        """The output head that drafts go through; None while no MTP head drafts."""
        return output_of(self._track.source) if self._track else None

    def track_for_answer(self) -> Track:
        """The conversation's track, made anew when a head has to read it from the start.

        Nothing that drafts is read into memory while the depth is 0; what cannot be read is a
        reason to decode plainly.
        """
        try:
            return self._track_with_source()
        except EngineError as error:
            self._give_up(error)
            return self._track_with_source()

    def _give_up(self, error: EngineError) -> None:
        why = Reason("draft-unreadable", f"Nothing is drafted: {error}")
        self._unreadable = _Unreadable(model_of(self.options), why)

    def _heads_are_there(self) -> bool:
        """Read them, if a draft in mid-answer is the first that needs them."""
        try:
            self._kit.read_heads()
        except EngineError as error:
            self._give_up(error)
        return self._unreadable is None

    def _track_with_source(self) -> Track:
        options, track = self.options, self._track
        is_possible = self.why_not() is None
        drafts = is_possible and options.depth != 0
        is_new = track is None or self._made.source != options.source
        if drafts and model_of(options) == "mtp" and self._why_no_model() is None:
            self._kit.read_heads()
        if (is_possible and is_new and (drafts or model_of(options) != "model")) or (
            drafts and track is not None and has_lost_its_place(track.source)
        ):
            source = self._make_source()
            if track is None or needs_hidden_states(source):
                track = Track(target_for(source, self._kit), source)
            else:
                track.follow(source, self._kit.adapter)
            self._made = options
        elif track is None:
            track = Track(self._kit.adapter, NoDraft())
        elif self.why_not() is not None and not isinstance(track.source, NoDraft):
            track.follow(NoDraft(), self._kit.adapter)
        self._track = track
        if drafts:
            self._learned.prepare()  # measures, if need be, before the answer's clocks start
        return track

    def forget(self) -> None:
        """Drop the track after an error; the next answer reads everything again."""
        self._track = None

    def let_go(self) -> None:
        """Drop the model for good; the options stay readable."""
        self.forget()
        del self._kit
        del self._learned

    def length(self, offers: Sequence[Offer]) -> DraftLength:
        """Who drafts in the next round, and how deep."""
        options, source = self.options, self._track.source if self._track else None
        reason = self.why_not()
        if reason is not None or options.depth == 0:
            return FixedLength(0, reason)
        if self._track is not None and self._can_begin_now():
            self._track.follow(self._make_source(), self._kit.adapter)
            self._made = options
            return FixedLength(0, NEXT_ROUND)
        if source is None or has_lost_its_place(source) or options.source != self._made.source:
            return FixedLength(0, UNREAD)
        if own_head(source) is not None and not self._heads_are_there():
            return FixedLength(0, self._why_no_model())
        if options != self._made:
            follow_options(source, self._made, options, self._kit)
            self._made = options
        nothing = self._why_no_model() or NO_MATCH
        return RoundPlan(offers, self._learned, options.depth, nothing)

    def _can_begin_now(self) -> bool:
        """Whether the options ask for another source, and it needs nothing but the tokens.

        Also where prompt lookup goes on without a model that turns out not to draft.
        """
        source = self._track.source if self._track else None
        is_asked = (
            isinstance(source, NoDraft | CombinedDraft) or self.options.source != self._made.source
        )
        return is_asked and (model_of(self.options) is None or self._why_no_model() is not None)
