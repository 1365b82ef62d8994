"""Choose the drafter of a conversation by its options; or give the reason why nothing drafts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.drafter import Drafter, NoDraft
from mlx_engine.drafting.lookup import PromptLookup
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.drafting.output_head import SharedOutputHeads
from mlx_engine.models.contract import Model
from mlx_engine.values.errors import EngineError, Reason
from mlx_engine.values.options import (
    CacheBits,
    CacheOptions,
    DraftedBy,
    DraftOptions,
    DraftSourceName,
)
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    from mlx_engine.models.drafters.target import SmallModel

OFF = Reason("off", Words("Drafting is switched off for this chat."))
NO_HEADS = Reason("no-heads", Words("This model has no drafting heads; it runs without drafting."))
NO_DRAFT_MODEL = Reason(
    "no-draft-model",
    Words("No draft model was given when this model was loaded: load it with one."),
)
UNREAD = Reason(
    "head-unread",
    Words("Drafting starts with the next message: the drafting heads have not read this chat yet."),
)
NO_MATCH = Reason(
    "no-match",
    Words("Nothing repeats here: these words are new to the chat."),
)


@dataclass(frozen=True, slots=True)
class DrafterFactory:
    """The MTP heads and draft models of an engine, from which it makes drafters.

    heads: why the MTP heads cannot draft, None if they can. read_heads: loads them into memory, at
    no cost after the first call; raises EngineError. small: the draft model, None if none was
    given. outputs: output heads of the MTP heads. go_deep: called before a source that may
    make long drafts is used.
    """

    model: Model
    heads: Reason | None
    read_heads: Callable[[], None]
    small: "SmallModel | None"
    outputs: SharedOutputHeads
    go_deep: Callable[[], None] = lambda: None

    @property
    def draft_model_cost(self) -> float:
        """Cost of a pass of the draft model as a share of one of the target; 0 without one."""
        return self.small.share if self.small else 0.0

    def why_no_model(self, options: DraftOptions) -> Reason | None:
        """Return why the options' model cannot draft; None if it can, or none is named."""
        if self.model.why_no_drafts is not None:
            return self.model.why_no_drafts
        wanted = draft_model_name(options)
        if wanted == "mtp" and not self.model.heads:
            return self.heads or NO_HEADS
        if wanted == "model":
            return self.small.why_not if self.small else NO_DRAFT_MODEL
        return None

    def make_drafter(
        self, options: DraftOptions, bits: CacheBits = 16, *, uses_draft_model: bool
    ) -> Drafter:
        """Make a drafter for a conversation; opens the draft model. Raises EngineError.

        bits: of the drafter's keys and values. uses_draft_model: whether the model that the options
        name can draft.
        """
        drafter = self._make_model_drafter(options, bits) if uses_draft_model else NoDraft()
        if _uses_lookup(options):
            drafter.options, drafter.lookup = options, PromptLookup()
        return drafter

    def _make_model_drafter(self, options: DraftOptions, bits: CacheBits) -> Drafter:
        if draft_model_name(options) == "mtp":
            heads, read = self.model.heads, self.read_heads
            return MtpDraft(heads, options, self.outputs, read_heads=read, bits=bits)
        assert self.small is not None
        from mlx_engine.drafting.drafters import draft_with  # on use: they build on mlx.nn

        return draft_with(self.small.loaded_model, options, self.model.vocabulary, bits)


def draft_model_name(options: DraftOptions) -> DraftedBy | None:
    """Return "mtp" or "model", which the options draft with, or None for neither."""
    if "mtp" in options.source:
        return "mtp"
    return "model" if "model" in options.source else None


def _uses_lookup(options: DraftOptions) -> bool:
    return options.source.startswith("prompt-lookup")


def _drafts_nothing(drafter: Drafter) -> bool:
    """Whether this drafter can draft nothing, so that a conversation has to get another one."""
    return isinstance(drafter, NoDraft) and drafter.lookup is None


class DraftedState(Protocol):
    """Protocol of a conversation's state with a drafter; SequenceState implements it."""

    @property
    def drafter(self) -> Drafter:
        """The conversation's present drafter."""

    @property
    def cache(self) -> CacheOptions:
        """Bits of the conversation's keys and values."""

    def replace_drafter(self, drafter: Drafter) -> None:
        """Replace the conversation's drafter by a new one."""


class _DrafterKind(NamedTuple):
    """The draft source of the options that a drafter serves, and whether its model is usable."""

    name: DraftSourceName
    with_model: bool


