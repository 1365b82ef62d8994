"""Describe each Metal kernel for users: what it does, and why a model does not use it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from metal_kernels.choice import KERNELS, KernelName, Kernels, KernelWork, trial_name
from mlx_engine.values.model_description import KernelState
from mlx_engine.values.words import Words, joined

KERNEL_WORDS: Mapping[KernelName, Words] = MappingProxyType(
    {
        "products": Words("matrix products"),
        "attention": Words("attention"),
        "delta": Words("recurrent states"),
        "delta-inputs": Words("inputs of recurrent states"),
        "gate-up": Words("fused gate and up projections"),
        "product-add": Words("products added to the residual"),
        "experts": Words("each chosen expert read once"),
        "prompt-products": Words("prompt products on GGUF blocks"),
        "prompt-experts": Words("prompt experts on GGUF blocks"),
        "embedding": Words("embeddings in GGUF blocks"),
        "mtp-input": Words("input of drafting heads"),
        "pick": Words("token choice without logits"),
        "filtered-pick": Words("token choice with filters"),
        "noise": Words("sampling noise"),
        "norms": Words("norms with float32 weights"),
    }
)


def kernel_states(kernels: Kernels) -> tuple[KernelState, ...]:
    """List all Metal kernels: in use by the model built with them, or why not."""
    return tuple(_state(name, kernels) for name in KERNELS)


def _state(name: KernelName, kernels: Kernels) -> KernelState:
    why_not = why_unused(kernels, name)
    formats = () if why_not else formats_off(kernels, name)
    return KernelState(name, joined((KERNEL_WORDS[name], *formats), "; "), why_not)


def why_unused(kernels: Kernels, name: KernelName) -> str:
    """Say why no layer built so far uses a Metal kernel; "" when one does."""
    if kernels.launcher is None:
        return Words("This computer has no Metal: they are not in use.")
    asked = sorted(kernels.asked.get(name, ()))
    if not asked:
        return Words("No layer of this model can use it.")
    if any(kernels.rows(name, work) for work in asked):
        return ""
    if not any(map(KERNELS[name].fits, asked)):
        sizes = {"outputs": asked[0].outputs, "inputs": asked[0].inputs}
        return Words("It takes no sizes of {outputs} x {inputs}, which this model has.", **sizes)
    return _why_off(kernels, name, asked)


def _why_off(kernels: Kernels, name: KernelName, asked: Sequence[KernelWork]) -> Words:
    reasons = [kernels.why_none, *(kernels.why_off(name, work) for work in asked)]
    for why in filter(None, reasons):
        return Words("Switched off: {why}.", why=why)
    if any(kernels.verdict(name, work) is None for work in asked):
        return Words("It waits to be tried on this GPU, after an answer.")
    if any(kernels.needs_timing(name, work) for work in asked):
        return Words("It waits to be timed on this GPU, after an answer.")
    return Words("Stock MLX is measured to be as fast here.")


def formats_off(kernels: Kernels, name: KernelName) -> tuple[Words, ...]:
    """List the model's weight formats that a kernel in use is switched off for, with reasons."""
    asked = sorted(kernels.asked.get(name, ()))
    off = {trial_name(name, work): kernels.why_off(name, work) for work in asked}
    return tuple(
        Words("not {trial}: {why}", trial=trial, why=why) for trial, why in off.items() if why
    )
