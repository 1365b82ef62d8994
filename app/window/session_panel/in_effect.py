"""Says what drafting does in this chat, from what is set and from the newest round."""

from app.window.drafting.drafting_values import DraftingNow, DraftingState
from app.window.drafting.state_words import state_in_words
from app.window.session_panel.panel_values import ModelAbilities
from mlx_engine.values.options import DraftOptions


def in_effect(draft: DraftOptions, abilities: ModelAbilities | None, state: DraftingState) -> str:
    """The truth in a sentence or two; abilities None is no model."""
    if abilities is None:
        return "Nothing: no model is loaded."
    never = why_never(draft, abilities)
    if never:
        return _off(never, state)
    next_words = _next(draft, abilities, state)
    return " ".join(filter(None, (state_in_words(state), next_words, _auto(draft, state))))


def why_never(draft: DraftOptions, abilities: ModelAbilities) -> str:
    """Why these settings cannot draft whatever happens; "" when they can."""
    if draft.source == "none":
        return "Off: drafting is switched off for this chat."
    why = abilities.source(draft.source).why_not
    if why:
        return f"Off: {why}"
    return "Off: the depth is pinned to 0." if draft.depth == 0 else ""


def _off(never: str, state: DraftingState) -> str:
    """Switched off while a round still drafts is off from the next one on."""
    if not isinstance(state, DraftingNow) or not state.depth:
        return never
    return f"Drafting {state.depth} now. From the next round on: {never[0].lower()}{never[1:]}"


def _next(draft: DraftOptions, abilities: ModelAbilities, state: DraftingState) -> str:
    """What comes, where it is not what is."""
    is_answering = isinstance(state, DraftingNow)
    if draft.depth == "auto":
        return "" if is_answering else "Auto: the next answer drafts as much as pays."
    deepest = abilities.source(draft.source).max_depth
    depth = min(draft.depth, deepest)
    limit = ", the most this model can" if depth < draft.depth else ""
    if not isinstance(state, DraftingNow):
        return f"Pinned: {depth}{limit}."
    return "" if state.depth == depth else f"Pinned: {depth}{limit}, from the next round on."


def _auto(draft: DraftOptions, state: DraftingState) -> str:
    """What the automatic choice would be, beside a pinned depth."""
    auto = state.auto_depth if isinstance(state, DraftingNow) else None
    if draft.depth == "auto" or auto is None:
        return ""
    if auto == draft.depth:
        return "Auto would choose the same."
    return f"Auto would choose {auto}." if auto else "Auto would not draft."
