"""The line that says what drafting does is true in every state."""

import itertools

import pytest

from app.state.round_history import DraftingNow, LastAnswer
from app.window.session_panel.abilities import ModelAbilities, SourceAbility, in_effect
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions

CAN = ModelAbilities((SourceAbility("mtp", 4),))
NO_HEADS = "This model has no drafting heads; it runs without drafting."
CANNOT = ModelAbilities((SourceAbility("mtp", 0, NO_HEADS),))
PARKED = Reason("parked-cost", "Drafting parked: a 2-row pass costs 1.74 of one pass here.")


AUTO = "Auto: guesses ahead where it helps."
LAST = "Last answer: up to 3 tokens ahead."


def now(depth, why=None, auto=None):
    return DraftingNow(depth, why, auto)


def last(deepest, why=None):
    return LastAnswer(deepest, 9 * deepest, 7 * deepest, why)


SAID = [
    (DraftOptions(), None, None, "No model is loaded."),
    (DraftOptions(), CANNOT, None, f"Off: {NO_HEADS}"),
    (DraftOptions(), CANNOT, now(0, Reason("no-heads", "x")), f"Off: {NO_HEADS}"),
    (DraftOptions(source="model"), CAN, None, "Off: This version cannot guess from there."),
    (DraftOptions(), CAN, None, AUTO),
    (DraftOptions(), CAN, now(3), "Guessing 3 tokens ahead now."),
    (DraftOptions(), CAN, now(0, PARKED), PARKED.words),
    (DraftOptions(), CAN, now(None), "The prompt is being read."),
    (DraftOptions(), CAN, last(0, PARKED), f"Last answer: {PARKED.words}"),
    (
        DraftOptions(),
        CAN,
        last(3),
        f"{AUTO} {LAST}",
    ),
    (DraftOptions(), CAN, last(1), f"{AUTO} Last answer: 1 token ahead."),
    (DraftOptions(), CAN, last(0), f"{AUTO} The last answer was written without drafting."),
    (DraftOptions(source="none"), CAN, last(3), "Off: drafting is switched off for this chat."),
    (
        DraftOptions(depth=2),
        CAN,
        last(3),
        f"Guesses 2 tokens ahead. {LAST}",
    ),
    (DraftOptions(depth=2), CAN, None, "Guesses 2 tokens ahead."),
    (DraftOptions(depth=8), CAN, None, "Guesses 4 tokens ahead, the most this model can."),
    (
        DraftOptions(depth=2),
        CAN,
        now(2, auto=3),
        "Guessing 2 tokens ahead now. Auto would choose 3.",
    ),
    (
        DraftOptions(depth=2),
        CAN,
        now(2, auto=2),
        "Guessing 2 tokens ahead now. Auto would choose the same.",
    ),
    (
        DraftOptions(depth=2),
        CAN,
        now(2, auto=0),
        "Guessing 2 tokens ahead now. Auto would not guess: answers come faster without drafting "
        "here.",
    ),
    (
        DraftOptions(depth=2),
        CAN,
        now(3),
        "Guessing 3 tokens ahead now. From here on 2 tokens ahead.",
    ),
    (DraftOptions(depth=0), CAN, None, "Off: drafting is switched off for this chat."),
    (
        DraftOptions(source="none"),
        CAN,
        now(3),
        "Guessing 3 tokens ahead until now. From here on: off: drafting is switched off for this "
        "chat.",
    ),
]


@pytest.mark.parametrize(("draft", "abilities", "state", "words"), SAID)
def test_words(draft, abilities, state, words):
    assert in_effect(draft, abilities, state) == words


def test_a_depth_that_is_drafted_now_is_always_said_and_no_other():
    options = [DraftOptions(depth=depth) for depth in ("auto", 0, 1, 4)]
    options.append(DraftOptions(source="none"))
    for draft, depth in itertools.product(options, (1, 2, 4)):
        words = in_effect(draft, CAN, now(depth))
        ahead = "1 token" if depth == 1 else f"{depth} tokens"
        assert words.startswith(f"Guessing {ahead} ahead "), (draft, words)
        if draft.depth in ("auto", depth) and draft.source == "mtp":
            assert "From here on" not in words
