"""What the model in use can do for a chat, and a description of what drafting does."""

from dataclasses import dataclass

from app.state.round_history import DraftingNow, DraftingState
from app.values.chat_settings import THINKING
from app.window.drafting_view import PLAIN_IS_FASTER, state_in_words
from app.window.language import in_a_sentence, tr
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import (
    MAX_DEPTH,
    DraftOptions,
    DraftSourceName,
    LoadOptions,
    SamplingOptions,
)
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class SourceAbility:
    """A draft source of the model in use: the deepest draft it can make, or why it cannot.

    lacks: why it cannot yet, as long as the chat's user does not give it what it needs.
    """

    name: DraftSourceName
    max_depth: int
    why_not: str = ""
    lacks: str = ""

    @property
    def problem(self) -> str:
        """Why it cannot draft now, "" when it can."""
        return self.why_not or self.lacks


@dataclass(frozen=True, slots=True)
class ModelAbilities:
    """What the model in use can be asked for.

    recommended: the model's own sampling. can_switch_thinking: a chat can switch its thinking on or
    off. template_arguments: what else its chat template asks for, by name.
    """

    sources: tuple[SourceAbility, ...]
    recommended: SamplingOptions | None = None
    can_switch_thinking: bool = False
    template_arguments: tuple[str, ...] = ()

    def source(self, name: DraftSourceName) -> SourceAbility:
        """Return what is known of a source; an unlisted one cannot be used."""
        for ability in self.sources:
            if ability.name == name:
                return ability
        return SourceAbility(name, 0, tr("This version cannot guess from there."))


NO_HEADS = Words("This model has no drafting heads.")
NO_DRAFT_MODEL = Words("No draft model is chosen: choose one in the model's load options.")


def abilities(model: ModelDescription, options: LoadOptions | None = None) -> ModelAbilities:
    """Return the abilities of a loaded model. options: how it was loaded, None if not known.

    Prompt lookup needs nothing but a model that can take tokens back.
    """
    declined = {reason.code: reason.words for reason in model.declined}
    plain_only = declined.get("plain-only", "")
    heads = plain_only or _why_no_heads(model)
    has_small = options is not None and options.draft_model is not None
    lacks = declined.get("draft-model-misfit", "") if has_small else NO_DRAFT_MODEL
    lacks = "" if plain_only else lacks
    small = _deepest(plain_only or lacks)
    sources = (
        SourceAbility("mtp", _deepest(heads), heads),
        SourceAbility("prompt-lookup", _deepest(plain_only), plain_only),
        SourceAbility("model", small, plain_only, lacks),
        SourceAbility("prompt-lookup+mtp", _deepest(heads), heads),
        SourceAbility("prompt-lookup+model", small, plain_only, lacks),
        SourceAbility("none", 0),
    )
    return ModelAbilities(
        sources,
        model.sampling,
        model.can_switch_thinking,
        tuple(name for name in model.template_arguments if name != THINKING),
    )


def _why_no_heads(model: ModelDescription) -> str:
    if model.mtp is not None:
        return model.mtp.words
    return "" if model.mtp_heads else NO_HEADS


def _deepest(why_not: str) -> int:
    return 0 if why_not else MAX_DEPTH


def in_effect(draft: DraftOptions, abilities: ModelAbilities | None, state: DraftingState) -> str:
    """Describe what drafting does now or will do, then what it did; None for no model."""
    if abilities is None:
        return tr("No model is loaded.")
    never = why_never(draft, abilities)
    if never:
        return _off(never, state)
    parts = [state_in_words(state), _next(draft, abilities, state), _auto(draft, state)]
    if not isinstance(state, DraftingNow):
        parts.reverse()
    return " ".join(filter(None, parts))


def why_never(draft: DraftOptions, abilities: ModelAbilities) -> str:
    """Say why these settings can never draft, "" if they can."""
    if draft.source == "none":
        return tr("Off: drafting is switched off for this chat.")
    why = abilities.source(draft.source).problem
    if why:
        return tr("Off: {why}", why=why)
    return tr("Off: drafting is switched off for this chat.") if draft.depth == 0 else ""


def _off(never: str, state: DraftingState) -> str:
    """Say why nothing is drafted, or from when on."""
    if not isinstance(state, DraftingNow) or not state.depth:
        return never
    return tr(
        "Guessing {n} tokens ahead until now. From here on: {what}",
        "Guessing 1 token ahead until now. From here on: {what}",
        state.depth,
        what=in_a_sentence(never),
    )


def _next(draft: DraftOptions, abilities: ModelAbilities, state: DraftingState) -> str:
    """Say what will be drafted if that changes."""
    is_answering = isinstance(state, DraftingNow)
    if draft.depth == "auto":
        is_told = is_answering or (state is not None and state.why is not None)
        return "" if is_told else tr("Auto: guesses ahead where it helps.")
    deepest = abilities.source(draft.source).max_depth
    depth = min(draft.depth, deepest)
    limit = tr(", the most this model can") if depth < draft.depth else ""
    if not isinstance(state, DraftingNow):
        return tr(
            "Guesses {n} tokens ahead{limit}.", "Guesses 1 token ahead{limit}.", depth, limit=limit
        )
    if state.depth == depth:
        return ""
    return tr(
        "From here on {n} tokens ahead{limit}.",
        "From here on 1 token ahead{limit}.",
        depth,
        limit=limit,
    )


def _auto(draft: DraftOptions, state: DraftingState) -> str:
    """Say what the automatic depth would be, beside a fixed one."""
    auto = state.auto_depth if isinstance(state, DraftingNow) else None
    if draft.depth == "auto" or auto is None:
        return ""
    if auto == draft.depth:
        return tr("Auto would choose the same.")
    if not auto:
        return tr("Auto would not guess: {why}.", why=PLAIN_IS_FASTER)
    return tr("Auto would choose {auto}.", auto=auto)
