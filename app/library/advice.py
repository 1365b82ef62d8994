"""What model to get next for a machine's memory."""

from app.library.machine import Machine
from mlx_engine.values.words import size_words

SIZES = (0.8, 2, 4, 9, 27, 35, 122)
"""Billions of parameters of the Qwen3.5 family, whose models have MTP heads of their own."""

GB_A_BILLION = 0.75
"""Of memory: 0.6 GB of weights in 4 bits with their scales, the rest for long chats."""


def advice(machine: Machine) -> str:
    """In words, for the start page."""
    return (
        f"This machine gives a model {size_words(machine.usable_bytes)}. A Qwen3.5 of up to "
        f"{largest_size(machine):g}B parameters in 4 bits fits with room for long chats: take a "
        "version that kept its MTP heads."
    )


def largest_size(machine: Machine) -> float:
    """Billions of parameters that fit in 4 bits; the smallest there are if none do."""
    most = machine.usable_bytes / 1e9 / GB_A_BILLION
    return max((size for size in SIZES if size <= most), default=SIZES[0])
