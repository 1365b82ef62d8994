"""The device's memory while models are in use: bounded, cleared as tokens pass, told when full."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import mlx.core as mx

from mlx_engine.values.errors import EngineError, OutOfMemory, is_out_of_memory
from mlx_engine.values.options import LoadOptions

MOST_CACHED = 2 * 1024**3
"""Bytes of freed buffers that MLX may keep to use again, at most."""

CACHED_SHARE = 16
"""The same as a part of what the device is recommended to hold: 0.7 GB where that is 11 GB."""

CLEAR_EVERY = 256
"""Tokens between two clearings. Keys and values grow by so many (cache/attention.py), and buffers
of an outgrown size fit nothing that comes later."""


def memory_bytes() -> int:
    """What is built in."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gpu_bytes() -> int:
    """What the GPU is recommended to hold, 0 without Metal."""
    if not mx.metal.is_available():
        return 0
    return int(mx.device_info()["max_recommended_working_set_size"])


def usable_bytes() -> int:
    """What models and their chats may use: the system wants the rest."""
    return gpu_bytes() or memory_bytes() * 2 // 3


class MemoryLimits:
    """MLX's limits, of which each process has one set.

    Cached buffers are bounded by nothing else than 1.5 times the device's memory, and nothing is
    wired: what the system pages out in a pause has to be read again. Engines come and go in any
    order, so each puts back what it has replaced itself, and `hold` is called before every answer.
    """

    def __init__(self) -> None:
        self._cached: int | None = None
        self._wired: int | None = None

    def hold(self) -> None:
        """Have ours in effect; without effect where there is no Metal, or limits of a user's own
        that are stricter.
        """
        recommended = gpu_bytes()
        if not recommended:
            return
        ours = min(MOST_CACHED, recommended // CACHED_SHARE)
        before = mx.set_cache_limit(ours)
        if before < ours:
            mx.set_cache_limit(before)
        elif before > ours:
            self._cached = before
        wired = mx.set_wired_limit(recommended)  # more would raise
        if 0 < wired < recommended:
            mx.set_wired_limit(wired)
        elif wired == 0:
            self._wired = wired

    def put_back(self) -> None:
        """What was in effect before, when this engine is not used any more."""
        mx.synchronize()
        mx.clear_cache()
        if self._cached is not None:
            mx.set_cache_limit(self._cached)
        if self._wired is not None:
            mx.set_wired_limit(self._wired)
        self._cached = self._wired = None


def clear_by_tokens(before: int, after: int) -> None:
    """Give freed buffers back where a conversation has grown over a multiple of CLEAR_EVERY."""
    if before // CLEAR_EVERY != after // CLEAR_EVERY:
        mx.synchronize()  # so that what the device has just left is among them
        mx.clear_cache()


@contextmanager
def told_when_full() -> Iterator[None]:
    """Within, memory that runs out is raised as OutOfMemory."""
    try:
        yield
    except (MemoryError, RuntimeError, ValueError) as error:
        if isinstance(error, EngineError) or not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            "Memory ran out while answering; the conversation is kept. Close other programs "
            "or chats, begin a new chat, load the model with a shorter context, or take a "
            "smaller or more strongly quantised one. MLX says: {error}",
            error=str(error),
        ) from error


def most_bytes(options: LoadOptions) -> int:
    """What a model and its conversations may take, 0 for any number."""
    return 0 if options.anyway else options.memory_bytes or usable_bytes()


def kept_bytes(options: LoadOptions, weights: int) -> int:
    """What conversations may hold: as asked, else half of what the weights leave free."""
    if options.prompt_cache_bytes is not None:
        return options.prompt_cache_bytes
    return max(0, (options.memory_bytes or usable_bytes()) - weights) // 2
