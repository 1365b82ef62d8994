"""Which source drafts in a conversation, as its options ask; or the reason why none does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mlx_engine.drafting.depth import Choice, DepthPolicy, Room
from mlx_engine.drafting.drafter import Drafter, NoDraft
from mlx_engine.drafting.lookup import CombinedDraft, PromptLookupDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.drafting.output_head import OutputShelf
from mlx_engine.drafting.round_costs import Others
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
NO_HEADS = Reason("no-heads", Words("This model has no MTP heads; it runs without drafting."))
NO_DRAFT_MODEL = Reason(
    "no-draft-model",
    Words("No draft model was given when this model was loaded: load it with one."),
)
UNREAD = Reason(
    "head-unread",
    Words("Drafting starts with the next message: the head has not read this conversation yet."),
)
NEXT_ROUND = Reason("source-changed", Words("The new source drafts from the next round on."))
NO_MATCH = Reason(
    "no-match",
    Words("Prompt lookup has nothing to repeat here: these words are new to the conversation."),
)


@dataclass(frozen=True, slots=True)
class DraftKit:
    """What there is to draft with.

    heads: what loading found wrong with the MTP heads. read_heads: brings them into memory; free
    after the first call; raises EngineError. small: None when no draft model was given. outputs:
    output heads for the heads. go_deep: told when a source may make long drafts.
    """

    model: Model
    heads: Reason | None
    read_heads: Callable[[], None]
    small: "SmallModel | None"
    outputs: OutputShelf
    go_deep: Callable[[], None] = lambda: None

    @property
    def small_share(self) -> float:
        """0 where there is no small model."""
        return self.small.share if self.small else 0.0

    def why_no_model(self, options: DraftOptions) -> Reason | None:
        """Why the model the options name cannot draft; None when it can, or they name none."""
        if self.model.plain_only is not None:
            return self.model.plain_only
        wanted = model_of(options)
        if wanted == "mtp" and not self.model.heads:
            return self.heads or NO_HEADS
        if wanted == "model":
            return self.small.why_not if self.small else NO_DRAFT_MODEL
        return None

    def make(self, options: DraftOptions, bits: CacheBits = 16, *, with_model: bool) -> Drafter:
        """A source for a new conversation; opens the small model. Raises EngineError.

        bits: of keys and values of what drafts. with_model: the model that the options name can
        draft.
        """
        source = self._with_model(options, bits) if with_model else None
        if _looks_up(options):
            return PromptLookupDraft(options) if source is None else CombinedDraft(source)
        return source or NoDraft()

    def _with_model(self, options: DraftOptions, bits: CacheBits) -> Drafter:
        if model_of(options) == "mtp":
            heads, read = self.model.heads, self.read_heads
            return MtpDraft(heads, options, self.outputs, read_heads=read, bits=bits)
        assert self.small is not None
        from mlx_engine.drafting.drafters import draft_with  # on use: they build on mlx.nn

        return draft_with(self.small.opened, options, self.model.vocabulary, bits)


def model_of(options: DraftOptions) -> DraftedBy | None:
    """Which model the options draft with, alone or beside prompt lookup."""
    if "mtp" in options.source:
        return "mtp"
    return "model" if "model" in options.source else None


def _looks_up(options: DraftOptions) -> bool:
    return options.source.startswith("prompt-lookup")


class Followed(Protocol):
    """The state of a conversation (decoding/state.py)."""

    @property
    def drafter(self) -> Drafter:
        """The present drafter."""

    @property
    def cache(self) -> CacheOptions:
        """In how many bits keys and values are kept."""

    def use(self, drafter: Drafter) -> None:
        """Exchange the drafter for a new one."""


class _Made(NamedTuple):
    """What a source was made for: the name in the options, and whether a model could draft."""

    name: DraftSourceName
    with_model: bool


class Drafting:
    """Drafting of one conversation: its source, and who drafts how deep in the next round."""

    def __init__(self, kit: DraftKit, policy: DepthPolicy) -> None:
        self._kit = kit
        self._policy = policy
        self._made: _Made | None = None
        self._unreadable: dict[DraftedBy, Reason] = {}
        self._asked: DraftOptions | None = None
        self._ready: Drafter | None = None  # the source that drafts by these options
        self._choice: Choice | None = None

    def why_not(self, options: DraftOptions) -> Reason | None:
        """Why these options cannot draft; None when they can."""
        if options.source == "none":
            return OFF
        return self._kit.model.plain_only if _looks_up(options) else self._why_no_model(options)

    def begin(self, sequence: Followed, options: DraftOptions) -> None:
        """Before an answer: the source the options ask for, and all that takes time.

        Nothing that drafts is read into memory while the depth is 0; what cannot be read is a
        reason to decode plainly. A source that was lost is made anew, and so is the sequence when
        it has to be read from the start. Where no draft can pay, nothing that only drafts need is
        computed by the target; where none is expected to, by those made before, a head reads no
        prompt but its end.
        """
        self._choice = self._ready = None
        if self._drafts(options):
            if options.source != "mtp":
                self._kit.go_deep()
            self._policy.follow(options)
            self._policy.begin_text()
        if self._wants_another(sequence.drafter, options) or (
            self._drafts(options) and not self._is_ready(sequence.drafter, options)
        ):
            self._use(sequence, options)
        if self.why_not(options) is not None and not sequence.drafter.is_lost:
            sequence.use(NoDraft())
        if self._drafts(options):
            sequence.drafter.follow(options)
        never = self._why_never(options)
        if never is not None and sequence.drafter.target is not None:
            sequence.use(self._kit.make(options, with_model=False))  # the target as it is
            self._made = _Made(options.source, with_model=False)
        sequence.drafter.rest(rests=options.depth == 0 or self._leaves_prompt(options))

    def forget(self) -> None:
        """After an error: the next answer makes its source anew."""
        self._made = None

    def _drafts(self, options: DraftOptions) -> bool:
        return options.depth != 0 and self.why_not(options) is None

    def knows_ahead(self, state: Followed, options: DraftOptions, newest: int, room: Room) -> bool:
        """Whether a plan and its draft can be made before the token behind the newest is known: not
        where the text goes on as it did before, and a copy would be drafted.
        """
        source = state.drafter
        if not source.reads_words or not self._drafts(options):
            return True
        if self._wants_what_reads_tokens(source, options):
            return False
        self._policy.share(room)
        return not self._policy.would_copy(source.offers(newest), options.depth)

    def plan(self, state: Followed, options: DraftOptions, newest: int, room: Room) -> Choice:
        """Who drafts, and how deep; before every round. newest: the last token that is known. Where
        it `knows_ahead` that may be the one before a token that is on its way; what became of
        a round is then learned one round late. room: of this chat in a pass that several share.

        The last choice once more where nothing can have changed, so that a round without a draft
        costs next to nothing here.
        """
        choice = self._choice
        self._policy.share(room)
        source, is_as_before = state.drafter, options is self._asked
        if choice is None or not is_as_before or not self._policy.stays():
            if is_as_before and source is self._ready and not source.is_lost:
                choice = self._plan(source, options, newest)
            else:
                choice = self._choose(state, options, newest)
            self._asked = options
        self._choice = None if state.drafter.reads_words else choice
        return choice

    def learn(
        self, choice: Choice, drafted: int, accepted: int, milliseconds: float, others: Others
    ) -> None:
        """Tell the depth policy how a round that was planned so has ended."""
        self._policy.learn(choice, drafted, accepted, milliseconds, others)

    def _choose(self, sequence: Followed, options: DraftOptions, newest: int) -> Choice:
        source, self._ready = sequence.drafter, None
        why = self.why_not(options)
        if why is not None or options.depth == 0:
            return self._no_draft(why)
        if self._wants_what_reads_tokens(source, options):
            self._use(sequence, options)
            return self._policy.plan((), options.depth, NEXT_ROUND)
        never = self._why_never(options)
        if self._made is None or self._made.name != options.source:
            return self._no_draft(UNREAD)
        if source.is_lost:
            return self._no_draft(never or UNREAD)
        if not self._is_ready(source, options):
            return self._no_draft(self._why_no_model(options))
        if options is not self._asked:
            self._policy.follow(options)
            source.follow(options)
        self._ready = source
        return self._plan(source, options, newest)

    def _plan(self, source: Drafter, options: DraftOptions, newest: int) -> Choice:
        offers, nothing = source.offers(newest), None
        if not offers:
            nothing = self._why_never(options) or self._why_no_model(options) or NO_MATCH
        return self._policy.plan(offers, options.depth, nothing)

    def _why_never(self, options: DraftOptions) -> Reason | None:
        """Why no draft of the model that the options name can pay, as far as it is known now."""
        model = model_of(options)
        if options.depth != "auto" or model is None or self._why_no_model(options) is not None:
            return None
        return self._policy.source(model).why_never()

    def _leaves_prompt(self, options: DraftOptions) -> bool:
        """Whether the model that the options name need not read the prompt."""
        model = model_of(options)
        if options.depth != "auto" or model is None:
            return False
        return self._policy.source(model).skips_prompt

    def _no_draft(self, why: Reason | None) -> Choice:
        return self._policy.plan((), 0, why)

    def _wanted(self, options: DraftOptions) -> _Made:
        has_model = model_of(options) is not None and self._why_no_model(options) is None
        return _Made(options.source, has_model)

    def _wants_what_reads_tokens(self, source: Drafter, options: DraftOptions) -> bool:
        """Whether another source is wanted than the present one, and needs nothing but tokens."""
        wanted = self._wanted(options)
        return not wanted.with_model and (source.is_lost or wanted != self._made)

    def _wants_another(self, source: Drafter, options: DraftOptions) -> bool:
        """Whether an answer should begin with another source than the present one."""
        if self.why_not(options) is not None:
            return False
        is_new = self._made is None or self._made.name != options.source
        if options.depth == 0:
            return is_new and model_of(options) != "model"
        is_lost = source.is_lost or self._made != self._wanted(options)
        return is_new or (is_lost and self._why_never(options) is None)

    def _use(self, sequence: Followed, options: DraftOptions) -> None:
        """Make the source the options ask for, without its model if that cannot be read."""
        try:
            bits, wanted = sequence.cache.head_bits, self._wanted(options)
            source = self._kit.make(options, bits, with_model=wanted.with_model)
            if options.depth != 0:
                source.prepare()
        except EngineError as error:
            self._give_up(options, error)
            source = self._kit.make(options, with_model=False)
        self._made = self._wanted(options)
        sequence.use(source)

    def _is_ready(self, source: Drafter, options: DraftOptions) -> bool:
        """Bring what drafts into memory, if this draft is the first that needs it."""
        try:
            source.prepare()
        except EngineError as error:
            self._give_up(options, error)
            return False
        return True

    def _give_up(self, options: DraftOptions, error: EngineError) -> None:
        model = model_of(options)
        assert model is not None
        self._unreadable[model] = Reason(
            "draft-unreadable", Words("Nothing is drafted: {error}", error=str(error))
        )

    def _why_no_model(self, options: DraftOptions) -> Reason | None:
        """Why the model that the options name cannot draft, alone or beside prompt lookup."""
        model = model_of(options)
        found = None if model is None else self._unreadable.get(model)
        return found or self._kit.why_no_model(options)
