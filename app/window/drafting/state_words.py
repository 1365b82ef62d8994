"""Says what drafting does in the answer of now, or did in the last one."""

from app.window.drafting.drafting_values import DraftingNow, DraftingState, LastAnswer


def state_in_words(state: DraftingState) -> str:
    """A sentence; "" before the first answer."""
    match state:
        case DraftingNow():
            return _now(state)
        case LastAnswer():
            return _last(state)
    return ""


def state_in_short(state: DraftingState) -> str:
    """A word or three, for the strip."""
    match state:
        case DraftingNow(depth=None):
            return "reading the prompt"
        case DraftingNow():
            is_parked = state.why is not None and state.why.code.startswith("parked")
            return f"drafting {state.depth}" if state.depth else _short(is_parked)
        case LastAnswer():
            return f"drafted up to {state.deepest}" if state.deepest else "not drafted"
    return "drafting idle"


def _short(is_parked: bool) -> str:
    return "drafting parked" if is_parked else "not drafting"


def _now(state: DraftingNow) -> str:
    if state.depth is None:
        return "The prompt is being read."
    if state.why is not None:
        return state.why.words
    return f"Drafting {state.depth} now." if state.depth else "Not drafting in this round."


def _last(state: LastAnswer) -> str:
    if state.deepest:
        tokens = "1 token" if state.deepest == 1 else f"up to {state.deepest} tokens"
        return f"The last answer drafted {tokens} a round."
    if state.why is not None:
        return f"Last answer: {state.why.words}"
    return "The last answer was decoded plainly."