class Drafting:
    """Keeps the drafter of one conversation; `policy` chooses how deep it drafts."""

    def __init__(self, kit: DrafterFactory, policy: DepthPolicy) -> None:
        self._kit = kit
        self.policy = policy
        self._purpose: _DrafterKind | None = None
        self._unreadable: dict[DraftedBy, Reason] = {}

    def why_not(self, options: DraftOptions) -> Reason | None:
        """Return why these options cannot draft; None when they can."""
        if options.source == "none":
            return OFF
        return (
            self._kit.model.why_no_drafts if _uses_lookup(options) else self._why_no_model(options)
        )

    def begin(self, sequence: DraftedState, options: DraftOptions) -> None:
        """Prepare an answer: make the drafter that the options ask for, and load its weights.

        At depth 0 no weights are loaded; weights that cannot be loaded are a reason to decode
        plainly. A drafter that cannot draft any more is made anew, with the state if it has to read
        hidden states from token 0. If no draft can pay, the target computes nothing for drafts; if
        none is expected to pay, by earlier drafts, heads read only the end of the prompt.
        """
        if self._can_draft(options):
            if options.source != "mtp":
                self._kit.go_deep()
            self.policy.adopt_options(options)
            self.policy.begin_text()
        if self._wants_new_drafter(sequence.drafter, options) or (
            self._can_draft(options) and not self._load_drafter(sequence.drafter, options)
        ):
            self._make_drafter(sequence, options)
        if self.why_not(options) is not None and not _drafts_nothing(sequence.drafter):
            sequence.replace_drafter(NoDraft())
        never = self._why_never(options)
        if never is not None and sequence.drafter.target is not None:
            sequence.replace_drafter(
                self._kit.make_drafter(options, uses_draft_model=False)
            )  # the target as it is
            self._purpose = _DrafterKind(options.source, with_model=False)
        self.adopt_options(sequence, options)
        sequence.drafter.is_paused = options.depth == 0 or self._skips_prompt(options)

    def forget_drafter(self) -> None:
        """Have the next answer make a new drafter, after an error."""
        self._purpose = None

    def _can_draft(self, options: DraftOptions) -> bool:
        return options.depth != 0 and self.why_not(options) is None

    def adopt_options(self, sequence: DraftedState, options: DraftOptions) -> None:
        """Prepare the drafter that new options ask for, or record in it why nothing drafts.

        A drafter that reads only tokens is made at once, another one for the next answer.
        """
        if self._can_draft(options) and self._wants_token_drafter(sequence.drafter, options):
            self._make_drafter(sequence, options)
        drafter, why = sequence.drafter, self._why_unready(sequence.drafter, options)
        drafter.is_ready = why is None and options.depth != 0
        if not drafter.is_ready:
            drafter.why_nothing = why
        elif not self._load_drafter(drafter, options):
            self.adopt_options(sequence, options)  # without the model that cannot be read
        else:
            why = self._why_never(options) or self._why_no_model(options)
            drafter.why_nothing = why or NO_MATCH
            self.policy.adopt_options(options)
            drafter.adopt_options(options)

    def _why_unready(self, drafter: Drafter, options: DraftOptions) -> Reason | None:
        """Return why the present drafter cannot draft by these options; None if it can."""
        if not self._can_draft(options):
            return self.why_not(options)
        if self._purpose is None or self._purpose.name != options.source:
            return UNREAD
        return self._why_never(options) or UNREAD if _drafts_nothing(drafter) else None

    def _why_never(self, options: DraftOptions) -> Reason | None:
        """Return why drafts of the options' model are never faster; None if they may be."""
        model = draft_model_name(options)
        if options.depth != "auto" or model is None or self._why_no_model(options) is not None:
            return None
        return self.policy.source_policy(model).why_never()

    def _skips_prompt(self, options: DraftOptions) -> bool:
        """Whether the drafter need not read the prompt, as no draft is expected to be faster."""
        model = draft_model_name(options)
        if options.depth != "auto" or model is None:
            return False
        return self.policy.source_policy(model).skips_prompt

    def _wanted_kind(self, options: DraftOptions) -> _DrafterKind:
        has_model = draft_model_name(options) is not None and self._why_no_model(options) is None
        return _DrafterKind(options.source, has_model)

    def _wants_token_drafter(self, source: Drafter, options: DraftOptions) -> bool:
        """Whether to replace the present drafter by one that reads only tokens."""
        wanted = self._wanted_kind(options)
        return not wanted.with_model and (_drafts_nothing(source) or wanted != self._purpose)

    def _wants_new_drafter(self, source: Drafter, options: DraftOptions) -> bool:
        """Whether an answer should begin with another drafter than the present one."""
        if self.why_not(options) is not None:
            return False
        is_new = self._purpose is None or self._purpose.name != options.source
        if options.depth == 0:
            return is_new and draft_model_name(options) != "model"
        is_lost = _drafts_nothing(source) or self._purpose != self._wanted_kind(options)
        return is_new or (is_lost and self._why_never(options) is None)

    def _make_drafter(self, sequence: DraftedState, options: DraftOptions) -> None:
        """Make the drafter that the options ask for, without its model if that cannot be read."""
        try:
            bits, wanted = sequence.cache.head_bits, self._wanted_kind(options)
            source = self._kit.make_drafter(options, bits, uses_draft_model=wanted.with_model)
            if options.depth != 0:
                source.load_weights()
        except EngineError as error:
            self._disable_unreadable(options, error)
            source = self._kit.make_drafter(options, uses_draft_model=False)
        self._purpose = self._wanted_kind(options)
        sequence.replace_drafter(source)

    def _load_drafter(self, source: Drafter, options: DraftOptions) -> bool:
        """Load the drafter's weights before their first draft; whether they could be loaded."""
        try:
            source.load_weights()
        except EngineError as error:
            self._disable_unreadable(options, error)
            return False
        return True

    def _disable_unreadable(self, options: DraftOptions, error: EngineError) -> None:
        model = draft_model_name(options)
        assert model is not None
        self._unreadable[model] = Reason(
            "draft-unreadable", Words("Nothing is drafted: {error}", error=str(error))
        )

    def _why_no_model(self, options: DraftOptions) -> Reason | None:
        """Why the model that the options name cannot draft; None if it can, or none is named."""
        model = draft_model_name(options)
        found = None if model is None else self._unreadable.get(model)
        return found or self._kit.why_no_model(options)
