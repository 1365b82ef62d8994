"""Device memory: its size, MLX's limits while generating, out-of-memory errors."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import mlx.core as mx

from mlx_engine.values.errors import EngineError, OutOfMemory, is_out_of_memory
from mlx_engine.values.options import LoadOptions

MOST_CACHED = 2 * 1024**3
"""Bytes of freed buffers that MLX may keep for reuse, at most."""

CACHED_SHARE = 16
"""Freed buffers take at most 1/16 of the recommended working set: 0.7 GB of 11 GB."""

CLEAR_EVERY = 256
"""Tokens between two clearings. Keys and values grow by so many (cache/attention.py), and buffers
of an outgrown size fit nothing that comes later."""


def memory_bytes() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gpu_bytes() -> int:
    """Return the recommended working set of the GPU in bytes, 0 without Metal."""
    if not mx.metal.is_available():
        return 0
    return int(mx.device_info()["max_recommended_working_set_size"])


def usable_bytes() -> int:
    """Return the bytes that models and their chats may use; the rest is for the system."""
    return gpu_bytes() or memory_bytes() * 2 // 3


class MemoryLimits:
    """Sets MLX's limits of cached and wired memory, per process, while an engine generates.

    Without them MLX keeps freed buffers up to 1.5 times the device's memory and wires nothing: the
    system may page weights out, and the GPU then waits for them. Memory is wired only while
    generating, as by mlx-lm's `wired_limit`.
    """

    def __init__(self) -> None:
        self._answers = 0
        self._replaced = ExitStack()

    @contextmanager
    def generating(self) -> Iterator[None]:
        """Context in which MLX's memory limits are set, until the last of several answers ends.

        Has no effect without Metal.
        """
        most = gpu_bytes()
        if most and not self._answers:
            self._limit(mx.set_cache_limit, min(MOST_CACHED, most // CACHED_SHARE))
            self._limit(mx.set_wired_limit, most, unlimited=0)  # more would raise
            self._replaced.callback(mx.synchronize)  # first: limits change while nothing runs
        self._answers += 1
        try:
            yield
        finally:
            self._answers -= 1
            if not self._answers:
                self._replaced.close()

    def _limit(self, limit: Callable[[int], int], ours: int, unlimited: int = -1) -> None:
        """Set an MLX memory limit until the last answer ends, unless a stricter one is set."""
        before = limit(ours)
        if before < ours and before != unlimited:
            limit(before)
        elif before != ours:
            self._replaced.callback(limit, before)


@contextmanager
def translate_oom() -> Iterator[None]:
    """Context that raises OutOfMemory if MLX or Python reports that memory ran out."""
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
    """Return the bytes that a model and its conversations may take; 0 for no limit."""
    return 0 if options.anyway else options.memory_bytes or usable_bytes()


def prompt_cache_bytes_of(options: LoadOptions, weights: int) -> int:
    """Return the bytes that conversations may hold: the option's, else half of what is left."""
    if options.prompt_cache_bytes is not None:
        return options.prompt_cache_bytes
    return max(0, (options.memory_bytes or usable_bytes()) - weights) // 2
