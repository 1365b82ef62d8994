"""Which kernels are in use is said on a line; the others share a line for each reason."""

from app.window.drafting.drafting_view import lanes_in_words
from mlx_engine.values.lane_state import LaneState

LANES = (
    LaneState("products", "matrix products", ""),
    LaneState("attention", "attention", "It does not fit this model: heads of 80."),
    LaneState("delta", "recurrent states", ""),
    LaneState("experts", "experts read once", "No layer of this model can use it."),
    LaneState("noise", "noise", "No layer of this model can use it."),
)


def test_in_use_and_not() -> None:
    assert lanes_in_words(LANES).split("\n") == [
        "In use: matrix products, recurrent states.",
        "Not attention: It does not fit this model: heads of 80.",
        "Not experts read once, noise: No layer of this model can use it.",
    ]


def test_one_reason_for_all() -> None:
    none = tuple(LaneState(lane.name, lane.words, "There is no Metal here.") for lane in LANES)
    assert lanes_in_words(none) == "There is no Metal here."
    assert lanes_in_words(()) == "No model is in use."
