"""From draft options to a source, or to the reason there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mlx_engine.drafting.block_draft import BlockDraft
from mlx_engine.drafting.chain import Picking
from mlx_engine.drafting.chained_mtp_draft import ChainedMtpDraft
from mlx_engine.drafting.combined_draft import CombinedDraft, ModelSource
from mlx_engine.drafting.contract import DraftSource
from mlx_engine.drafting.draft_output import OutputShelf
from mlx_engine.drafting.mtp_draft import MtpDraft
from mlx_engine.drafting.no_draft import NoDraft
from mlx_engine.drafting.prompt_lookup_draft import PromptLookupDraft
from mlx_engine.drafting.shared_cache_draft import SharedCacheDraft
from mlx_engine.drafting.small_model_draft import SmallModelDraft
from mlx_engine.models.contract import Adapter
from mlx_engine.models.drafters.dflash import DFlash
from mlx_engine.models.drafters.eagle3 import Eagle3
from mlx_engine.models.drafters.gemma4_assistant import Gemma4Assistant
from mlx_engine.models.drafters.kinds import Drafter
from mlx_engine.values.options import DraftedBy, DraftOptions, DraftOutput
from mlx_engine.values.reason import Reason

OFF = Reason("off", "Drafting is switched off for this chat.")
NO_HEADS = Reason("no-heads", "This model has no MTP heads; it runs without drafting.")
NO_DRAFT_MODEL = Reason(
    "no-draft-model", "No draft model was given when this model was loaded: load it with one."
)
UNREAD = Reason(
    "head-unread",
    "Drafting starts with the next message: the head has not read this conversation yet.",
)
NEXT_ROUND = Reason("source-changed", "The new source drafts from the next round on.")
NO_MATCH = Reason(
    "no-match", "Prompt lookup has nothing to repeat here: these words are new to the conversation."
)


DraftModelKind = Adapter | Drafter
"""A whole model with the target's tokens, or one that reads what the target computes."""


class SmallModel(Protocol):
    """A model that can draft for the target, in memory or not yet."""

    @property
    def why_not(self) -> Reason | None:
        """Why it cannot draft for this target."""

    @property
    def share(self) -> float:
        """Its weights over those of the target."""

    def open(self) -> DraftModelKind:
        """Read it at the first call. Raises EngineError."""


@dataclass(frozen=True, slots=True)
class DraftKit:
    """What there is to draft with.

    heads: what loading found wrong with the MTP heads. read_heads: brings them into memory; free
    after the first call; raises EngineError. small: None when no draft model was given. outputs:
    output heads for the heads.
    """

    adapter: Adapter
    heads: Reason | None
    read_heads: Callable[[], None]
    small: SmallModel | None
    outputs: OutputShelf

    @property
    def small_share(self) -> float:
        """0 where there is no small model."""
        return self.small.share if self.small else 0.0


def model_of(options: DraftOptions) -> DraftedBy | None:
    """Which model the options draft with, alone or beside prompt lookup."""
    if "mtp" in options.source:
        return "mtp"
    return "model" if "model" in options.source else None


def looks_up(options: DraftOptions) -> bool:
    """Whether the options copy earlier text."""
    return options.source.startswith("prompt-lookup")


def why_no_model(options: DraftOptions, kit: DraftKit) -> Reason | None:
    """Why the model the options name cannot draft; None when it can, or they name none."""
    if kit.adapter.plain_only is not None:
        return kit.adapter.plain_only
    wanted = model_of(options)
    if wanted == "mtp" and kit.adapter.mtp_depth == 0:
        return kit.heads or NO_HEADS
    if wanted == "model":
        return kit.small.why_not if kit.small else NO_DRAFT_MODEL
    return None


def make_source(options: DraftOptions, kit: DraftKit, *, has_model: bool) -> DraftSource:
    """The source for a new conversation; opens the small model. Raises EngineError.

    has_model: the model that the options name can draft (why_no_model).
    """
    if kit.adapter.plain_only is not None:
        return NoDraft()
    model = _make_model(options, kit) if has_model else None
    if looks_up(options):
        return PromptLookupDraft() if model is None else CombinedDraft(model)
    return model or NoDraft()


def _make_model(options: DraftOptions, kit: DraftKit) -> ModelSource | None:
    wanted = model_of(options)
    if wanted == "mtp":
        kind = ChainedMtpDraft if kit.adapter.later_heads else MtpDraft
        deferred = options.depth == 0
        source = kind(kit.adapter, options.rule, options.min_probability, deferred=deferred)
        _use_outputs(source, options, kit)
        return source
    if wanted == "model" and kit.small is not None:
        return _with_draft_model(kit.small.open(), kit.adapter.vocabulary, options)
    return None


def _use_outputs(source: MtpDraft, options: DraftOptions, kit: DraftKit) -> None:
    source.output, *later = kit.outputs.take(options)
    if isinstance(source, ChainedMtpDraft):
        source.later_outputs = later


def _with_draft_model(
    drafter: DraftModelKind, vocabulary: int, options: DraftOptions
) -> ModelSource:
    rule, least = options.rule, options.min_probability
    if isinstance(drafter, Eagle3):
        return MtpDraft(drafter, rule, least, by="model")
    if isinstance(drafter, Gemma4Assistant):
        return SharedCacheDraft(drafter, rule, least)
    if isinstance(drafter, DFlash):
        return BlockDraft(drafter, rule, least)
    return SmallModelDraft(drafter, vocabulary, rule, least)


def target_for(source: DraftSource, kit: DraftKit) -> Adapter:
    """The target as this source wants it run: with features beside its hidden states, or plain."""
    if kit.small is None or not needs_hidden_states(source) or own_head(source) is not None:
        return kit.adapter
    drafter = kit.small.open()
    return drafter.target if isinstance(drafter, Drafter) else kit.adapter


def has_lost_its_place(source: DraftSource) -> bool:
    """Whether it has to read the conversation from the start to draft again."""
    part = model_part(source)
    return isinstance(part, NoDraft) or (isinstance(part, MtpDraft) and part.is_lost)


def needs_hidden_states(source: DraftSource) -> bool:
    """Whether it has to be there when the target reads."""
    return isinstance(model_part(source), MtpDraft | SharedCacheDraft | BlockDraft)


def own_head(source: DraftSource) -> MtpDraft | None:
    """The part that drafts with the target's own MTP heads, if any does."""
    part = model_part(source)
    return part if isinstance(part, MtpDraft) and part.by == "mtp" else None


def model_part(source: DraftSource) -> DraftSource:
    """The part that drafts with a model, or the source itself."""
    return source.model if isinstance(source, CombinedDraft) else source


def follow_options(
    source: DraftSource, old: DraftOptions, new: DraftOptions, kit: DraftKit
) -> None:
    """Take over what may change between rounds."""
    part = model_part(source)
    if isinstance(part, MtpDraft | SmallModelDraft | SharedCacheDraft | BlockDraft):
        part.picking = Picking(new.rule, new.min_probability)
    is_same = (old.output, old.vocabulary) == (new.output, new.vocabulary)
    head = own_head(source)
    if head is not None and not is_same:
        _use_outputs(head, new, kit)


def output_of(source: DraftSource) -> DraftOutput | None:
    """The output head that its MTP head drafts with; None where there is none."""
    head = own_head(source)
    return None if head is None else head.output.in_effect
