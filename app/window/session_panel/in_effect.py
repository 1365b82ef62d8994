"""Says what drafting does in this chat, from what is set and from the newest round."""

from app.window.session_panel.panel_values import DraftingNow, ModelAbilities
from mlx_engine.values.options import DraftOptions


def in_effect(
    draft: DraftOptions, abilities: ModelAbilities | None, now: DraftingNow | None
) -> str:
    """The truth in a sentence or two; abilities None is no model, now None no round yet."""
    if abilities is None:
        return "Nothing: no model is loaded."
    never = why_never(draft, abilities)
    if never:
        return _off(never, now)
    parts = (_now(now), _next(draft, abilities, now), _auto(draft, now))
    return " ".join(filter(None, parts))


def why_never(draft: DraftOptions, abilities: ModelAbilities) -> str:
    """Why these settings cannot draft whatever happens; "" when they can."""
    if draft.source == "none":
        return "Off: drafting is switched off for this chat."
    why = abilities.source(draft.source).why_not
    if why:
        return f"Off: {why}"
    return "Off: the depth is pinned to 0." if draft.depth == 0 else ""


def _off(never: str, now: DraftingNow | None) -> str:
    """Switched off while a round still drafts is off from the next one on."""
    if now is None or not now.is_answering or not now.depth:
        return never
    return f"Drafting {now.depth} now. From the next round on: {never[0].lower()}{never[1:]}"


def _now(now: DraftingNow | None) -> str:
    """What the newest round did."""
    if now is None:
        return ""
    if now.is_answering:
        drafting = f"Drafting {now.depth} now." if now.depth else "Not drafting in this round."
        return drafting if now.why is None else now.why.words
    if now.why is not None:
        return f"Last answer: {now.why.words}"
    return f"The last round drafted {now.depth}." if now.depth else "The last round was plain."


def _next(draft: DraftOptions, abilities: ModelAbilities, now: DraftingNow | None) -> str:
    """What comes, where it is not what is."""
    if draft.depth == "auto":
        return "" if now else "Auto: the depth is chosen when the next answer begins."
    deepest = abilities.source(draft.source).max_depth
    depth = min(draft.depth, deepest)
    limit = ", the most this model can" if depth < draft.depth else ""
    if now is None or not now.is_answering:
        return f"Pinned: {depth}{limit}."
    return "" if now.depth == depth else f"Pinned: {depth}{limit}, from the next round on."


def _auto(draft: DraftOptions, now: DraftingNow | None) -> str:
    """What the automatic choice would be, beside a pinned depth."""
    if draft.depth == "auto" or now is None or now.auto_depth is None:
        return ""
    if now.auto_depth == draft.depth:
        return "Auto would choose the same."
    return f"Auto would choose {now.auto_depth}." if now.auto_depth else "Auto would not draft."
