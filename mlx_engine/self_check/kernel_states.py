"""Describe each Metal kernel for users: what it does, and why a model does not use it."""

from collections.abc import Mapping
from types import MappingProxyType

from metal_kernels.choice import KERNELS, KernelName, Kernels, trial_name
from mlx_engine.values.model_description import KernelState
from mlx_engine.values.words import Words, join_words

KERNEL_WORDS: Mapping[KernelName, Words] = MappingProxyType(
    {
        "products": Words("the model's main calculations"),
        "tiles": Words("calculating for many tokens at once"),
        "attention": Words("looking back over the chat"),
        "delta": Words("a running summary of the chat"),
        "delta-inputs": Words("preparing the running summary"),
        "gate-up": Words("two calculations done as one"),
        "product-add": Words("calculating and adding in one go"),
        "experts": Words("parts of the model chosen for each token"),
        "prompt-products": Words("reading messages with GGUF files"),
        "prompt-experts": Words("reading messages with parts of GGUF files chosen for each token"),
        "embedding": Words("looking up tokens in GGUF files"),
        "mtp-input": Words("starting each guess"),
        "pick": Words("choosing the likeliest token"),
        "filtered-pick": Words("choosing a token by the sampling settings"),
        "noise": Words("drawing random numbers"),
        "norms": Words("keeping numbers in range"),
        "exchange": Words("mixing parallel streams of the model"),
    }
)
MISFIT = Words("Not made for models like this one.")


def kernel_states(kernels: Kernels) -> tuple[KernelState, ...]:
    """List all Metal kernels: in use by the model built with them, or why not."""
    return tuple(_describe_kernel_state(name, kernels) for name in KERNELS)


def _describe_kernel_state(name: KernelName, kernels: Kernels) -> KernelState:
    why_not = why_unused(kernels, name)
    details = join_words(formats_off(kernels, name), "; ")
    if why_not and kernels.why_none:
        details = Words("switched off: {why}", why=kernels.why_none)
    elif why_not == MISFIT:
        asked = min(kernels.asked[name])
        details = Words(
            "it takes no sizes of {outputs} x {inputs}", outputs=asked.outputs, inputs=asked.inputs
        )
    return KernelState(name, KERNEL_WORDS[name], why_not, details)


def why_unused(kernels: Kernels, name: KernelName) -> str:
    """Say plainly why no layer built so far uses a Metal kernel; "" when one does."""
    if kernels.launcher is None:
        return Words("This computer has no Metal, Apple's way to use the graphics processor.")
    asked = kernels.asked.get(name, set())
    if not asked:
        return Words("Not needed by this model.")
    if any(kernels.row_counts(name, work) for work in asked):
        return ""
    if not any(map(KERNELS[name].fits, asked)):
        return MISFIT
    return _why_kernel_off(kernels, name)


def _why_kernel_off(kernels: Kernels, name: KernelName) -> Words:
    asked = kernels.asked[name]
    if kernels.why_none or any(kernels.why_off(name, work) for work in asked):
        return Words("Switched off after an error on this GPU.")
    if any(kernels.verdict(name, work) is None for work in asked):
        return Words("Not tried on this GPU yet: that happens while no answer runs.")
    if any(kernels.needs_timing(name, work) for work in asked):
        return Words("Not timed on this GPU yet: that happens while no answer runs.")
    return Words("Measured to be no faster on this GPU.")


def formats_off(kernels: Kernels, name: KernelName) -> tuple[Words, ...]:
    """List the model's weight formats that a kernel is switched off for, with reasons."""
    asked = sorted(kernels.asked.get(name, ()))
    off = {trial_name(name, work): kernels.why_off(name, work) for work in asked}
    return tuple(
        Words("not {trial}: {why}", trial=trial, why=why) for trial, why in off.items() if why
    )
