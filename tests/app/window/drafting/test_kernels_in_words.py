"""Which kernels are in use is said on a line; the others share a line for each reason."""

from app.window.drafting_view import kernels_in_words
from mlx_engine.values.model_description import KernelState

KERNELS = (
    KernelState("products", "matrix products", ""),
    KernelState("attention", "attention", "It does not fit this model: heads of 80."),
    KernelState("delta", "recurrent states", ""),
    KernelState("experts", "experts read once", "No layer of this model can use it."),
    KernelState("noise", "noise", "No layer of this model can use it."),
)


def test_in_use_and_not():
    assert kernels_in_words(KERNELS).split("\n") == [
        "In use: matrix products, recurrent states.",
        "Not attention: It does not fit this model: heads of 80.",
        "Not experts read once, noise: No layer of this model can use it.",
    ]


def test_one_reason_for_all():
    none = tuple(
        KernelState(kernel.name, kernel.words, "There is no Metal here.") for kernel in KERNELS
    )
    assert kernels_in_words(none) == "There is no Metal here."
    assert kernels_in_words(()) == "None is in use."
