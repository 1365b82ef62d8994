"""How many speedups are in use is said plainly; what each computes is in the tooltip."""

from PySide6.QtWidgets import QLabel

from app.window.drafting_view import DraftingView, kernel_names, kernels_in_words
from mlx_engine.self_check.kernel_states import KERNEL_WORDS, MISFIT
from mlx_engine.values.model_description import KernelState

UNUSED = "Not needed by this model."
KERNELS = (
    KernelState("products", "matrix products", ""),
    KernelState("attention", "attention", "Not made for models like this one.", "no 80 x 80"),
    KernelState("delta", "recurrent states", "", "not delta 64: it is wrong"),
    KernelState("pick", "token choice", ""),
    KernelState("experts", "experts read once", UNUSED),
    KernelState("noise", "noise", UNUSED),
)


def test_in_use_and_not():
    assert kernels_in_words(KERNELS).split("\n") == [
        "3 of 6 speedups are in use.",
        "1 off: Not made for models like this one.",
        "2 off: Not needed by this model.",
    ]
    assert kernels_in_words(KERNELS[:1]) == "1 of 1 speedups are in use."
    assert kernel_names(KERNELS).split("\n") == [
        "In use: matrix products, token choice.",
        "Off. Not made for models like this one: attention.",
        "In use for some number formats: recurrent states.",
        "Off. Not needed by this model: experts read once, noise.",
    ]


def test_one_reason_for_all():
    none = tuple(
        KernelState(kernel.name, kernel.words, "There is no Metal here.") for kernel in KERNELS
    )
    assert kernels_in_words(none) == "None is in use. There is no Metal here."
    assert kernels_in_words(()) == "None is in use."


def test_names_are_in_the_tooltip_only(qtbot):
    view = DraftingView()
    qtbot.addWidget(view)
    states = [KernelState(name, words, "") for name, words in KERNEL_WORDS.items()]
    view.show_kernels(states)
    labels = view.findChildren(QLabel)
    count = len(KERNEL_WORDS)
    in_use = f"{count} of {count} speedups are in use."
    (told,) = (one for one in labels if one.text() == in_use)
    for words in KERNEL_WORDS.values():
        assert words in " ".join(told.toolTip().split())
        assert words in told.accessibleDescription()
        assert not any(words in one.text() for one in labels)


def test_no_word_of_the_engine_is_shown():
    told = f"{' '.join(KERNEL_WORDS.values())} {MISFIT}".replace(".", "").lower().split()
    assert not {"rows", "sizes", "kernel", "matrix", "tensor", "logits", "pass"}.intersection(told)
